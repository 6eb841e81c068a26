"""Prediction 3: fused by inverse variance, two streams have V = V_WM / (1 + V_WM / V_E), below either.

Measured at one fixed policy by repeating the gradient estimate. The tasks of the groups are drawn independently here:
the theory wants independent streams, and tasks taken in turns would make them share a fixed budget of tasks.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.theory import figures
from benchmarks.theory.measuring import Estimate, trace_variance
from benchmarks.theory.problem import FloatArray, QuadraticTasks, standard_problem
from benchmarks.theory.quadrature import group_variance
from benchmarks.theory.report import Section, Settings, Table
from benchmarks.theory.scorers import Scorer, no_bias
from benchmarks.theory.training import GROUP_SIZE, N_GROUPS, step_gradient
from wmrl_gym.proxy import InverseVarianceFusion, RandomAnchors, RewardProxy, group_weights

N_ANCHORS = 2
NOISES = (0.0, 0.25, 0.5, 1.0, 2.0)
THETA = np.array([0.3, -0.2])
FIGURE = "theory_fusion.svg"


@dataclass(frozen=True, eq=False)
class Repeated:
    """Gradient estimates at one policy, R times."""

    gradients: FloatArray
    """Shape (R, G, D)."""
    is_anchor: NDArray[np.bool_]
    """Shape (R, G)."""
    weights: FloatArray
    """As the library's own fusion chose them, shape (R, G)."""
    rho: FloatArray
    """Shape (R,)."""
    residual: float
    """η̂² after the last repetition."""

    def stream(self, anchors: bool) -> FloatArray:
        """Mean gradient of the anchor groups, or of the others, shape (R, D)."""
        chosen = (self.is_anchor == anchors)[..., None]
        mean: FloatArray = (self.gradients * chosen).sum(axis=1) / chosen.sum(axis=1)
        return mean

    def fused(self, rho: float) -> FloatArray:
        """The library's fused gradient with a given ρ, shape (R, D)."""
        weights = np.array([group_weights(row, rho) for row in self.is_anchor])
        mean: FloatArray = (weights[..., None] * self.gradients).mean(axis=1)
        return mean


def repeat(
    problem: QuadraticTasks, scorer: Scorer, repetitions: int, n_anchors: int = N_ANCHORS, seed: int = 0
) -> Repeated:
    """Estimate the gradient at THETA, with exactly ``n_anchors`` executed groups each time."""
    # A fraction of almost 0 with a minimum a step: the anchors are the groups lowest in hash order.
    proxy = RewardProxy(RandomAnchors(1e-12, n_anchors, seed=seed), None, InverseVarianceFusion(), metric_window=8)
    rng = np.random.default_rng([seed, 3])
    steps = [
        step_gradient(problem, scorer, proxy, THETA, step, rng, rng.integers(0, problem.n_tasks, N_GROUPS))
        for step in range(repetitions)
    ]
    return Repeated(
        np.array([step.gradients for step in steps]),
        np.array([step.is_anchor for step in steps]),
        np.array([step.weights for step in steps]),
        np.array([step.metrics["rho"] for step in steps], float),
        float(steps[-1].metrics["residual"] or 0.0),
    )


@dataclass(frozen=True)
class Streams:
    """Predicted variances (traces) of the two streams' means."""

    executed: float
    world_model: float
    n_anchors: int = N_ANCHORS

    @property
    def harmonic(self) -> float:
        """The theory's V."""
        return self.world_model / (1 + self.world_model / self.executed)

    @property
    def anchor_share(self) -> float:
        """w*, the anchors' share in the best fused gradient."""
        return self.world_model / (self.executed + self.world_model)

    @property
    def rho(self) -> float:
        """ρ*, the best weight of one anchor group against one world-model group."""
        return self.world_model * (N_GROUPS - self.n_anchors) / (self.executed * self.n_anchors)

    def excess(self, rho: float) -> float:
        """Relative excess variance at another ρ: w*(1 - w*) ε² / (1 + w* ε)², with ε the relative error of ρ."""
        error, share = rho / self.rho - 1, self.anchor_share
        return share * (1 - share) * error**2 / (1 + share * error) ** 2


