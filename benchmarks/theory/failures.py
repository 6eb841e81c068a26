"""Where the assumptions fail: a reversed order, a world model that can be gamed, anchors that do not reach.

Each case is trained, compared with what quadrature says must happen, and shown with the metrics of the reward proxy, to
see which of them would have told.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from benchmarks.theory import figures
from benchmarks.theory.debiasing import anchor_pairs
from benchmarks.theory.measuring import Estimate, mean
from benchmarks.theory.problem import FloatArray, QuadraticTasks, standard_problem
from benchmarks.theory.quadrature import floor, mean_score, stationary_point
from benchmarks.theory.report import Cell, Section, Settings, Table
from benchmarks.theory.scorers import Scorer, exploit, reversal, tilt
from benchmarks.theory.training import N_GROUPS, Trace, train
from wmrl_gym.proxy import InverseVarianceFusion, IsotonicDebiaser, RandomAnchors, RewardProxy

FIGURE = "theory_failures.svg"
RHO = 2.0
METRICS = ("pairs", "refits", "bias_before", "bias_after", "residual", "rho", "rank_correlation", "auc")
SUCCESS_SCORE = -0.8
"""What counts as a success in the metric ``auc``: the better half of the best policy's scores, roughly."""


@dataclass(frozen=True)
class Case:
    """One way to train."""

    name: str
    scorer: Scorer
    fraction: float = 0.1
    min_per_step: int = 1
    debias: bool = True
    calibrated_once: bool = False
    """Whether the map is fitted to 200 pairs of the untrained policy, and never again."""
    start: tuple[float, float] = (-1.5, 1.5)

    def proxy(self, problem: QuadraticTasks, seed: int) -> RewardProxy:
        debiaser = IsotonicDebiaser(refit_every=10**9) if self.calibrated_once else IsotonicDebiaser()
        if self.calibrated_once:
            rng = np.random.default_rng([seed, 5])
            debiaser.fit(*anchor_pairs(problem, self.scorer, np.array(self.start), rng, debiaser.min_pairs))
        return RewardProxy(
            RandomAnchors(self.fraction, self.min_per_step, seed=seed),
            debiaser if self.debias else None,
            InverseVarianceFusion() if self.debias else None,
            success_score=SUCCESS_SCORE,
            metric_window=256,
        )

    def train(self, problem: QuadraticTasks, seed: int, checkpoints: Sequence[int]) -> Trace:
        return train(problem, self.scorer, self.proxy(problem, seed), seed, checkpoints, np.array(self.start))

    def predicted(self, problem: QuadraticTasks) -> float | None:
        """The floor that quadrature expects of this arm; None where the theory has none to offer."""
        if self.calibrated_once:
            return None
        draw = RandomAnchors(self.fraction, self.min_per_step).draw(0, [str(g) for g in range(N_GROUPS)])
        share = float(draw.propensity[0])
        if not self.debias or share < 0.005:  # too few pairs to fit a map or to leave the warm-up
            return floor(problem, lambda r, a: share * r + (1 - share) * self.scorer.mean(r, a))
        return corrected_floor(problem, self.scorer, RHO * share / (RHO * share + 1 - share))


MONOTONE, REVERSED, GAMED = Scorer(tilt(0.64)), Scorer(reversal(1.0)), Scorer(exploit(0.5))
BEST, FAR = (0.0, 0.0), (2.5, 2.5)
REFERENCE = Case("monotone bias: the assumptions hold", MONOTONE)
GAMED_ALONE = Case("gamed world model alone, from the best policy", GAMED, fraction=0.0, debias=False, start=BEST)
GAMED_CORRECTED = Case("gamed, corrected, from the best policy", GAMED, start=BEST)
CASES = (
    REFERENCE,
    Case("order reversed in the middle", REVERSED),
    GAMED_ALONE,
    GAMED_CORRECTED,
    Case("monotone, 1 % anchors", MONOTONE, fraction=0.01, min_per_step=0),
    Case("monotone, 0.1 % anchors", MONOTONE, fraction=0.001, min_per_step=0),
    Case("monotone, calibrated once before training", MONOTONE, calibrated_once=True, start=FAR),
)


