"""Arms of one experiment side by side: final scores, costs, and what it cost to reach the reference's final score.

Two things are drawn anew by the bootstrap: the seeds (the same draw for all arms, so that differences are paired), and
the episodes within each held-out task. The tasks are fixed, because they are the benchmark.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wmrl_gym.core import SCORE, Measure
from wmrl_gym.reporting.bootstrap import Interval, interval_of, resampled_means
from wmrl_gym.reporting.comparison_curve import AXES, Curve, with_known_tasks
from wmrl_gym.reporting.comparison_reach import Ratio, cost_to_reach, monotone, ratio_of
from wmrl_gym.reporting.comparison_training import InTraining, Kind, common_kind, over_seeds
from wmrl_gym.reporting.notation import are_successes

Array = NDArray[np.float64]


@dataclass(frozen=True)
class CurvePoint:
    """A held-out evaluation, averaged over seeds."""

    step: int
    score: Interval
    cost: Mapping[str, float]


@dataclass(frozen=True)
class Reach:
    """What reaching the reference's final score cost, on one axis; None is "not reached"."""

    cost: float | None
    ratio: Ratio | None
    """None if there is no reference, or if it reached its own final score without a cost."""


@dataclass(frozen=True)
class SeedResult:
    """One run of an arm."""

    seed: int
    before: float
    final: float
    cost: Mapping[str, float]
    """Axis -> what all of training cost."""


@dataclass(frozen=True)
class ArmResult:
    """One arm over all seeds."""

    arm: str
    before: Interval
    final: Interval
    gain: Interval
    difference: Interval | None
    """Final score minus the reference's; None for the reference itself, or if there is none."""
    in_training: InTraining | None
    """How well it did in training at the end; None is unknown."""
    cost: Mapping[str, float]
    """Axis -> mean over seeds of what all of training cost."""
    stages: Mapping[str, float]
    """Stage -> mean over seeds of its wall-clock seconds."""
    reach: Mapping[str, Reach]
    """Axis -> cost of the reference's final score; empty if there is no reference."""
    curve: tuple[CurvePoint, ...]
    runs: tuple[SeedResult, ...]


@dataclass(frozen=True)
class Comparison:
    """All arms."""

    arms: tuple[ArmResult, ...]
    seeds: tuple[int, ...]
    reference: str | None
    target: float | None
    """The score to reach: the level that the reference holds at its end."""
    level: float
    left_out: tuple[str, ...] = ()
    """Held-out tasks of which some evaluation has no result."""
    in_training: Kind | None = None
    """What each arm's `in_training` is: a share of submissions, or a score; None if it is known of no arm."""
    successes: bool = False
    """Whether every held-out episode scored 0 or 1."""
    measure: Measure = SCORE
    """By what the held-out episodes are valued."""
    success_status: str | None = None
    """What the domain calls an outcome that achieved something; None if it does not say."""


def compare_arms(
    curves: Mapping[str, Mapping[int, Curve]],
    reference: str | None = None,
    *,
    level: float = 0.95,
    resamples: int = 2000,
) -> Comparison:
    """Compare the runs of several arms on the same seeds.

    Args:
        curves: arm -> seed -> what that run achieved.
        reference: the arm whose final score the others are to reach.
        level: of the intervals.
        resamples: of the bootstrap.

    Raises:
        ValueError: if arms have other seeds than others, or the runs of an arm were evaluated at different steps.
    """
    seeds = _common_seeds(curves)
    flat, left_out = with_known_tasks(curves[arm][seed] for arm in curves for seed in seeds)
    rows = {arm: flat[i * len(seeds) : (i + 1) * len(seeds)] for i, arm in enumerate(curves)}
    picks = np.random.default_rng(0).integers(len(seeds), size=(resamples, len(seeds)))
    drawn = {arm: _Resampled(arm, runs, picks) for arm, runs in rows.items()}
    aim = None if reference is None else drawn[reference]
    ends = {arm: [run.training for run in runs if run.training is not None] for arm, runs in rows.items()}
    kind = common_kind([end for row in ends.values() for end in row])
    trained = {arm: None if kind is None else over_seeds(row, kind, picks, level) for arm, row in ends.items()}
    return Comparison(
        arms=tuple(
            _result(arm, dict(zip(seeds, rows[arm], strict=True)), own, reference, aim, level, trained[arm])
            for arm, own in drawn.items()
        ),
        seeds=tuple(seeds),
        reference=reference,
        target=None if aim is None else float(aim.levels[0, -1]),
        level=level,
        left_out=tuple(left_out),
        in_training=kind,
        successes=are_successes(score for run in flat for score in run.all_scores()),
        measure=flat[0].measure,
        success_status=flat[0].success_status,
    )


