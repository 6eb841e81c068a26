from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from wmrl_gym.core import Measure
from wmrl_gym.reporting.comparison import ArmResult, Comparison, compare_arms
from wmrl_gym.reporting.comparison_curve import AXES, Curve, Point, read_curve, with_known_tasks
from wmrl_gym.reporting.comparison_plot import plot
from wmrl_gym.reporting.comparison_text import latex, markdown, reach_table, to_data
from wmrl_gym.runs.records.run_directory import DamagedRun, RunDirectory, during

TASKS = ("one", "two")
PERCENTILE = Measure("percentile", is_share=True, is_graded=True)


def curve(means: Sequence[float], per_step: float, *, spread: float = 0.0, seed: int = 0, samples: int = 8) -> Curve:
    """Evaluations every two steps; a step costs `per_step` on each axis; episodes spread around their mean."""
    rng = np.random.default_rng(seed)
    points = []
    for index, mean in enumerate(means):
        scores = {task: list(mean + spread * rng.standard_normal(samples)) for task in TASKS}
        points.append(Point(2 * index, scores, dict.fromkeys(AXES, 2.0 * index * per_step)))
    return Curve(tuple(points), {"generate": 1.0 + seed, "execute": per_step}, measure=PERCENTILE)


def two_arms(spread: float = 0.0, seeds: Sequence[int] = (0, 1, 2)) -> dict[str, dict[int, Curve]]:
    return {
        "executed": {seed: curve([0.2, 0.4, 0.6], 10.0, spread=spread, seed=seed) for seed in seeds},
        "cheap": {seed: curve([0.2, 0.5, 0.7], 1.0, spread=spread, seed=10 + seed) for seed in seeds},
        "poor": {seed: curve([0.2, 0.3, 0.4], 1.0, spread=spread, seed=20 + seed) for seed in seeds},
    }


def result_of(comparison: Comparison, arm: str) -> ArmResult:
    return next(result for result in comparison.arms if result.arm == arm)


def test_without_randomness_means_differences_and_ratios_are_those_of_the_curves() -> None:
    comparison = compare_arms(two_arms(), "executed", resamples=50)
    cheap = result_of(comparison, "cheap")
    assert comparison.target == pytest.approx(0.6)
    assert cheap.final.estimate == pytest.approx(0.7) and cheap.final.low == pytest.approx(cheap.final.high)
    assert cheap.gain.estimate == pytest.approx(0.5)
    assert cheap.difference is not None and cheap.difference.estimate == pytest.approx(0.1)
    assert cheap.cost["executions"] == pytest.approx(4.0)
    # 0.6 lies in the middle of the cheap arm's second stretch, so 3 of its 4 units; the reference pays all of its 40.
    reach = cheap.reach["executed_seconds"]
    assert reach.cost == pytest.approx(3.0)
    assert reach.ratio is not None and reach.ratio.estimate == pytest.approx(3.0 / 40.0)
    assert cheap.stages == pytest.approx({"generate": 12.0, "execute": 1.0})


def test_the_reference_pays_once_what_it_pays_and_is_not_compared_with_itself() -> None:
    executed = result_of(compare_arms(two_arms(), "executed", resamples=50), "executed")
    assert executed.difference is None
    ratio = executed.reach["seconds"].ratio
    assert ratio is not None and (ratio.estimate, ratio.low, ratio.high) == (1.0, 1.0, 1.0)


def test_an_arm_that_stays_below_has_not_reached_it() -> None:
    comparison = compare_arms(two_arms(), "executed", resamples=50)
    poor = result_of(comparison, "poor").reach["executions"]
    assert poor.cost is None and poor.ratio is not None and poor.ratio.estimate is None and poor.ratio.reached == 0
    assert [row for row in reach_table(comparison)[1] if row[0] == "poor"] == [["poor", *["not reached"] * 3, "0%"]]


def test_a_reference_that_gains_nothing_leaves_nothing_to_reach() -> None:
    curves = {"executed": {0: curve([0.5, 0.4, 0.3], 10.0)}, "other": {0: curve([0.5, 0.6, 0.7], 1.0)}}
    comparison = compare_arms(curves, "executed", resamples=50)
    assert all(reach.ratio is None for result in comparison.arms for reach in result.reach.values())
    assert "nothing to reach" in markdown(comparison, "title", "command")


def points(*scores_and_samples: tuple[float, int], stages: Sequence[str] = (), measure: Measure = PERCENTILE) -> Curve:
    made = [
        Point(2 * index, {"one": [score] * samples}, dict.fromkeys(AXES, 10.0 * index))
        for index, (score, samples) in enumerate(scores_and_samples)
    ]
    return Curve(tuple(made), dict.fromkeys(stages, 2.0), measure=measure)


