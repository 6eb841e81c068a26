"""The numbers behind the page."""

from __future__ import annotations

import base64
import gzip
import json
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.runs.records.recorded import ATTACK
from wmrl_gym.reporting.report import build_page, load_runs
from wmrl_gym.reporting.report.agreement_over_time import calibrations, status_accuracy
from wmrl_gym.reporting.report.browsing import browser_payload, choose, suspicions_of
from wmrl_gym.reporting.report.curves import cost_series, executed_seconds, mean_curve, metric
from wmrl_gym.reporting.report.tables import result_tables


def unpacked(page: str, key: str) -> Any:
    (packed,) = re.findall(rf'<script type="text/plain" id="{key}">([A-Za-z0-9+/=]*)</script>', page)
    return json.loads(gzip.decompress(base64.b64decode(packed)))


def test_interval_is_students_t_over_runs_and_needs_two_of_them() -> None:
    curve = mean_curve([{0: 1.0, 1: 5.0}, {0: 2.0}, {0: 3.0}])
    assert curve.steps == [0, 1] and curve.mean == [2.0, 5.0] and curve.runs == [3, 1]
    half = 4.302653 * 1.0 / math.sqrt(3)  # the 97.5 % quantile of Student's t with 2 degrees of freedom
    assert curve.low[0] == pytest.approx(2.0 - half, abs=1e-4) and curve.high[0] == pytest.approx(2.0 + half, abs=1e-4)
    assert curve.low[1] is None and curve.high[1] is None


def test_costs_add_up_over_steps(runs: list[Path]) -> None:
    run = load_runs(runs[:1])[0]
    costs = cost_series(run)
    assert costs["steps"] == {step: step + 1.0 for step in range(6)}
    assert costs["executions"][5] == sum(record["executions"] for record in run.metrics)
    assert costs["executed_seconds"][5] == pytest.approx(0.25 * costs["executions"][5])
    assert list(costs["wall_clock"].values()) == sorted(costs["wall_clock"].values())


def test_executed_seconds_of_trajectories_and_ledger_agree_and_none_is_not_zero(runs: list[Path]) -> None:
    run, _, alone = load_runs(runs)
    old = replace(run, recorded=type(run.recorded)())
    assert executed_seconds(old) == pytest.approx(executed_seconds(run))
    assert executed_seconds(replace(alone, recorded=type(run.recorded)())) is None


def test_unknown_values_are_gaps_and_not_zeros(runs: list[Path]) -> None:
    run = load_runs(runs[:1])[0]
    records = [{"step": 0, "reward": None}, {"step": 1, "reward": 0.5}, {"step": 2}]
    assert metric("reward")(replace(run, metrics=records)) == {1: 0.5}


def test_calibration_has_three_phases_that_hold_all_pairs(runs: list[Path]) -> None:
    loaded = load_runs(runs[:2])
    phases = calibrations(loaded)
    assert [phase.phase for phase in phases] == ["early", "middle", "late"]
    assert sum(phase.n for phase in phases) == sum(len(run.pairs) for run in loaded)
    for phase in phases:
        assert sum(phase.counts) == phase.n
        assert phase.map_y == sorted(phase.map_y)
    assert max(phase.predicted[-1] for phase in phases) == 1.5, "the overrated letter"


def test_calibration_of_many_distinct_predictions_is_binned(runs: list[Path]) -> None:
    run = load_runs(runs[:1])[0]
    pairs = [{"step": 0, "predicted": i / 500, "executed": (i / 500) ** 2} for i in range(500)]
    (phase,) = calibrations([replace(run, pairs=pairs)])
    assert len(phase.counts) == 12 and min(phase.counts) > 30


def test_status_accuracy_counts_executed_scripts_only(runs: list[Path]) -> None:
    run, _, alone = load_runs(runs)
    accuracy = status_accuracy(run)
    assert accuracy and all(0 < value <= 1 for value in accuracy.values())
    assert status_accuracy(alone) == {}
    turns = [
        (turn["predicted"], turn["executed"])
        for trajectory in run.recorded.trajectories
        for turn in trajectory["turns"]
        if turn["executed"] is not None
    ]
    newest = [predicted["status"] == executed["status"] for predicted, executed in turns][-64:]
    assert accuracy[max(accuracy)] == sum(newest) / len(newest)


