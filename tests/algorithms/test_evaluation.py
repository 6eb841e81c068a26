from __future__ import annotations

from typing import Any

import pytest

from tests.algorithms.letters import LetterEnv, LetterPolicy
from wmrl_gym.algorithms.evaluation import EpisodeRecord, Evaluation, evaluate
from wmrl_gym.core import Outcome, Submission


def record(task: str, metric: float | None, known: bool = True) -> EpisodeRecord:
    return EpisodeRecord(task, metric, known, ("valid",), (metric,))


def test_failures_count_as_zero_and_unknown_episodes_not_at_all() -> None:
    records = (record("a", 0.8), record("a", None), record("a", 0.4, known=False), record("b", 0.5))
    evaluation = Evaluation(records, 3, 0.8, 4, 1.0)
    assert evaluation.task_scores() == {"a": pytest.approx(0.4), "b": 0.5}
    assert evaluation.valid() == {"a": [1.0, 0.0], "b": [1.0]}
    assert evaluation.unknown == 1


def test_categories_weigh_alike() -> None:
    records = (record("a", 0.2), record("b", 0.4), record("c", 0.9))
    evaluation = Evaluation(records, 1, 0.8, 3, 1.0)
    assert evaluation.category_average({"a": "x", "b": "x", "c": "y"}) == pytest.approx(0.6)


def test_everything_is_executed_and_the_same_seed_gives_the_same_episodes() -> None:
    first, again = (evaluate(LetterPolicy(), [LetterEnv] * 8, ["p", "q"], samples=4, seed=5) for _ in range(2))
    assert first.executions == 16
    assert first.records == again.records
    assert {r.task for r in first.records} == {"p", "q"}


def test_an_execution_that_fails_excludes_its_episode() -> None:
    class Flaky(LetterEnv):
        def execute(self, submission: Submission) -> Outcome:
            return Outcome(None, "unknown") if submission.content in "abcd" else super().execute(submission)

    evaluation: Any = evaluate(LetterPolicy(), [Flaky] * 32, ["p"], samples=32)
    assert 0 < evaluation.unknown < 32
    assert len(evaluation.scores()["p"]) == 32 - evaluation.unknown
