from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from wmrl_gym.reporting.comparison import Comparison, compare_arms
from wmrl_gym.reporting.comparison_curve import AXES, Curve, Point
from wmrl_gym.reporting.comparison_text import final_table, latex, markdown, to_data
from wmrl_gym.reporting.comparison_training import TrainingEnd, training_end

EPISODES = 10


def told(valid: float) -> dict[str, Any]:
    """Metrics of a step; as in a real run, a status that nobody was told is not there."""
    shares = {"status/valid": valid, "status/runtime_error": 1 - valid}
    return {"executed_score": None, "executed_share": 0.0, **{name: share for name, share in shares.items() if share}}


def executed(score: float | None, share: float) -> dict[str, Any]:
    return {"status/success": 0.5, "status/failure": 0.5, "executed_score": score, "executed_share": share}


def end(records: Sequence[Mapping[str, Any]], status: str | None = "valid") -> TrainingEnd:
    found = training_end(records, EPISODES, status)
    assert found is not None
    return found


def compared(runs: Mapping[str, Sequence[Sequence[Mapping[str, Any]]]], status: str | None = "valid") -> Comparison:
    """Arms whose evaluations are all alike: what differs is their training."""
    points = tuple(Point(step, {"task": [0.5]}, dict.fromkeys(AXES, float(step))) for step in (0, 1))
    curves = {
        arm: {
            seed: Curve(points, {}, training_end(records, EPISODES, status), success_status=status)
            for seed, records in enumerate(seeds)
        }
        for arm, seeds in runs.items()
    }
    return compare_arms(curves, resamples=50)


def column(comparison: Comparison) -> list[str]:
    headings, rows = final_table(comparison)
    place = next(index for index, heading in enumerate(headings) if heading.endswith("in training"))
    return [headings[place], *(row[place] for row in rows)]


def test_only_the_last_third_of_the_steps_counts() -> None:
    found = end([*[told(0.0)] * 8, told(0.2), told(0.4), told(0.6), told(0.8)])
    assert (found.first_step, found.last_step) == (9, 12)
    assert found.achieved is not None and found.achieved.mean == pytest.approx(0.5)
    assert found.achieved.episodes == 4 * EPISODES
    assert (end([told(0.1)] * 4).first_step, end([told(0.1)]).first_step) == (3, 1)
    assert training_end([], EPISODES) is None


def test_a_step_without_a_valid_submission_counts_as_none_and_a_step_without_submissions_does_not_count() -> None:
    found = end([told(0.9), *[told(0.5)] * 5, told(0.6), told(0.0), {"reward": None}])
    assert found.achieved is not None and found.achieved.mean == pytest.approx(0.3)
    assert found.achieved.episodes == 2 * EPISODES


def test_executed_scores_weigh_as_the_episodes_behind_them() -> None:
    found = end([executed(0.9, 1.0)] * 6 + [executed(0.8, 0.1), executed(0.2, 0.3), executed(None, 0.0)], None)
    assert not found.knows_success and found.executed_score is not None
    assert found.executed_score.mean == pytest.approx((0.8 * 1 + 0.2 * 3) / 4) and found.executed_score.episodes == 4


def test_turns_of_unknown_status_are_left_out_and_do_not_count_as_invalid() -> None:
    half = {"status/valid": 0.3, "status/runtime_error": 0.2, "status/unknown": 0.5, "executed_score": None}
    found = end([half, half, {"status/unknown": 1.0, "executed_score": None}, half])
    assert found.achieved is not None and found.achieved.mean == pytest.approx(0.6)
    assert end([{"status/unknown": 1.0, "executed_score": None}]).achieved is None


def test_an_execution_without_a_result_does_not_weigh() -> None:
    one_of_eight, eight = executed(0.0, 0.8), executed(0.9, 0.8)
    found = end([one_of_eight | {"executed_scores": 1.0}, eight | {"executed_scores": 8.0}] * 3)
    assert found.executed_score is not None
    assert found.executed_score.mean == pytest.approx(0.8) and found.executed_score.episodes == 9


def test_arms_are_ordered_by_their_valid_submissions_averaged_over_seeds_with_an_interval_of_seeds() -> None:
    comparison = compared({"good": [[told(0.6)] * 3, [told(0.8)] * 3], "poor": [[told(0.1)] * 6, [told(0.1)] * 6]})
    assert column(comparison) == ["valid in training", "70.0% (60.0 to 80.0)", "10.0% (10.0 to 10.0)"]
    text = markdown(comparison, "title", "command")
    assert "the last step, n = 20 episodes (good); steps 5 to 6, n = 40 episodes (poor). Intervals are over" in text
    tex = latex(comparison)
    assert r"70.0\% (60.0 to 80.0)" in tex and tex.startswith("% Share in training: ")
    data = json.loads(json.dumps(to_data(comparison)))
    assert data["in_training"] == "achieved" and data["arms"][1]["in_training"]["estimate"] == pytest.approx(0.1)


def test_an_arm_that_was_never_told_valid_has_a_share_of_zero_where_others_were() -> None:
    assert column(compared({"good": [[told(0.5)]], "never": [[told(0.0)]]})) == ["valid in training", "50.0%", "0.0%"]


def test_where_no_status_is_valid_executed_scores_are_told_and_what_was_not_executed_is_unknown() -> None:
    runs = {"anchors": [[executed(0.25, 0.5)]], "world_model": [[executed(None, 0.0)]]}
    comparison = compared(runs, None)
    assert column(comparison) == ["executed score in training", "0.25", "-"]
    assert comparison.arms[1].in_training is None
    assert "the last step, n = 5 episodes. " not in markdown(comparison, "t", "c"), "one seed: no interval"


def test_a_mean_over_seeds_of_which_one_is_unknown_is_unknown() -> None:
    assert column(compared({"arm": [[executed(0.5, 0.5)], [executed(None, 0.0)]]}, None))[1] == "-"


def test_without_metrics_of_training_there_is_no_such_column() -> None:
    point = Point(0, {"task": [0.5]}, dict.fromkeys(AXES, 0.0))
    comparison = compare_arms({"arm": {0: Curve((point, replace(point, step=1)), {})}}, resamples=20)
    assert final_table(comparison)[0] == ["arm", "final score", "gain", *AXES.values()]
    assert "in training" not in markdown(comparison, "t", "c")