def predict(problem: QuadraticTasks, scorer: Scorer, n_anchors: int = N_ANCHORS) -> Streams:
    def truth(r: FloatArray, actions: FloatArray) -> FloatArray:
        return r

    executed = group_variance(problem, THETA, truth, GROUP_SIZE, problem.execution_noise).total
    predicted = group_variance(problem, THETA, scorer.mean, GROUP_SIZE, scorer.noise).total
    return Streams(executed / n_anchors, predicted / (N_GROUPS - n_anchors), n_anchors)


def run(settings: Settings, folder: Path) -> Section:
    cases = [(noise, 0.3) for noise in NOISES] + [(0.0, 1.5)]
    rows, library_rows, plotted = [], [], []
    for seed, (noise, execution_noise) in enumerate(cases):
        problem, scorer = standard_problem(execution_noise), Scorer(no_bias, noise)
        streams, sample = predict(problem, scorer), repeat(problem, scorer, settings.repetitions, seed=seed)
        measured = [trace_variance(g) for g in (sample.stream(True), sample.stream(False), sample.fused(streams.rho))]
        label = f"{noise:g}" if execution_noise == 0.3 else f"{noise:g}, execution noise {execution_noise:g}"
        predicted = (streams.executed, streams.world_model, streams.harmonic)
        rows.append([label, *(cell for pair in zip(predicted, measured, strict=True) for cell in pair)])
        learned = trace_variance((sample.weights[..., None] * sample.gradients).mean(axis=1))
        rho = float(sample.rho[settings.repetitions // 2 :].mean())
        excess = learned.value / measured[2].value - 1
        library_rows.append([label, streams.rho, sample.residual, rho, f"{streams.excess(rho):+.1%}", f"{excess:+.1%}"])
        if execution_noise == 0.3:
            plotted.append((noise, streams, measured))
    draw(folder / FIGURE, plotted)
    return Section(
        "3. The variance of the fused gradient",
        [
            f"{N_ANCHORS} anchors of {N_GROUPS} groups, {settings.repetitions} estimates at a fixed policy, no bias, "
            "execution noise 0.3 unless said otherwise. Variances are traces; predictions are exact (quadrature).",
            Table(
                ["σ", "V_E predicted", "measured", "V_WM predicted", "measured", "harmonic form", "measured at ρ*"],
                rows,
            ),
            "The library's own ρ̂ = 1 + η̂²/η̂²_cal against the best ρ*, and what the difference costs in variance:",
            Table(["σ", "ρ*", "η̂²", "ρ̂ (mean)", "predicted excess at ρ̂", "measured excess"], library_rows),
        ],
        [FIGURE],
    )


def draw(path: Path, plotted: list[tuple[float, Streams, list[Estimate]]]) -> None:
    noises = [noise for noise, _, _ in plotted]
    lines = {
        "anchors alone, V_E": [streams.executed for _, streams, _ in plotted],
        "world model alone, V_WM": [streams.world_model for _, streams, _ in plotted],
        "fused: harmonic form": [streams.harmonic for _, streams, _ in plotted],
    }
    with figures.figure(path) as axis:
        for index, ((name, values), colour) in enumerate(
            zip(lines.items(), (figures.BLUE, figures.ORANGE, figures.GREEN), strict=True)
        ):
            axis.plot(noises, values, color=colour, label=name)
            figures.error_bars(axis, noises, [measured[index] for _, _, measured in plotted], color=colour)
        axis.set(
            xlabel="noise of the world model σ", ylabel="variance (trace)", title="Predicted (lines), measured (points)"
        )
        axis.set_ylim(bottom=0)
        axis.legend()
