"""Numbers over steps, and their mean over the runs of an experiment with an interval."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from wmrl_gym.reporting.report.loading import RecordedRun

Series = dict[int, float]
"""Step -> value. A step without a value is not in it."""

COSTS: Mapping[str, str] = {
    "steps": "training steps",
    "executions": "executed scripts",
    "executed_seconds": "executed seconds",
    "wall_clock": "wall-clock seconds of training",
}
"""What a curve can be drawn over."""


@dataclass(frozen=True)
class Curve:
    """A mean over runs, with the interval of that mean (Student's t, 95 %) where there are at least two."""

    steps: list[int]
    mean: list[float]
    low: list[float | None]
    high: list[float | None]
    runs: list[int]
    """How many runs each mean is over: not all get equally far."""


def by_experiment(runs: Sequence[RecordedRun]) -> dict[str, list[RecordedRun]]:
    """The runs of each experiment, in the order in which the experiments first occur."""
    groups: dict[str, list[RecordedRun]] = {}
    for run in runs:
        groups.setdefault(run.experiment, []).append(run)
    return groups


def metric(name: str) -> Callable[[RecordedRun], Series]:
    """A function that takes a metric out of a run; its unknown values are left out."""

    def take(run: RecordedRun) -> Series:
        return {
            record["step"]: float(value)
            for record in run.metrics
            if isinstance(value := record.get(name), int | float) and math.isfinite(value)
        }

    return take


def mean_curve(series: Sequence[Series], level: float = 0.95) -> Curve:
    """Mean and interval at each step that any of the runs has."""
    from scipy import stats

    steps = sorted({step for one in series for step in one})
    curve = Curve(steps, [], [], [], [])
    for step in steps:
        values = np.array([one[step] for one in series if step in one])
        half = None
        if values.size >= 2:
            half = float(stats.t.ppf((1 + level) / 2, values.size - 1) * values.std(ddof=1) / math.sqrt(values.size))
        mean = float(values.mean())
        curve.mean.append(mean)
        curve.low.append(None if half is None else mean - half)
        curve.high.append(None if half is None else mean + half)
        curve.runs.append(int(values.size))
    return curve


@lru_cache(maxsize=256)  # every curve of a run asks for them
def cost_series(run: RecordedRun) -> dict[str, Series]:
    """What a run had spent by the end of each step, for every cost that was recorded."""
    steps = [record["step"] for record in run.metrics]
    wall = {
        record["step"]: sum(
            value for name, value in record.items() if name.startswith("seconds/") and isinstance(value, int | float)
        )
        for record in run.metrics
    }
    spent = {
        "steps": {step: float(step + 1) for step in steps},
        "executions": _cumulative(steps, metric("executions")(run)),
        "wall_clock": _cumulative(steps, wall),
    }
    seconds = executed_seconds(run)
    if seconds is not None:
        spent["executed_seconds"] = _cumulative(steps, seconds)
    return spent


def executed_seconds(run: RecordedRun) -> Series | None:
    """Seconds of real execution in each step; None if nothing recorded them.

    From the recorded trajectories, which hold every execution; else from the ledger, which holds those of the
    trajectories that the world model scored, too. Without a world model the ledger is empty and tells nothing.
    """
    seconds: Series = {}
    if run.recorded.trajectories:
        for trajectory in run.recorded.trajectories:
            for turn in trajectory["turns"]:
                executed = turn["executed"]
                if executed is not None and executed["source"] == "execution":
                    step = trajectory["step"]
                    seconds[step] = seconds.get(step, 0.0) + executed["seconds"]
        return seconds
    if not run.pairs:
        return None
    for pair in run.pairs:
        seconds[pair["step"]] = seconds.get(pair["step"], 0.0) + float(pair.get("seconds") or 0.0)
    return seconds


def mean_costs(runs: Sequence[RecordedRun], steps: Sequence[int]) -> dict[str, list[float]]:
    """Mean over runs of what had been spent by each of `steps`; a cost that not every run knows is left out."""
    per_run = [cost_series(run) for run in runs if run.metrics]
    costs: dict[str, list[float]] = {}
    for name in COSTS:
        series = [one[name] for one in per_run if name in one]
        if series and len(series) == len(per_run):
            columns = [[one[step] for one in series if step in one] for step in steps]
            if all(columns):
                costs[name] = [float(np.mean(column)) for column in columns]
    return costs


def _cumulative(steps: Sequence[int], series: Series) -> Series:
    totals = np.cumsum([series.get(step, 0.0) for step in steps])
    return {step: float(total) for step, total in zip(steps, totals, strict=True)}
