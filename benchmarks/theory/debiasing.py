"""Prediction 2: with debiasing the floor falls like 1/T, as long as the levels of the score stay apart."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from benchmarks.theory import figures
from benchmarks.theory.measuring import Estimate, exponent, mean
from benchmarks.theory.problem import FloatArray, QuadraticTasks, standard_problem
from benchmarks.theory.quadrature import blurred, floor, map_error_constant, regression_map
from benchmarks.theory.report import Section, Settings, Table, yes_or_no
from benchmarks.theory.scorers import Scorer, no_bias, tilt
from wmrl_gym.proxy import IsotonicDebiaser

PAIRS = np.array([200, 800, 3200, 12800, 51200])
NOISES = (0.1, 0.2, 0.4)
BIAS = 0.32
FIGURE = "theory_debiasing.svg"


def anchor_pairs(
    problem: QuadraticTasks, scorer: Scorer, theta: FloatArray, rng: np.random.Generator, count: int
) -> tuple[FloatArray, FloatArray]:
    """Predicted and executed scores of trajectories of one policy, each of shape (count,)."""
    tasks = np.arange(count) % problem.n_tasks
    actions = theta + problem.spread * rng.standard_normal((count, len(theta)))
    truth = problem.truth(tasks, actions)
    return scorer.predict(rng, truth, actions), problem.execute(rng, truth)


def floor_of_map(problem: QuadraticTasks, scorer: Scorer, debiaser: IsotonicDebiaser) -> float:
    """Where training on this map would end, were it never refitted."""
    calibrate = blurred(debiaser.predict, scorer.noise)
    return floor(problem, lambda truth, actions: calibrate(scorer.mean(truth, actions)))


def map_floors(
    problem: QuadraticTasks, scorer: Scorer, counts: FloatArray, maps: int, window: int = 10**6
) -> FloatArray:
    """Floors of maps fitted to independent sets of pairs of the best policy, shape (maps, counts)."""
    floors = np.empty((maps, len(counts)))
    for seed in range(maps):
        for column, count in enumerate(counts):
            rng = np.random.default_rng([seed, int(count)])
            pairs = anchor_pairs(problem, scorer, problem.optimum, rng, int(count))
            debiaser = IsotonicDebiaser(window=window).fit(*pairs)
            floors[seed, column] = floor_of_map(problem, scorer, debiaser)
    return floors


def run(settings: Settings, folder: Path) -> Section:
    problem, scorer = standard_problem(), Scorer(tilt(BIAS))
    constant = map_error_constant(problem, problem.optimum)
    floors = map_floors(problem, scorer, PAIRS, settings.maps)
    measured = [mean(column) for column in floors.T]
    rows = [[int(n), constant / n, m, yes_or_no(m.covers(constant / n))] for n, m in zip(PAIRS, measured, strict=True)]
    forgetful = map_floors(problem, scorer, np.array([3200]), settings.maps, window=800)[:, 0]
    noise_rows = [
        diluted(problem, Scorer(tilt(size) if size else no_bias, noise), size, max(settings.maps // 16, 2))
        for size in (0.0, BIAS)
        for noise in NOISES
    ]
    draw(folder / FIGURE, constant, measured, floor(problem, scorer.mean))
    return Section(
        "2a. The floor that a fitted map leaves",
        [
            f"Bias B = {BIAS}, no prediction noise, execution noise {problem.execution_noise}; mean of {settings.maps} "
            f"maps. Exponent of the floor in the number of pairs N: measured **{exponent(PAIRS, floors)}**, predicted "
            f"−1. Predicted constant C = {constant:.3g} (floor ≈ C/N). Raw floor: {floor(problem, scorer.mean):.3g}.",
            Table(["pairs N", "predicted C/N", "measured floor of f̂", "interval covers it"], rows),
            f"The pairs that are kept count, not those that ever came: fed 3200 pairs, a window of 800 leaves "
            f"{mean(forgetful)}, predicted C/800 = {constant / 800:.3g}. The default window of 5000 therefore ends the "
            f"fall at about C/5000 = {constant / 5000:.2g}.",
            f"Noise in the prediction breaks the assumption that levels stay apart. The map then tends to E[r | r̂], "
            f"which is not the inverse of the distortion, and a floor remains however many pairs come "
            f"(here {PAIRS[-1]}):",
            Table(["B", "σ", "raw floor", "predicted floor, N → ∞", "measured floor of f̂"], noise_rows),
        ],
        [FIGURE],
    )


def diluted(problem: QuadraticTasks, scorer: Scorer, size: float, maps: int) -> list[str | float | Estimate]:
    limit = blurred(regression_map(problem, problem.optimum, scorer.mean, scorer.noise), scorer.noise)
    predicted = floor(problem, lambda truth, actions: limit(scorer.mean(truth, actions)))
    measured = mean(map_floors(problem, scorer, PAIRS[-1:], maps)[:, 0])
    raw = floor(problem, scorer.mean)
    return [f"{size:g}", f"{scorer.noise:g}", 0.0 if raw < 1e-12 else raw, predicted, measured]


def draw(path: Path, constant: float, measured: list[Estimate], raw: float) -> None:
    with figures.figure(path) as axis:
        axis.loglog(PAIRS, constant / PAIRS, label="predicted C/N")
        figures.error_bars(axis, PAIRS, measured, color=figures.ORANGE, label="measured: floor of the fitted map")
        axis.axhline(raw, linestyle="--", color=figures.GREY, label="without debiasing")
        axis.set(xlabel="anchor pairs N", ylabel="J* − J", title="Debiasing: the floor falls like 1/N")
        figures.ticks(axis, PAIRS)
        axis.legend(loc="lower left")
