from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import pytest

from wmrl_gym.algorithms.evaluation import EpisodeRecord, Evaluation, EvaluationSettings, evaluate
from wmrl_gym.core import ExecutorError, Measure, Outcome, Submission, Trajectory
from wmrl_gym.execution.local import LocalExecutor

from .letters import TRUTH, LetterEnv, LetterPolicy


def record(task: str, metric: float | None, known: bool = True) -> EpisodeRecord:
    return EpisodeRecord(task, metric, known, ("valid",), (metric,))


def test_failures_count_as_zero_and_unknown_episodes_not_at_all() -> None:
    records = (record("a", 0.8), record("a", None), record("a", 0.4, known=False), record("b", 0.5))
    evaluation = Evaluation(records, 3, 0.8, 4, 1.0)
    assert evaluation.task_scores() == {"a": pytest.approx(0.4), "b": 0.5}
    assert evaluation.achieved() == {"a": [1.0, 0.0], "b": [1.0]}
    assert evaluation.unknown == 1


def test_categories_weigh_alike() -> None:
    records = (record("a", 0.2), record("b", 0.4), record("c", 0.9))
    evaluation = Evaluation(records, 1, 0.8, 3, 1.0)
    assert evaluation.category_average({"a": "x", "b": "x", "c": "y"}) == pytest.approx(0.6)


def test_everything_is_executed_and_the_same_seed_gives_the_same_episodes() -> None:
    first, again = (
        evaluate(LetterPolicy(), [LetterEnv] * 8, ["p", "q"], EvaluationSettings(samples=4, seed=5)) for _ in range(2)
    )
    assert first.executions == 16
    assert first.records == again.records
    assert {r.task for r in first.records} == {"p", "q"}


def test_an_execution_that_fails_excludes_its_episode() -> None:
    class Flaky(LetterEnv):
        def execute(self, submission: Submission) -> Outcome:
            return Outcome(None, "unknown") if submission.content in "abcd" else super().execute(submission)

    evaluation: Any = evaluate(LetterPolicy(), [Flaky] * 32, ["p"], EvaluationSettings(samples=32))
    assert 0 < evaluation.unknown < 32
    assert len(evaluation.scores()["p"]) == 32 - evaluation.unknown


def test_task_score_is_the_share_of_valid_episodes_times_the_mean_of_their_best_percentiles() -> None:
    """Only letters from e on are valid here; their percentile is not their score on the ladder."""

    class Graded(LetterEnv):
        measures = (Measure("percentile"),)
        success_status = "valid"

        def execute(self, submission: Submission) -> Outcome:
            if submission.content < "e":
                return Outcome(0.1, "runtime_error", details={"percentile": None})
            worth = TRUTH[submission.content]
            return Outcome(0.5 + 0.5 * worth, "valid", details={"percentile": worth})

    evaluation = evaluate(LetterPolicy(), [lambda: Graded(turns=1)] * 40, ["p"], EvaluationSettings(samples=40))
    percentiles = [record.metric for record in evaluation.records if record.metric is not None]
    assert 0 < len(percentiles) < 40
    expected = len(percentiles) / 40 * sum(percentiles) / len(percentiles)
    assert evaluation.task_scores()["p"] == pytest.approx(expected)
    assert sum(evaluation.achieved()["p"]) == len(percentiles)
    assert {status for record in evaluation.records for status in record.statuses} == {"valid", "runtime_error"}


def test_the_best_turn_counts_and_a_task_without_known_episode_has_no_score() -> None:
    evaluation = evaluate(LetterPolicy(), [LetterEnv] * 8, ["p"], EvaluationSettings(samples=8))
    assert all(record.metric == max(value for value in record.turn_metrics if value is not None)
               for record in evaluation.records)  # fmt: skip
    assert Evaluation((record("a", 0.8, known=False),), 1, 0.8, 1, 1.0).task_scores() == {"a": None}


def test_measures_given_take_the_place_of_the_domains_usual_one() -> None:
    evaluation = evaluate(
        LetterPolicy(),
        [LetterEnv] * 4,
        ["p"],
        EvaluationSettings(samples=4),
        measures={
            "quarter": lambda trajectory: [0.25 for _ in trajectory.turns],
            "turns": lambda trajectory: range(1, len(trajectory.turns) + 1),
        },
    )
    assert evaluation.scores() == {"p": [0.25] * 4} and evaluation.other_scores("turns") == {"p": [2] * 4}
    assert all(record.others == {"turns": 2} for record in evaluation.records)


def test_an_executor_changes_no_result_and_is_left_open_while_environments_are_closed() -> None:
    closed: list[int] = []

    class Closing(LetterEnv):
        def close(self) -> None:
            closed.append(1)

    executor = LocalExecutor(LetterEnv().execute, max_workers=2)
    try:
        pooled = evaluate(
            LetterPolicy(), [Closing] * 8, ["p", "q"], EvaluationSettings(samples=4, seed=5), executor=executor
        )
        assert executor.submit(Submission("letters", "h")).result().score == 1.0
    finally:
        executor.close()
    assert (
        pooled.records
        == evaluate(LetterPolicy(), [LetterEnv] * 8, ["p", "q"], EvaluationSettings(samples=4, seed=5)).records
    )
    assert len(closed) == 8