def run(settings: Settings, folder: Path) -> Section:
    problem = standard_problem()
    steps = [int(step) for step in np.unique(np.geomspace(1, settings.steps * 2 // 3, 16).astype(int))]
    seeds = range(max(settings.seeds // 2, 2))
    traces = {case: [case.train(problem, seed, steps) for seed in seeds] for case in CASES}
    rows = [
        [case.name, floor(problem, case.scorer.mean), case.predicted(problem), final_gap(problem, runs)]
        for case, runs in traces.items()
    ]
    metric_rows = [[case.name, *metrics_at(runs, -1)] for case, runs in traces.items()]
    early = [[f"{GAMED_CORRECTED.name}: steps 1 to {steps[4]}", *metrics_at(traces[GAMED_CORRECTED], 4)]]
    said, true = mean_scores(problem, traces[GAMED_ALONE])
    draw(folder / FIGURE, problem, traces)
    return Section(
        "5. Where the assumptions fail",
        [
            f"{steps[-1]} steps, {len(seeds)} seeds, the library's default debiasing (window 5000, refit every 64) and "
            "fusion unless said otherwise.",
            "The predicted floor of a corrected arm is that of unlimited anchor pairs, the anchors weighed by the ρ̂ of "
            "about 2 to which the library's fusion tends.",
            Table(["case", "floor of the raw scores", "predicted floor of this arm", "J* − J at the end"], rows),
            "Metrics of `RewardProxy.metrics()` at the end, mean over seeds (– is unknown); for the gamed world model "
            "also early in training:",
            Table(["case", *METRICS], [*metric_rows, *early]),
            f"Gamed world model alone, step {steps[0]} to {steps[-1]}: its mean score changes by "
            f"{said[-1] - said[0]:+.3f}, the true mean by {true[-1] - true[0]:+.3f}.",
        ],
        [FIGURE],
    )


def corrected_floor(problem: QuadraticTasks, scorer: Scorer, weight: float, pairs: int = 40000) -> float:
    """Floor with unlimited pairs: the map of many pairs at the policy where that very map ends training.

    Args:
        weight: share of the executed scores in the fused gradient.
    """
    noiseless, theta = replace(problem, execution_noise=0.0), problem.optimum
    for seed in range(4):
        rng = np.random.default_rng([seed, 6])
        debiaser = IsotonicDebiaser(window=pairs).fit(*anchor_pairs(noiseless, scorer, theta, rng, pairs))

        def score(truth: FloatArray, actions: FloatArray, learned: IsotonicDebiaser = debiaser) -> FloatArray:
            return weight * truth + (1 - weight) * learned.predict(scorer.mean(truth, actions))

        theta = stationary_point(problem, score, theta)
    return float(problem.gap(theta))


def final_gap(problem: QuadraticTasks, traces: Sequence[Trace]) -> Estimate:
    return mean(np.array([float(problem.gap(trace.thetas[-1])) for trace in traces]))


def metrics_at(traces: Sequence[Trace], checkpoint: int) -> list[Cell]:
    row: list[Cell] = []
    for metric in METRICS:
        values = [value for trace in traces if (value := trace.metrics[checkpoint][metric]) is not None]
        row.append(float(np.mean(values)) if values else None)
    return row


def mean_scores(problem: QuadraticTasks, traces: Sequence[Trace]) -> tuple[FloatArray, FloatArray]:
    """What the gamed world model says of the policy and what is true, at each checkpoint, means over seeds."""
    thetas = np.mean([trace.thetas for trace in traces], axis=0)
    said = [mean_score(problem, theta, GAMED.mean) for theta in thetas]
    true = [mean_score(problem, theta, lambda truth, actions: truth) for theta in thetas]
    return np.array(said), np.array(true)


def draw(path: Path, problem: QuadraticTasks, traces: dict[Case, list[Trace]]) -> None:
    colours = [figures.GREY, figures.RED, figures.ORANGE, figures.GREEN, figures.BLUE, figures.PURPLE, figures.BROWN]
    with figures.figure(path, columns=2, width=5.0, height=4.2) as (left, right):
        steps = traces[GAMED_ALONE][0].steps
        said, true = mean_scores(problem, traces[GAMED_ALONE])
        left.semilogx(steps, said, color=figures.ORANGE, label="predicted")
        left.semilogx(steps, true, color=figures.BLUE, label="true")
        left.set(xlabel="training steps", ylabel="mean score", title="A gamed world model alone")
        left.legend()
        for (case, runs), colour in zip(traces.items(), colours, strict=True):
            gap = np.mean([problem.gap(trace.thetas) for trace in runs], axis=0)
            right.loglog(steps, gap, color=colour, label=case.name)
        right.set(xlabel="training steps", ylabel="mean J* − J", title="What is left to gain")
        right.legend(fontsize=7, loc="lower left")