def test_suspected_are_those_that_execution_contradicts_or_that_talk_to_the_judge(runs: list[Path]) -> None:
    run = load_runs(runs[:1])[0]
    for trajectory in run.recorded.trajectories:
        scripts = [turn["script"] for turn in trajectory["turns"]]
        assert bool(suspicions_of(trajectory)) == any(ATTACK in script for script in scripts)
    trajectory = next(t for t in run.recorded.trajectories if not suspicions_of(t))
    overrated = {**trajectory, "predicted": 0.9, "executed": 0.1}
    assert suspicions_of(overrated) == ["predicted 0.90, executed 0.10"]
    assert suspicions_of({**trajectory, "predicted": 0.1, "executed": 0.9}) == []
    assert suspicions_of({**trajectory, "predicted": 0.9, "executed": None}) == []


def test_too_many_trajectories_leave_the_executed_and_suspected_ones(runs: list[Path]) -> None:
    loaded = load_runs(runs)
    trajectories = loaded[0].recorded.trajectories
    telling = [t for t in trajectories if t["anchor"] or suspicions_of(t)]
    chosen = choose(trajectories, len(telling) + 3)
    assert all(t in chosen for t in telling) and len(chosen) == len(telling) + 3
    assert chosen == [t for t in trajectories if t in chosen], "in their own order"
    payload = browser_payload(loaded, 100)
    counts = [sum(t["run"] == index for t in payload["trajectories"]) for index in range(3)]
    assert sum(counts) == 100 and max(counts) - min(counts) <= 1
    assert browser_payload(loaded, 0)["trajectories"] == []


def test_hostile_texts_stand_nowhere_in_the_page_as_they_are(runs: list[Path]) -> None:
    page = build_page(load_runs(runs))
    assert "onerror" not in page and "<b>task</b>" not in page
    assert page.count("<script") == page.count("</script>") == 5
    payload = unpacked(page, "trajectories-packed")
    assert any(ATTACK in turn["script"] for t in payload["trajectories"] for turn in t["turns"])


def test_hostile_names_of_experiments_are_escaped(runs: list[Path]) -> None:
    run = replace(load_runs(runs[:1])[0], experiment=ATTACK, name=ATTACK, notes=(ATTACK,))
    table = {"measures": [{"name": ATTACK, "before": None, "after": {"estimate": 0.5}, "gain": None}]}
    page = build_page([replace(run, table=table)])
    assert "<img" not in page and page.count("</script>") == 5


def test_a_reward_of_any_range_is_written_as_a_number_and_a_share_as_a_percentage(runs: list[Path]) -> None:
    interval = {"estimate": 12.5, "low": -1.0, "high": 20.0}
    reward = {"name": "reward", "before": interval, "after": interval, "gain": interval, "share": False}
    share = {"name": "percentile", "before": {"estimate": 0.25}, "after": None, "gain": None}
    run = replace(load_runs(runs[:1])[0], table={"measures": [reward, share]})
    html = result_tables({"letters": [run, run]})
    assert html.count("<td>12.5</td><td>12.5</td><td>+12.5 (-1 to +20)</td>") == 2
    assert "<td><b>12.5</b></td><td><b>12.5</b></td><td><b>+12.5" in html
    assert html.count("<td>25.0%</td>") == 2, "a table that does not say so is of shares"


def test_page_loads_nothing_and_allows_only_its_own_scripts(runs: list[Path]) -> None:
    page = build_page(load_runs(runs[:1]))
    assert not re.search(r'(?:src|href)="(?!#)', page)
    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]*)"', page)
    assert policy.startswith("default-src 'none'; script-src 'sha256-") and "unsafe-eval" not in policy
    assert "unsafe-inline" not in policy.split("style-src")[0]


def test_charts_carry_every_cost_and_name_colours_by_variables(runs: list[Path]) -> None:
    charts = {chart["key"]: chart for chart in unpacked(build_page(load_runs(runs)), "charts-packed")}
    reward = charts["learning-reward"]
    assert {trace["name"] for trace in reward["data"]} == {"letters", "letters_grpo"}
    for trace in reward["data"]:
        xs = trace["meta"]["x"]
        assert set(xs) == {"steps", "executions", "executed_seconds", "wall_clock"}
        assert all(len(x) == len(trace["y"]) for x in xs.values())
        assert trace["line"]["color"].startswith("var(--series-")
    assert {"accuracy-status", "fusion-rho", "calibration-0", "time", "learning-status-valid"} <= set(charts)


def test_three_runs_have_a_band_and_two_are_drawn_themselves(runs: list[Path]) -> None:
    two = load_runs(runs[:2])
    three = [*two, replace(two[0], name="third")]
    for loaded, expected in ((two, 3), (three, 2), (two[:1], 1)):
        charts = {chart["key"]: chart for chart in unpacked(build_page(loaded), "charts-packed")}
        assert len(charts["learning-reward"]["data"]) == expected
    assert charts["learning-reward"]["layout"]["showlegend"] is False
