"""The corpus in the full style: a chat model reads in it what the environment will tell it."""

from __future__ import annotations

import collections
from pathlib import Path

import numpy as np
import pytest

from wmrl_gym.core import Outcome
from wmrl_gym.corpus.generator import full_style, tasks
from wmrl_gym.corpus.generator.conversations import Written, fenced
from wmrl_gym.corpus.generator.full_style import (
    FullTask,
    draw_full_conversation,
    full_corpus,
    full_feedback,
    full_tasks,
)
from wmrl_gym.envs.mle_dojo.env import MLEDojoEnv

NAME = "diabetes_progression"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("competitions")


@pytest.fixture(scope="module")
def task(root: Path) -> FullTask:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tasks, "train_competitions", lambda: [NAME])
        (only,) = full_tasks(root)
    return only


def test_first_message_is_the_environments_own(root: Path, task: FullTask) -> None:
    environment = MLEDojoEnv(NAME, data_root=root, overview_style="full")
    turns = draw_full_conversation([task], np.random.default_rng(0))
    assert turns[0][0] == environment.reset(seed=0)[0]


def test_later_messages_are_what_the_environment_says_to_the_same_feedback(root: Path, task: FullTask) -> None:
    rng = np.random.default_rng(1)
    for turns in (draw_full_conversation([task], rng, turns=2) for _ in range(20)):
        told = turns[1][0]
        feedback = told.rpartition("\n\n")[0]
        valid = feedback.startswith("Valid submission.")
        share = float(feedback.rpartition("than ")[2].split("%")[0]) / 100 if valid else None
        outcome = Outcome(
            0.5 if valid else 0.1, "valid" if valid else "runtime_error", feedback, details={"percentile": share}
        )
        environment = MLEDojoEnv(NAME, data_root=root, overview_style="full", runner=lambda _, outcome=outcome: outcome)
        environment.reset(seed=0)
        assert environment.step(turns[0][1])[0] == told


def test_scripts_are_about_the_task_and_every_kind_of_fault_is_told(task: FullTask) -> None:
    drawn = full_corpus([task], 2)
    kinds: collections.Counter[str] = collections.Counter()
    for turns, _ in zip(drawn, range(300), strict=False):
        assert all(f'"{task.facts.target}"' in answer or "sample_submission" in answer for _, answer in turns[:1])
        kinds.update(told.split(" ")[0] + " " + told.split(" ")[1] for told, _ in turns[1:])
    assert {"Valid submission.", "The script", "The code"} <= set(kinds)


def test_time_out_and_invalid_submission_read_as_in_the_sandbox(task: FullTask) -> None:
    rng = np.random.default_rng(3)
    plan = full_style.draw_plan(task.facts, full_style.draw_author(rng), rng)
    assert "was stopped after 20s" in full_feedback(Written(plan, "", "timeout"), None, rng)
    invalid = full_feedback(Written(plan, "", "invalid: no column 'x'"), None, rng)
    assert invalid == "The script ran, but its submission is invalid: no column 'x'."
    assert fenced("pass\n") == "```python\npass\n```"
