"""Prediction 4: a relative error ε in ρ costs only about ε²/4 in variance."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from benchmarks.theory import figures
from benchmarks.theory.fusion import THETA, Repeated, Streams, predict, repeat
from benchmarks.theory.measuring import Estimate, bootstrap
from benchmarks.theory.problem import FloatArray, QuadraticTasks, standard_problem
from benchmarks.theory.quadrature import group_variance
from benchmarks.theory.report import Section, Settings, Table
from benchmarks.theory.scorers import Scorer, no_bias
from benchmarks.theory.training import GROUP_SIZE

ERRORS = np.array([-0.75, -0.5, -0.25, 0.25, 0.5, 1.0, 2.0])
FIGURE = "theory_sensitivity.svg"


def noise_for(problem: QuadraticTasks, rho: float) -> float:
    """σ at which an anchor group is worth ``rho`` world-model groups.

    Noise adds exactly σ² M² (n - 1)/n² to a group's variance.
    """
    executed = group_variance(problem, THETA, lambda r, a: r, GROUP_SIZE, problem.execution_noise).total
    noiseless = group_variance(problem, THETA, lambda r, a: r, GROUP_SIZE, 0.0).total
    per_unit = problem.score_norm_squared * (GROUP_SIZE - 1) / GROUP_SIZE**2
    return float(np.sqrt((rho * executed - noiseless) / per_unit))


def measured_excess(sample: Repeated, rho: float, error: float) -> Estimate:
    """Relative excess variance, on the same gradients as at ρ*, so that their common noise cancels."""
    squared = [squared_deviation(sample.fused(r)) for r in (rho, rho * (1 + error))]
    return bootstrap(np.stack(squared, axis=1), lambda rows: float(rows[:, 1].mean() / rows[:, 0].mean() - 1))


def squared_deviation(gradients: FloatArray) -> FloatArray:
    deviation: FloatArray = ((gradients - gradients.mean(axis=0)) ** 2).sum(axis=1)
    return deviation


def run(settings: Settings, folder: Path) -> Section:
    problem = standard_problem()
    # Two anchors worth three groups each equal six world-model groups; one anchor of eight is the usual 10 %.
    setups = {"equal streams (w* = 0.5)": (2, 3.0), "one anchor of eight, ρ* = 2": (1, 2.0)}
    rows, curves = [], {}
    for name, (n_anchors, rho) in setups.items():
        scorer = Scorer(no_bias, noise_for(problem, rho))
        streams = predict(problem, scorer, n_anchors)
        sample = repeat(problem, scorer, settings.repetitions, n_anchors, seed=4)
        measured = [measured_excess(sample, streams.rho, float(error)) for error in ERRORS]
        curves[name] = (streams, measured)
        for error, excess in zip(ERRORS, measured, strict=True):
            exact = streams.excess(streams.rho * (1 + error))
            rows.append([name, f"{error:+g}", float(error**2 / 4), exact, excess])
    draw(folder / FIGURE, curves)
    return Section(
        "4. Sensitivity to errors in ρ",
        [
            f"Relative excess variance when ρ = ρ*(1 + ε), {settings.repetitions} estimates. Exact form for "
            "independent streams: w*(1 − w*) ε²/(1 + w*ε)², with w* the anchors' share in the best estimate. Its "
            "leading term is ε²/4 when the streams are equally precise, and less otherwise.",
            Table(["streams", "ε", "ε²/4", "exact form", "measured"], rows),
        ],
        [FIGURE],
    )


def draw(path: Path, curves: dict[str, tuple[Streams, list[Estimate]]]) -> None:
    fine = np.linspace(-0.8, 2.0, 100)
    with figures.figure(path) as axis:
        axis.plot(fine, fine**2 / 4, "--", color=figures.GREY, label="ε²/4")
        for (name, (streams, measured)), colour in zip(curves.items(), (figures.BLUE, figures.ORANGE), strict=True):
            axis.plot(fine, [streams.excess(streams.rho * (1 + e)) for e in fine], color=colour, label=f"exact: {name}")
            figures.error_bars(axis, ERRORS, measured, color=colour)
        axis.set(xlabel="relative error ε of ρ", ylabel="relative excess variance", title="Errors in ρ cost little")
        axis.set_ylim(-0.05, 0.75)
        axis.legend(fontsize=8)
