"""The agents without a model: their scripts are sound, drawn by the overview, and really run."""

from __future__ import annotations

import pytest

from wmrl_gym.core import Submission
from wmrl_gym.corpus.generator.estimators import estimators_for
from wmrl_gym.corpus.generator.facts import TaskFacts
from wmrl_gym.envs.mle_dojo.actions import parse_action
from wmrl_gym.envs.mle_dojo.catalogue import prepare
from wmrl_gym.envs.mle_dojo.overview_text import render_overview
from wmrl_gym.envs.mle_dojo.runner import CompetitionRunner
from wmrl_gym.policies.baselines import FIXED, REQUEST, SAMPLE_COPIED, FixedPipeline, RandomPipelines, plan_of

COMPETITIONS = ("diabetes_progression", "titanic_survival", "word_valence", "digits_8x8")
FACTS = [
    TaskFacts("tabular", "auc", "id", "sold", 100, 50, ("a", "b"), ("c",), missing=True),
    TaskFacts("tabular", "rmsle", "id", "price", 100, 50, ("a", "b")),
    TaskFacts("text", "macro_f1", "id", "kind", 100, 50, text_column="words"),
    TaskFacts("text", "rmse", "id", "worth", 100, 50, text_column="words"),
    TaskFacts("image", "accuracy", "id", "digit", 100, 50, image_size=(8, 8)),
    TaskFacts("image", "mae", "id", "depth", 100, 50, image_size=(8, 8), image_mode="RGB"),
]


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory) -> CompetitionRunner:
    root = tmp_path_factory.mktemp("competitions")
    for name in COMPETITIONS:
        prepare(name, root)
    return CompetitionRunner(data_root=root, sandbox_start="warm")


def overview(runner: CompetitionRunner, name: str) -> str:
    return render_overview(runner.competition(name).overview, "compact")


def scripts(policy: RandomPipelines | FixedPipeline, observation: str, count: int) -> list[str]:
    decisions = policy.act([observation] * count, histories=[[]] * count, seeds=[(1, i) for i in range(count)])
    return [parse_action(decision.action).code for decision in decisions]


@pytest.mark.parametrize("name", COMPETITIONS)
def test_scripts_of_both_really_run_and_hand_in_something_valid(runner: CompetitionRunner, name: str) -> None:
    codes = [
        *scripts(RandomPipelines(), overview(runner, name), 3),
        *scripts(FixedPipeline(), overview(runner, name), 1),
    ]
    outcomes = [runner(Submission(name, code, {})) for code in codes]
    assert [outcome.status for outcome in outcomes] == ["valid"] * 4, [outcome.feedback for outcome in outcomes]
    assert outcomes[-1].details["percentile"] > 0.3


@pytest.mark.parametrize("facts", FACTS, ids=lambda facts: f"{facts.modality}-{facts.metric}")
def test_random_pipelines_are_many_sound_and_repeatable(facts: TaskFacts) -> None:
    drawn = scripts(RandomPipelines(), facts.render(), 60)
    assert drawn == scripts(RandomPipelines(), facts.render(), 60)
    assert len(set(drawn)) > 20
    for code in drawn:
        compile(code, "script.py", "exec")
    named = {
        estimator.name for estimator in estimators_for(facts) for code in drawn if f"import {estimator.name}" in code
    }
    assert len(named) > len(estimators_for(facts)) / 2


@pytest.mark.parametrize("facts", FACTS, ids=lambda facts: f"{facts.modality}-{facts.metric}")
def test_the_fixed_pipeline_suits_the_metric(facts: TaskFacts) -> None:
    [code] = scripts(FixedPipeline(), facts.render(), 1)
    compile(code, "script.py", "exec")
    assert FIXED[facts.modality, facts.regression].estimator in code
    assert ("predict_proba" in code) == (facts.metric == "auc")
    assert ("log1p" in code) == (facts.metric == "rmsle")
    assert plan_of(facts).estimator in estimators_for(facts)


def test_later_turns_search_on_or_run_nothing() -> None:
    seen = FACTS[0].render()
    for policy, repeats in ((RandomPipelines(), False), (FixedPipeline(), True)):
        [first] = policy.act([seen], histories=[[]], seeds=[(0, 0)])
        [second] = policy.act(["error KeyError"], histories=[[first]], seeds=[(0, 1)])
        assert (second.action == REQUEST) is repeats
        assert repeats or second.action != first.action


def test_a_competition_with_several_targets_gets_its_sample_submission_back() -> None:
    seen = "tabular rmse min\nid id\ntarget x y\ntrain 10 test 5\nnum a\nmissing no\nsubmit id x y"
    for policy in (RandomPipelines(), FixedPipeline()):
        assert scripts(policy, seen, 1) == [SAMPLE_COPIED]


def test_a_full_overview_is_refused_with_what_to_do() -> None:
    with pytest.raises(ValueError, match="mle_dojo_compact"):
        scripts(FixedPipeline(), "You are a machine-learning engineer.\n# Task\ncompetition: x", 1)
