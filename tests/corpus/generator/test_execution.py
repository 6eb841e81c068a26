"""The corpus against the truth: scripts meant to run do run, and every mistake fails as it says, in the sandbox."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from wmrl_gym.core import Outcome, Submission
from wmrl_gym.corpus.generator.authors import draw_author, draw_plan
from wmrl_gym.corpus.generator.conversations import feedback
from wmrl_gym.corpus.generator.facts import TaskFacts, parse_facts
from wmrl_gym.corpus.generator.mistakes import MISTAKES, Mistake
from wmrl_gym.corpus.generator.scripts import render_plan
from wmrl_gym.envs.mle_dojo.catalogue import prepare
from wmrl_gym.envs.mle_dojo.competition import load_competition
from wmrl_gym.envs.mle_dojo.overview_building import build_overview
from wmrl_gym.envs.mle_dojo.overview_text import render_overview
from wmrl_gym.envs.mle_dojo.runner import CompetitionRunner
from wmrl_gym.execution.limits import SandboxLimits
from wmrl_gym.execution.sandbox import Sandbox

pytestmark = pytest.mark.slow

SMALL = (
    *("penguin_body_mass", "births_per_woman", "diabetes_progression", "breast_cancer_diagnosis"),
    *("colour_brightness", "first_name_gender", "digits_8x8"),
)


@pytest.fixture(scope="module")
def data_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("competitions")
    for name in SMALL:
        prepare(name, root)
    return root


@pytest.fixture(scope="module")
def tasks(data_root: Path) -> dict[str, TaskFacts]:
    overviews = {name: build_overview(load_competition(data_root, name)) for name in SMALL}
    return {name: parse_facts(render_overview(overview, style="compact")) for name, overview in overviews.items()}


@pytest.fixture(scope="module")
def run(data_root: Path) -> Callable[..., Outcome]:
    def execute(name: str, script: str, wall_seconds: float = 20) -> Outcome:
        sandbox = Sandbox(SandboxLimits(wall_seconds=wall_seconds))
        return CompetitionRunner(data_root, sandbox=sandbox, feedback_chars=390)(Submission(name, script))

    return execute


def test_facts_render_the_environments_own_overview(data_root: Path, tasks: dict[str, TaskFacts]) -> None:
    for name, facts in tasks.items():
        overview = build_overview(load_competition(data_root, name))
        assert facts.render() == render_overview(overview, style="compact")


@pytest.mark.parametrize("name", SMALL)
def test_scripts_meant_to_run_are_valid(name: str, tasks: dict[str, TaskFacts], run: Callable[..., Outcome]) -> None:
    rng = np.random.default_rng(SMALL.index(name))
    outcome = run(name, render_plan(draw_plan(tasks[name], draw_author(rng), rng)))
    assert outcome.status == "valid", outcome.feedback


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.name)
def test_mistake_fails_in_its_intended_way(
    mistake: Mistake, tasks: dict[str, TaskFacts], run: Callable[..., Outcome]
) -> None:
    rng = np.random.default_rng(0)
    # What penguins miss is a text column: their numbers are complete.
    names = [name for name in SMALL if mistake.name != "missing_into_fit" or name != "penguin_body_mass"]
    for _ in range(5000):
        name = names[rng.integers(len(names))]
        plan = draw_plan(tasks[name], draw_author(rng), rng)
        script = render_plan(plan)
        faulty = mistake.edit(plan, script, rng)
        if faulty is not None and faulty.script != script:
            break
    else:
        pytest.fail("never applies")
    outcome = run(name, faulty.script, wall_seconds=6 if mistake.status == "timeout" else 20)
    assert outcome.status == mistake.status, outcome.feedback
    if mistake.status == "runtime_error":
        expected = faulty.complaint.split(":")[0].rpartition(".")[2]
        assert outcome.details["exception"] == expected
    said = feedback(plan, faulty.script, faulty.complaint, rng).split("\n")
    if mistake.status != "timeout":
        assert outcome.feedback.split("\n")[-1] == said[-1]  # the failing line, or what is invalid