def test_a_reference_that_ends_below_its_beginning_has_gained_nothing_although_it_recovers_from_a_dip() -> None:
    """The small evaluation in the middle pulls the monotone curve's beginning down, which is no gain."""
    curves = {
        "executed": {0: points((0.3, 8), (0.1, 2), (0.29, 8))},
        "other": {0: points((0.3, 8), (0.3, 2), (0.35, 8))},
    }
    comparison = compare_arms(curves, "executed", resamples=20)
    assert result_of(comparison, "executed").gain.estimate < 0
    assert all(reach.ratio is None for result in comparison.arms for reach in result.reach.values())


def test_episodes_of_all_seeds_weigh_a_point() -> None:
    runs = {0: points((0.6, 8), (0.4, 8)), 1: points((0.6, 8), (0.4, 2))}
    assert compare_arms({"arm": runs}, "arm", resamples=20).target == pytest.approx((16 * 0.6 + 10 * 0.4) / 26)


def test_each_seeds_own_result_is_kept_and_shown() -> None:
    arms = {"only": {seed: curve([0.2, 0.1 * seed], 2.0 + seed) for seed in (3, 5)}}
    comparison = compare_arms(arms, resamples=20)
    runs = comparison.arms[0].runs
    assert [(run.seed, run.before, run.final) for run in runs] == [(3, 0.2, pytest.approx(0.3)), (5, 0.2, 0.5)]
    assert [run.cost["executions"] for run in runs] == [10.0, 14.0]
    assert "| arm | seed 3 | seed 5 |" in markdown(comparison, "title", "command")
    assert "| only | 30.0% | 50.0% |" in markdown(comparison, "title", "command")


def test_a_stage_that_only_one_seed_had_is_told() -> None:
    runs = {0: points((0.2, 1), (0.4, 1)), 1: points((0.2, 1), (0.4, 1), stages=["predict"])}
    assert compare_arms({"arm": runs}, resamples=20).arms[0].stages == {"predict": 1.0}


def test_resamples_in_which_the_reference_gains_nothing_are_told() -> None:
    rising, falling = points((0.2, 1), (0.6, 1)), points((0.2, 1), (0.1, 1))
    comparison = compare_arms({"executed": {0: rising, 1: rising, 2: falling}}, "executed", resamples=400)
    ratio = comparison.arms[0].reach["executions"].ratio
    assert ratio is not None and ratio.defined == pytest.approx(1 - 1 / 27, abs=0.03) and ratio.defined < 1
    assert f"In {1 - ratio.defined:.0%} of the resamples executed itself gained nothing" in markdown(
        comparison, "title", "command"
    )
    certain = compare_arms({"executed": {0: rising}}, "executed", resamples=20)
    assert "itself gained nothing" not in markdown(certain, "title", "command")


def test_intervals_hold_the_truth_about_as_often_as_they_say() -> None:
    truth, inside = 0.3, 0
    for repetition in range(40):
        rng = np.random.default_rng(repetition)
        ends = 0.2 + truth + 0.05 * rng.standard_normal(8)
        runs = {seed: curve([0.2, end], 1.0, spread=0.2, seed=100 * repetition + seed) for seed, end in enumerate(ends)}
        gain = compare_arms({"arm": runs}, resamples=300, level=0.9).arms[0].gain
        inside += gain.low <= truth <= gain.high
    assert 30 <= inside <= 40, "a bootstrap over 8 seeds is a little narrow, not wrong"


def test_another_seed_widens_what_episodes_alone_leave_narrow() -> None:
    alike = {seed: curve([0.2, 0.5], 1.0) for seed in range(3)}
    apart = {seed: curve([0.2, 0.3 + 0.2 * seed], 1.0) for seed in range(3)}
    widths = [
        final.high - final.low
        for final in (compare_arms({"arm": runs}, resamples=300).arms[0].final for runs in (alike, apart))
    ]
    assert widths[0] == pytest.approx(0.0) and widths[1] > 0.2


def test_differences_are_paired_by_seed() -> None:
    curves = {
        "executed": {seed: curve([0.2, 0.2 + 0.2 * seed], 1.0) for seed in range(3)},
        "other": {seed: curve([0.2, 0.3 + 0.2 * seed], 1.0) for seed in range(3)},
    }
    difference = result_of(compare_arms(curves, "executed", resamples=300), "other").difference
    assert difference is not None
    assert difference.low == pytest.approx(0.1) and difference.high == pytest.approx(0.1)


def test_arms_on_other_seeds_or_of_other_steps_are_refused() -> None:
    with pytest.raises(ValueError, match="same seeds"):
        compare_arms({"a": {0: curve([0.1, 0.2], 1.0)}, "b": {1: curve([0.1, 0.2], 1.0)}})
    with pytest.raises(ValueError, match="different steps"):
        compare_arms({"a": {0: curve([0.1, 0.2], 1.0), 1: curve([0.1, 0.2, 0.3], 1.0)}})


