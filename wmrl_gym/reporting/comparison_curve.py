"""What a run achieved and what it had cost by then, at each of its held-out evaluations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

from wmrl_gym.core import SCORE, Measure
from wmrl_gym.reporting.bootstrap import Values
from wmrl_gym.reporting.comparison_training import TrainingEnd, training_end
from wmrl_gym.reporting.notation import measure_of
from wmrl_gym.runs.records.metrics import read_metrics
from wmrl_gym.runs.records.run_directory import DamagedRun, RunDirectory

AXES = {"executed_seconds": "executed seconds", "executions": "executions", "seconds": "wall-clock seconds"}
"""What training costs: seconds that executions took, added up over those that ran at the same time; their number; and
wall-clock seconds of all stages. Evaluations are in none of them."""

Cost = Mapping[str, float]
"""Axis -> what was spent on training so far."""


@dataclass(frozen=True)
class Point:
    """One held-out evaluation."""

    step: int
    """Steps of training that were done."""
    scores: Values
    cost: Cost


@dataclass(frozen=True)
class Curve:
    """One run's evaluations, from before training to after it."""

    points: tuple[Point, ...]
    stages: Mapping[str, float]
    """Stage of training -> its wall-clock seconds."""
    training: TrainingEnd | None = None
    """How well the agent did in training at its end; None if that is not known."""
    measure: Measure = SCORE
    """By what the episodes are valued."""
    success_status: str | None = None
    """What the domain calls an outcome that achieved something; None if it does not say."""

    @property
    def cost(self) -> Cost:
        """What all of the training cost."""
        return self.points[-1].cost

    def weights(self) -> list[int]:
        """Episodes behind each point."""
        return [sum(map(len, point.scores.values())) for point in self.points]

    def all_scores(self) -> Iterator[float]:
        """Every episode's score at every point."""
        for point in self.points:
            for episodes in point.scores.values():
                yield from episodes


def read_curve(run: RunDirectory, episodes_per_step: int) -> Curve | None:
    """The curve of a finished run's folder; None if it has not finished.

    Args:
        run: the folder.
        episodes_per_step: trajectories of each training step.

    Raises:
        DamagedRun: if its files do not belong together, or one cannot be read.
    """
    before, after = run.read_json("before.json"), run.read_json("after.json")
    if before is None or after is None:
        return None
    records = read_metrics(run.metrics_file)
    steps = len(records)
    sums = {axis: [0.0, *accumulate(_spent(record, axis) for record in records)] for axis in AXES}
    evaluations = {0: before, **run.evaluations_during(), steps: after}
    if max(evaluations) > steps:
        raise DamagedRun(f"'{run.metrics_file}' ends after step {steps}, but there is an evaluation after a later one")
    points = [
        Point(step, evaluations[step]["scores"], {axis: total[step] for axis, total in sums.items()})
        for step in sorted(evaluations)
    ]
    stages: dict[str, float] = {}
    for record in records:
        for name, seconds in _stages(record).items():
            stages[name] = stages.get(name, 0.0) + seconds
    training = training_end(records, episodes_per_step, after.get("success_status"))
    return Curve(tuple(points), stages, training, measure_of(after), after.get("success_status"))


def with_known_tasks(curves: Iterable[Curve]) -> tuple[list[Curve], list[str]]:
    """The curves without tasks of which some evaluation has no result, for a mean without them is of something else.

    Returns:
        (the curves in their order, the names of the tasks that were left out).

    Raises:
        ValueError: if no task is left.
    """
    given = list(curves)
    points = [point for curve in given for point in curve.points]
    named = {task for point in points for task in point.scores}
    known = {task for task in named if all(point.scores.get(task) for point in points)}
    if not known:
        raise ValueError("there is no held-out task of which every evaluation has a result: nothing can be compared")
    kept = [
        replace(curve, points=tuple(replace(point, scores=_only(point.scores, known)) for point in curve.points))
        for curve in given
    ]
    return kept, sorted(named - known)


def _only(scores: Values, tasks: set[str]) -> Values:
    return {task: episodes for task, episodes in scores.items() if task in tasks}


def _stages(record: Mapping[str, Any]) -> dict[str, float]:
    prefix = "seconds/"
    return {name.removeprefix(prefix): value or 0.0 for name, value in record.items() if name.startswith(prefix)}


def _spent(record: Mapping[str, Any], axis: str) -> float:
    return sum(_stages(record).values()) if axis == "seconds" else float(record[axis])