def test_another_seed_gives_other_episodes() -> None:
    one, other = (evaluate(LetterPolicy(), [LetterEnv] * 8, ["p"], EvaluationSettings(seed=seed)) for seed in (1, 2))
    assert one.records != other.records


def test_a_percentile_of_a_submission_that_failed_does_not_count() -> None:
    class Failing(LetterEnv):
        measures = (Measure("percentile"),)
        success_status = "valid"

        def execute(self, submission: Submission) -> Outcome:
            return Outcome(0.1, "timeout", details={"percentile": 0.9})

    evaluation = evaluate(LetterPolicy(), [Failing] * 4, ["p"], EvaluationSettings(samples=4))
    assert evaluation.achieved() == {"p": [0.0] * 4}
    assert evaluation.task_scores() == {"p": 0.0}


def test_slices_play_the_same_episodes_as_all_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []

    def make() -> LetterEnv:
        made.append(LetterEnv())
        return made[-1]

    def seen(trajectory: Trajectory) -> list[float | None]:
        """Where the episode began, and what was written: both come from its random streams."""
        first = trajectory.turns[0].decision
        return [float(first.observation.split()[-1]) + float(first.token_ids[0])]

    tasks = ["p", "q", "r", "s", "t"]
    whole = evaluate(LetterPolicy(), [make] * 15, tasks, EvaluationSettings(samples=3), measures={"seen": seen})
    assert len(made) == 15 and len({record.turn_metrics for record in whole.records}) > 5
    made.clear()
    monkeypatch.setattr("wmrl_gym.algorithms.evaluation.MAX_EPISODES", 7)
    sliced = evaluate(LetterPolicy(), [make] * 15, tasks, EvaluationSettings(samples=3), measures={"seen": seen})
    assert sliced.records == whole.records and sliced.executions == whole.executions
    assert len(made) == 6


def test_saved_slices_are_not_played_again_and_change_nothing() -> None:
    tasks, saved = ["p", "q", "r", "s", "t"], []
    whole = evaluate(LetterPolicy(), [LetterEnv] * 40, tasks, EvaluationSettings(seed=5), on_slice=saved.append)
    assert [len(part.records) for part in saved] == [16, 16, 8]
    kept = [Evaluation.from_dict(json.loads(json.dumps(part.to_dict()))) for part in saved]
    assert kept == saved
    for count in range(4):
        rest: list[Evaluation] = []
        again = evaluate(
            LetterPolicy(),
            [LetterEnv] * 40,
            tasks,
            EvaluationSettings(seed=5),
            played=kept[:count],
            on_slice=rest.append,
        )
        assert again.records == whole.records and again.executions == whole.executions == 80
        assert len(rest) == 3 - count


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda parts: parts[1:], "the 24 episodes played already, of r, s, t,"),
        (lambda parts: [parts[0], parts[0]], "the 32 episodes"),
        (lambda parts: [replace(parts[0], records=parts[0].records[:-1])], "the 15 episodes"),
        (lambda parts: [replace(parts[0], samples=16)], "8 of each task at temperature 0.8: p, q, r, s, t"),
        (lambda parts: [replace(parts[0], temperature=1.0)], "the 16 episodes"),
    ],
)
def test_slices_that_are_not_the_first_of_the_evaluation_are_refused(
    change: Callable[[list[Evaluation]], list[Evaluation]], told: str
) -> None:
    saved: list[Evaluation] = []
    evaluate(LetterPolicy(), [LetterEnv] * 40, list("pqrst"), on_slice=saved.append)
    with pytest.raises(ValueError, match=told):
        evaluate(LetterPolicy(), [LetterEnv] * 40, list("pqrst"), played=change(saved))


def test_so_many_failures_in_a_row_end_the_evaluation() -> None:
    class Dead(LetterEnv):
        def execute(self, submission: Submission) -> Outcome:
            return Outcome(None, "unknown")

    for allowed in (7, 9):
        with pytest.raises(ExecutorError) if allowed == 7 else nullcontext():
            evaluate(
                LetterPolicy(), [lambda: Dead(turns=1)] * 8, ["p"], EvaluationSettings(max_consecutive_failures=allowed)
            )


@pytest.mark.parametrize(("concurrency", "sizes"), [(4, [16, 16, 8]), (24, [24, 16])])
def test_saved_slices_keep_an_agent_that_answers_many_at_once_busy(concurrency: int, sizes: list[int]) -> None:
    saved: list[Evaluation] = []
    policy: Any = LetterPolicy()
    policy.concurrency = concurrency
    evaluate(policy, [LetterEnv] * 40, list("pqrst"), on_slice=saved.append)
    assert [len(part.records) for part in saved] == sizes


def test_saved_slices_keep_an_executor_of_many_places_busy() -> None:
    executor = LocalExecutor(LetterEnv().execute, max_workers=12)
    saved: list[Evaluation] = []
    try:
        evaluate(LetterPolicy(), [LetterEnv] * 40, list("pqrst"), executor=executor, on_slice=saved.append)
    finally:
        executor.close()
    assert [len(part.records) for part in saved] == [24, 16]


@pytest.mark.parametrize("number", [{"samples": 0}, {"max_consecutive_failures": 0}, {"temperature": -0.1}])
def test_numbers_out_of_their_range_are_refused_by_name(number: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=f"EvaluationSettings.{next(iter(number))} is"):
        EvaluationSettings(**number)
