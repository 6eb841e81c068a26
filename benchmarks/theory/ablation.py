"""Prediction 2 in training: the corrected arms fall like 1/T, the uncorrected ones stop at their floors."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks.theory import figures
from benchmarks.theory.measuring import exponent, mean
from benchmarks.theory.problem import FloatArray, QuadraticTasks, standard_problem
from benchmarks.theory.quadrature import floor, group_variance, map_error_constant
from benchmarks.theory.report import Section, Settings, Table
from benchmarks.theory.scorers import Scorer, tilt
from benchmarks.theory.training import GROUP_SIZE, N_GROUPS, sampling_gap, step_variance, train
from wmrl_gym.proxy import InverseVarianceFusion, IsotonicDebiaser, RandomAnchors, RewardProxy

BIAS = 0.32
FRACTION = 0.1
FIGURE = "theory_ablation.svg"
MakeProxy = Callable[[int], RewardProxy]


def debiaser() -> IsotonicDebiaser:
    """Keeps every pair, so that the map can go on improving; refitted more rarely than by default, to save time."""
    return IsotonicDebiaser(refit_every=256, window=10**6)


def proxy(fraction: float, debias: bool, fuse: bool) -> MakeProxy:
    return lambda seed: RewardProxy(
        RandomAnchors(fraction, seed=seed),
        debiaser() if debias else None,
        InverseVarianceFusion() if fuse else None,
        metric_window=8,
    )


ARMS: dict[str, MakeProxy] = {
    "all executed": proxy(1.0, False, False),
    "world model only": proxy(0.0, False, False),
    "mixed, no correction": proxy(FRACTION, False, False),
    "debiasing only": proxy(FRACTION, True, False),
    "debiasing and fusion": proxy(FRACTION, True, True),
}


def checkpoints(steps: int) -> FloatArray:
    return np.unique(np.geomspace(steps / 16, steps, 9).astype(int))


def anchor_share() -> float:
    """Expected share of groups that are anchors, the guaranteed one included."""
    return float(RandomAnchors(FRACTION).draw(0, [str(g) for g in range(N_GROUPS)]).propensity[0])


def predictions(problem: QuadraticTasks, scorer: Scorer, steps: int) -> dict[str, tuple[float, float]]:
    """(floor, sampling noise) of each arm after ``steps``."""
    share, optimum = anchor_share(), problem.optimum
    executed = group_variance(problem, optimum, lambda r, a: r, GROUP_SIZE, problem.execution_noise).within
    calibrated = group_variance(problem, optimum, lambda r, a: r, GROUP_SIZE, 0.0).within
    biased = group_variance(problem, optimum, scorer.mean, GROUP_SIZE, scorer.noise).within

    def noise(anchor: FloatArray, other: FloatArray, rho: float = 1.0) -> float:
        weight = 1 / (rho * share + 1 - share)
        return sampling_gap(problem, step_variance(weight**2 * (rho**2 * share * anchor + (1 - share) * other)), steps)

    of_map = map_error_constant(problem, optimum) / (share * N_GROUPS * GROUP_SIZE * steps)
    # Without correction the anchors merely dilute the bias.
    mixed = floor(problem, lambda r, a: share * r + (1 - share) * scorer.mean(r, a))
    return {
        "all executed": (0.0, noise(executed, executed)),
        "world model only": (floor(problem, scorer.mean), noise(biased, biased)),
        "mixed, no correction": (mixed, noise(executed, biased)),
        "debiasing only": (of_map, noise(executed, calibrated)),
        "debiasing and fusion": (of_map, noise(executed, calibrated, rho=2.0)),
    }


def run(settings: Settings, folder: Path) -> Section:
    problem, scorer = standard_problem(), Scorer(tilt(BIAS))
    steps = checkpoints(settings.steps)
    predicted = predictions(problem, scorer, settings.steps)
    gaps = {}
    for name, make in ARMS.items():
        runs = [train(problem, scorer, make(seed), seed, [int(s) for s in steps]) for seed in range(settings.seeds)]
        gaps[name] = np.stack([problem.gap(trace.thetas) for trace in runs])
    rows = [
        [name, *predicted[name], sum(predicted[name]), mean(gap[:, -1]), exponent(steps, gap)]
        for name, gap in gaps.items()
    ]
    draw(folder / FIGURE, steps, gaps)
    return Section(
        "2b. The same in training",
        [
            f"Bias B = {BIAS}, {FRACTION:.0%} anchors (and at least one a step), J* − J after {settings.steps} steps; "
            f"exponents in T over steps {steps[0]} to {steps[-1]}. The theory says −1 for the arms without a permanent "
            "floor. The floor of the debiased arms is C/N for the N pairs that had come by then.",
            Table(["arm", "predicted floor", "sampling noise", "sum", "measured", "measured exponent in T"], rows),
        ],
        [FIGURE],
    )


def draw(path: Path, steps: FloatArray, gaps: dict[str, FloatArray]) -> None:
    colours = [figures.GREY, figures.ORANGE, figures.PURPLE, figures.BLUE, figures.GREEN]
    with figures.figure(path, width=6.0) as axis:
        for (name, gap), colour in zip(gaps.items(), colours, strict=True):
            axis.loglog(steps, gap.mean(axis=0), "o-", markersize=3, color=colour, label=name)
        axis.set(xlabel="training steps T", ylabel="mean J* − J", title="Uncorrected arms stop, corrected ones go on")
        figures.ticks(axis, steps[::2])
        axis.legend()