class _Resampled:
    """Mean curves over seeds: in row 0 the estimate, below it the resamples."""

    def __init__(self, arm: str, runs: Sequence[Curve], picks: NDArray[np.int64]) -> None:
        self.steps = [point.step for point in runs[0].points]
        if any([point.step for point in run.points] != self.steps for run in runs):
            raise ValueError(f"the runs of arm '{arm}' were evaluated at different steps: they cannot be averaged")
        resamples = len(picks)
        # The same draw for all arms at the same seed and step: their episodes share their random streams.
        by_seed = [
            [
                [
                    float(np.mean([np.mean(episodes) for episodes in point.scores.values()])),
                    *resampled_means(point.scores, None, resamples, np.random.default_rng([index, point.step])),
                ]
                for point in run.points
            ]
            for index, run in enumerate(runs)
        ]
        score = np.asarray(by_seed)  # (seeds, points, 1 + resamples)
        picked = score[picks.T, :, np.arange(1, resamples + 1)].mean(axis=0)
        self.by_seed: Array = score[:, :, 0]
        self.scores: Array = np.vstack([score[:, :, 0].mean(axis=0), picked])
        self.costs: dict[str, Array] = {}
        for axis in AXES:
            cost = np.asarray([[point.cost[axis] for point in run.points] for run in runs])
            self.costs[axis] = np.vstack([cost.mean(axis=0), cost[picks].mean(axis=1)])
        weights = np.sum([run.weights() for run in runs], axis=0)
        self.levels: Array = np.asarray([monotone(row, weights) for row in self.scores])

    def paid(self, axis: str) -> Array:
        """What each row paid for the level at its own end: nothing if it was no worse before training."""
        targets = self.levels[:, -1]
        return np.where(targets > self.scores[:, 0], self.reach(axis, targets), 0.0)

    def reach(self, axis: str, targets: Array) -> Array:
        """Cost at which each row reaches its target."""
        rows = zip(self.costs[axis], self.levels, targets, strict=True)
        return np.asarray([cost_to_reach(cost, levels, target) for cost, levels, target in rows])


def _result(
    arm: str,
    runs: Mapping[int, Curve],
    own: _Resampled,
    reference: str | None,
    aim: _Resampled | None,
    level: float,
    in_training: InTraining | None,
) -> ArmResult:
    def interval(values: Array) -> Interval:
        return interval_of(float(values[0]), values[1:], level)

    difference = None if aim is None or arm == reference else interval(own.scores[:, -1] - aim.scores[:, -1])
    names = dict.fromkeys(name for run in runs.values() for name in run.stages)
    stages = {name: sum(run.stages.get(name, 0.0) for run in runs.values()) / len(runs) for name in names}
    return ArmResult(
        arm=arm,
        before=interval(own.scores[:, 0]),
        final=interval(own.scores[:, -1]),
        gain=interval(own.scores[:, -1] - own.scores[:, 0]),
        difference=difference,
        in_training=in_training,
        cost={axis: float(costs[0, -1]) for axis, costs in own.costs.items()},
        stages=stages,
        reach={} if aim is None else {axis: _reach(axis, own, aim, level) for axis in AXES},
        curve=tuple(
            CurvePoint(step, interval(own.scores[:, p]), {axis: float(own.costs[axis][0, p]) for axis in AXES})
            for p, step in enumerate(own.steps)
        ),
        runs=tuple(
            SeedResult(seed, float(scores[0]), float(scores[-1]), dict(run.points[-1].cost))
            for (seed, run), scores in zip(runs.items(), own.by_seed, strict=True)
        ),
    )


def _reach(axis: str, own: _Resampled, aim: _Resampled, level: float) -> Reach:
    cost = own.reach(axis, aim.levels[:, -1])
    return Reach(float(cost[0]) if np.isfinite(cost[0]) else None, ratio_of(cost, aim.paid(axis), level))


def _common_seeds(curves: Mapping[str, Mapping[int, Curve]]) -> list[int]:
    seeds = [sorted(runs) for runs in curves.values()]
    if not seeds or not seeds[0] or any(row != seeds[0] for row in seeds):
        told = ", ".join(f"{arm}: {sorted(runs)}" for arm, runs in curves.items())
        raise ValueError(f"arms are compared on the same seeds, at least one; there are {told or 'no arms'}")
    return seeds[0]