def test_a_task_without_a_result_somewhere_is_left_out_everywhere_and_named() -> None:
    whole = curve([0.2, 0.4], 1.0)
    broken = Curve((Point(0, {"one": [0.1], "two": []}, dict.fromkeys(AXES, 0.0)), *whole.points[1:]), {})
    kept, left_out = with_known_tasks([whole, broken])
    assert left_out == ["two"] and all(set(p.scores) == {"one"} for c in kept for p in c.points)
    with pytest.raises(ValueError, match="no held-out task"):
        with_known_tasks([Curve((Point(0, {"one": []}, {}),), {})])


def test_report_says_the_same_in_markdown_latex_and_data(tmp_path: Path) -> None:
    comparison = compare_arms(two_arms(spread=0.1), "executed", resamples=100)
    text = markdown(comparison, "Comparison x", "wmrl compare x")
    tex = latex(comparison)
    data = json.loads(json.dumps(to_data(comparison)))
    final = f"{comparison.arms[1].final.estimate:.1%}"
    assert final in text and final.replace("%", r"\%") in tex
    assert data["arms"][1]["final"]["estimate"] == comparison.arms[1].final.estimate
    assert tex.count(r"\begin{tabular}") == 2 and "minus executed" in text and "3 seeds" in text
    for row in [line for line in text.splitlines() if line.startswith("| cheap")]:
        assert row.count("|") > 3
    plot(comparison, tmp_path / "plot.svg")
    drawn = (tmp_path / "plot.svg").read_text()
    assert all(result.arm in drawn for result in comparison.arms) and "held-out percentile" in drawn


def test_one_seed_is_said_to_be_one() -> None:
    text = markdown(compare_arms(two_arms(0.1, [4]), "executed", resamples=50), "t", "c")
    assert "1 seed (4)" in text and "not of other seeds" in text


def test_curve_is_read_from_the_folder_of_a_finished_run(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path)
    records = [
        {"step": s, "executions": 3.0, "executed_seconds": 4.0, "seconds/execute": 2.0, "seconds/update": 1.0}
        for s in range(4)
    ]
    run.metrics_file.write_text("".join(json.dumps(record) + "\n" for record in records))
    run.write_json("before.json", {"scores": {"one": [0.1]}})
    assert read_curve(run, 8) is None, "it has not finished"
    run.write_json(f"{during(2)}.json", {"scores": {"one": [0.2]}})
    run.write_json("after.json", {"scores": {"one": [0.3, 0.5]}})
    read = read_curve(run, 8)
    assert read is not None
    assert [(point.step, point.cost["executions"], point.cost["executed_seconds"]) for point in read.points] == [
        (0, 0.0, 0.0),
        (2, 6.0, 8.0),
        (4, 12.0, 16.0),
    ]
    assert read.cost["seconds"] == 12.0 and read.stages == {"execute": 8.0, "update": 4.0}
    assert read.weights() == [1, 1, 2]
    run.metrics_file.write_text(json.dumps(records[0]) + "\n")
    with pytest.raises(DamagedRun, match=r"metrics\.jsonl"):
        read_curve(run, 8)


def test_a_reward_of_any_range_is_written_as_a_number_and_a_share_as_a_percentage(tmp_path: Path) -> None:
    reward = Measure("reward")
    curves = {
        "executed": {0: points((-40.0, 2), (12.5, 2), measure=reward)},
        "other": {0: points((-40.0, 2), (10.0, 2), measure=reward)},
    }
    comparison = compare_arms(curves, "executed", resamples=20)
    text = markdown(comparison, "t", "c")
    assert "| executed | 12.5 (12.5 to 12.5) | +52.5 (+52.5 to +52.5) | - |" in text
    assert "| -2.5 (-2.5 to -2.5) |" in text and "Cost to reach 12.5, executed's level" in text
    assert "10 (10 to 10)" in latex(comparison)
    shares = compare_arms(two_arms(), "executed", resamples=20)
    for compared, percentages in ((comparison, False), (shares, True)):
        plot(compared, tmp_path / "plot.svg")
        assert ("%</text>" in (tmp_path / "plot.svg").read_text()) == percentages


def test_a_measure_that_is_0_or_1_in_every_episode_is_a_share_whatever_it_is_called() -> None:
    won = Curve((Point(0, {"one": [0.0, 1.0]}, dict.fromkeys(AXES, 0.0)),), {})
    assert "| arm | 50.0% (" in markdown(compare_arms({"arm": {0: won}}, resamples=20), "t", "c")
