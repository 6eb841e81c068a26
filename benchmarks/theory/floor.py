"""Prediction 1: trained on a biased world model alone, the policy stops at a floor that grows as B²."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.theory import figures
from benchmarks.theory.measuring import Estimate, exponent, mean, slope
from benchmarks.theory.problem import FloatArray, QuadraticTasks, standard_problem
from benchmarks.theory.quadrature import floor, group_variance, stationary_point
from benchmarks.theory.report import Section, Settings, Table, yes_or_no
from benchmarks.theory.scorers import Scorer, no_bias, offset, tilt
from benchmarks.theory.training import GROUP_SIZE, sampling_gap, step_variance, train
from wmrl_gym.proxy import RandomAnchors, RewardProxy

SIZES = np.array([0.04, 0.08, 0.16, 0.32, 0.64])
FIGURE = "theory_floor.svg"


def world_model_alone() -> RewardProxy:
    """No anchor, no correction: every reward is the raw prediction."""
    return RewardProxy(RandomAnchors(fraction=0.0), metric_window=8)


def final_gaps(problem: QuadraticTasks, scorer: Scorer, settings: Settings) -> FloatArray:
    """J* - J at the end of training on the world model alone, shape (seeds,)."""
    runs = [train(problem, scorer, world_model_alone(), seed, [settings.steps]) for seed in range(settings.seeds)]
    return np.array([float(problem.gap(run.thetas[-1])) for run in runs])


def one_task() -> QuadraticTasks:
    """Only the first hard task, reachable from the same start."""
    problem = standard_problem()
    return replace(problem, targets=problem.targets[2:3], difficulty=problem.difficulty[2:3])


def noise_gap(problem: QuadraticTasks, scorer: Scorer, settings: Settings) -> float:
    """Predicted J* - J from sampling alone, which every arm has and which falls like 1/T."""
    theta = stationary_point(problem, scorer.mean)
    group = group_variance(problem, theta, scorer.mean, GROUP_SIZE, scorer.noise)
    return sampling_gap(problem, step_variance(group.within), settings.steps)


def run(settings: Settings, folder: Path) -> Section:
    problem = standard_problem()
    gaps = np.stack([final_gaps(problem, Scorer(tilt(size)), settings) for size in SIZES], axis=1)
    unbiased = final_gaps(problem, Scorer(no_bias), settings)
    predicted = np.array([floor(problem, Scorer(tilt(size)).mean) for size in SIZES])
    excess = gaps - unbiased[:, None]
    measured = [mean(column) for column in excess.T]
    bound = 32 * problem.score_norm_squared * SIZES**2 / problem.domination
    rows = [
        [f"{b:g}", float(p), m, yes_or_no(m.covers(p)), float(w)]
        for b, p, m, w in zip(SIZES, predicted, measured, bound, strict=True)
    ]
    controls = [
        ("constant offset of 0.64", problem, Scorer(offset(0.64))),
        ("tilt of 0.64, a single task", one_task(), Scorer(tilt(0.64))),
    ]
    control_rows = [
        [name, noise_gap(where, scorer, settings), mean(final_gaps(where, scorer, settings))]
        for name, where, scorer in controls
    ]
    control_rows.insert(0, ["none", noise_gap(problem, Scorer(no_bias), settings), mean(unbiased)])
    draw(folder / FIGURE, predicted, measured)
    return Section(
        "1. The floor of the pure world model",
        [
            f"Exponent of the floor in B: measured **{exponent(SIZES, excess)}**; of the predicted floors "
            f"{slope(SIZES, predicted):.3f} over the whole range and {slope(SIZES[:3], predicted[:3]):.3f} over its "
            "lower half (2 to leading order: a larger bias also bends the landscape that it tilts).",
            "J* − J after training, less that of the unbiased arm on the same seeds (sampling noise):",
            Table(["B", "predicted floor", "measured", "interval covers it", "the paper's bound 32M²B²/μ"], rows),
            "Controls: biases that do not tilt the gradient leave no floor. What is left is sampling noise, falling "
            "like 1/T.",
            Table(["bias", "predicted sampling noise", "measured J* − J"], control_rows),
        ],
        [FIGURE],
    )


def draw(path: Path, predicted: FloatArray, measured: list[Estimate]) -> None:
    with figures.figure(path) as axis:
        axis.loglog(SIZES, predicted, label="predicted (quadrature)")
        axis.loglog(SIZES, predicted[0] * (SIZES / SIZES[0]) ** 2, "--", color=figures.GREY, label="∝ B²")
        figures.error_bars(axis, SIZES, measured, color=figures.ORANGE, label="measured after training")
        axis.set(xlabel="size of the monotone bias B", ylabel="J* − J", title="World model alone: a floor like B²")
        figures.ticks(axis, SIZES)
        axis.legend()
