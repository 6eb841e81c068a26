"""Policy-gradient training through the library's own reward proxy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.theory.problem import FloatArray, QuadraticTasks
from benchmarks.theory.scorers import Scorer
from wmrl_gym.algorithms.advantages import group_advantages
from wmrl_gym.proxy import RewardProxy

N_GROUPS = 8
GROUP_SIZE = 8
START = np.array([-1.5, 1.5])
FIRST_STEP = 0.4
"""γ_0 in units of 1/L; below 1 also where a bias steepens the score."""


@dataclass(frozen=True, eq=False)
class StepGradient:
    """The gradient estimates of one step's groups, before they are averaged."""

    gradients: FloatArray
    """Shape (G, D). On average (n - 1)/n of the policy gradient, for the group's mean contains each of its members."""
    is_anchor: NDArray[np.bool_]
    weights: FloatArray
    """As the proxy gave them, shape (G,)."""
    metrics: dict[str, float | None]


def step_gradient(
    problem: QuadraticTasks,
    scorer: Scorer,
    proxy: RewardProxy,
    theta: FloatArray,
    step: int,
    rng: np.random.Generator,
    tasks: NDArray[np.int64],
    group_size: int = GROUP_SIZE,
) -> StepGradient:
    """Draw anchors, sample one group per entry of ``tasks``, score them all through the proxy.

    The truth of every trajectory is drawn, but the proxy only reads it where the group is an anchor.
    """
    keys = [f"{g}:{task}" for g, task in enumerate(tasks)]
    draw = proxy.draw(step, keys)
    noise = rng.standard_normal((len(tasks), group_size, len(theta)))
    actions = theta + problem.spread * noise
    truth = problem.truth(tasks[:, None], actions)
    predicted = scorer.predict(rng, truth, actions)
    executed = problem.execute(rng, truth)
    scored = proxy.score_arrays(step, keys, draw.is_anchor, predicted.tolist(), executed.tolist(), draw.propensity)
    advantages = np.array([group_advantages(rewards) for rewards in scored.rewards], float)
    score_function = noise / problem.spread
    gradients = (advantages[..., None] * score_function).mean(axis=1)
    return StepGradient(gradients, draw.is_anchor, scored.weights, scored.metrics)


@dataclass(frozen=True, eq=False)
class Trace:
    """What a run looked like at its checkpoints, C of them."""

    steps: NDArray[np.int64]
    thetas: FloatArray
    """Shape (C, D)."""
    metrics: list[dict[str, float | None]]


def train(
    problem: QuadraticTasks,
    scorer: Scorer,
    proxy: RewardProxy,
    seed: int,
    checkpoints: Sequence[int],
    start: FloatArray = START,
) -> Trace:
    """Stochastic gradient ascent with steps γ_t = 1 / (μ (t + t₀)); the tasks take turns.

    A step that falls like 1/t makes the sampling noise in J* - J fall like 1/T, so that what remains is the bias.
    """
    rng = np.random.default_rng([seed, 1])
    tasks = np.arange(N_GROUPS) % problem.n_tasks
    theta = np.array(start, float)
    rate = 1.0 / problem.domination
    first = rate * problem.smoothness / FIRST_STEP
    unshrink = GROUP_SIZE / (GROUP_SIZE - 1)
    kept: list[tuple[FloatArray, dict[str, float | None]]] = []
    wanted = set(checkpoints)
    for step in range(1, max(checkpoints) + 1):
        estimate = step_gradient(problem, scorer, proxy, theta, step, rng, tasks)
        gradient = (estimate.weights[:, None] * estimate.gradients).mean(axis=0)
        theta = theta + rate / (step + first) * unshrink * gradient
        if step in wanted:
            kept.append((theta, estimate.metrics))
    return Trace(np.array(sorted(wanted)), np.array([theta for theta, _ in kept]), [metrics for _, metrics in kept])


def sampling_gap(problem: QuadraticTasks, variance: FloatArray, steps: int) -> float:
    """E[J* - J] that sampling alone leaves after ``steps``: ½ Σ λ a² v / (2aλ - 1) / T for steps a/t, a = 1/μ.

    Args:
        variance: of one step's gradient in each direction, in units of the unshrunk policy gradient, shape (D,).
    """
    rate, curvature = 1.0 / problem.domination, problem.curvature
    return float((0.5 * curvature * rate**2 * variance / (2 * rate * curvature - 1)).sum() / steps)


def step_variance(group: FloatArray) -> FloatArray:
    """Variance of a step's gradient from that of its groups, made comparable with the policy gradient."""
    return (GROUP_SIZE / (GROUP_SIZE - 1)) ** 2 * group / N_GROUPS
