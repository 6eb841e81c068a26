"""Predictions without sampling: expectations over the policy on a grid, and where training on a given score must end.

Nothing here is fitted to a run. The trapezoidal rule on a grid of ±6 standard deviations is exact to 1e-7 for the
smooth scores, and to about 1e-5 for a fitted (piecewise linear) map.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import root

from benchmarks.theory.problem import FloatArray, QuadraticTasks

Score = Callable[[FloatArray, FloatArray], FloatArray]
"""(truth, actions) to the mean reward that training sees."""


def standard_normal_grid(dimensions: int, points: int = 81, reach: float = 6.0) -> tuple[FloatArray, FloatArray]:
    """Nodes of shape (J, dimensions) and weights of shape (J,) that sum to 1."""
    axis = np.linspace(-reach, reach, points)
    density = np.exp(-0.5 * axis**2)
    nodes = np.stack(np.meshgrid(*[axis] * dimensions, indexing="ij"), axis=-1).reshape(-1, dimensions)
    weights = np.prod(np.stack(np.meshgrid(*[density] * dimensions, indexing="ij")), axis=0).ravel()
    return nodes, weights / weights.sum()


def task_gradients(problem: QuadraticTasks, theta: FloatArray, score: Score) -> FloatArray:
    """Policy gradient E[score · ∇ log π] of each task, shape (K, D)."""
    nodes, weights = standard_normal_grid(len(theta))
    actions = theta + problem.spread * nodes
    rewards_K = [score(problem.truth(k, actions), actions) for k in range(problem.n_tasks)]
    return np.array([(weights * rewards) @ nodes / problem.spread for rewards in rewards_K])


def mean_score(problem: QuadraticTasks, theta: FloatArray, score: Score) -> float:
    """Mean of ``score`` over the policy and the tasks."""
    nodes, weights = standard_normal_grid(len(theta))
    actions = theta + problem.spread * nodes
    return float(np.mean([weights @ score(problem.truth(k, actions), actions) for k in range(problem.n_tasks)]))


def stationary_point(problem: QuadraticTasks, score: Score, start: FloatArray | None = None) -> FloatArray:
    """θ at which the mean gradient of ``score`` vanishes: where training on it would end, given for ever.

    Raises:
        RuntimeError: if none is found.
    """
    solution = root(
        lambda theta: task_gradients(problem, theta, score).mean(axis=0),
        problem.optimum if start is None else start,
        options={"xtol": 1e-10},
    )
    theta: FloatArray = np.asarray(solution.x)
    if float(np.abs(task_gradients(problem, theta, score).mean(axis=0)).max()) > 1e-4:
        raise RuntimeError(f"no stationary point found near {theta}: {solution.message}")
    return theta


def floor(problem: QuadraticTasks, score: Score) -> float:
    """J* - J at the stationary point of ``score``."""
    return float(problem.gap(stationary_point(problem, score)))


@dataclass(frozen=True, eq=False)
class GroupVariance:
    """Variance of one group's gradient in each direction, shape (D,)."""

    within: FloatArray
    """Of a group of a given task, on average over the tasks."""
    between: FloatArray
    """Of the tasks' mean gradients."""

    @property
    def total(self) -> float:
        """Trace, for a group whose task is drawn at random."""
        return float((self.within + self.between).sum())


def group_variance(
    problem: QuadraticTasks, theta: FloatArray, score: Score, group_size: int, reward_noise: float
) -> GroupVariance:
    """Exact variance of a group-relative gradient, by the variance of U-statistics (Hoeffding).

    The gradient is (n - 1)/n times the mean over pairs of ½ (r_i - r_j)(s_i - s_j), with s = ∇ log π.

    Args:
        reward_noise: standard deviation of the rewards around ``score``, independent of everything.
    """
    n = group_size
    nodes, weights = standard_normal_grid(len(theta))
    actions, shrink = theta + problem.spread * nodes, ((n - 1) / n) ** 2
    gradients = task_gradients(problem, theta, score)
    within = []
    for k in range(problem.n_tasks):
        rewards = score(problem.truth(k, actions), actions)
        variance = (rewards - weights @ rewards) ** 2 + reward_noise**2
        weighted = (weights * variance) @ (nodes / problem.spread) ** 2
        one = (weighted - gradients[k] ** 2) / 4
        two = (weighted + float(weights @ variance) / problem.spread**2) / 2
        within.append(shrink * (4 * (n - 2) * one + 2 * two) / (n * (n - 1)))
    return GroupVariance(np.mean(within, axis=0), shrink * gradients.var(axis=0))


def map_error_constant(problem: QuadraticTasks, theta: FloatArray, bins: int = 100) -> float:
    """C in floor ≈ C / N, the floor that a monotone map fitted to N pairs leaves.

    The map's error enters the gradient as β = E[(f̂ - f)(r̂) ψ(r̂)] with ψ(r̂) = E[∇ log π | r̂]. For such a smooth
    average, isotonic regression is as good as any estimator: Cov(β) = τ² E[ψψᵀ] / N with τ the execution noise, even
    though its error at a single point only falls like N^(-1/3). Training then stops ½ βᵀ H⁻¹ β below the optimum.
    """
    nodes, weights = standard_normal_grid(len(theta), points=321)
    actions, k = theta + problem.spread * nodes, problem.n_tasks
    scores = np.concatenate([problem.truth(task, actions) for task in range(k)])
    order = np.argsort(scores)
    weight = np.tile(weights, k)[order] / k
    score_function = np.tile(nodes / problem.spread, (k, 1))[order]
    bin_of = np.minimum((np.cumsum(weight) * bins).astype(int), bins - 1)
    mass = np.bincount(bin_of, weight, bins)
    psi = np.stack([np.bincount(bin_of, weight * column, bins) / mass for column in score_function.T], axis=1)
    return float(problem.execution_noise**2 / 2 * (mass @ (psi**2 / problem.curvature).sum(axis=1)))


def blurred(score: Callable[[FloatArray], FloatArray], noise: float) -> Callable[[FloatArray], FloatArray]:
    """x to E[score(x + ξ)], sd(ξ) = ``noise``."""
    if noise == 0:
        return score
    points, weights = np.polynomial.hermite_e.hermegauss(31)
    shifts, weights = noise * points, weights / weights.sum()
    return lambda x: np.sum([w * score(x + shift) for shift, w in zip(shifts, weights, strict=True)], axis=0)


def regression_map(
    problem: QuadraticTasks, theta: FloatArray, mean: Score, noise: float, points: int = 300
) -> Callable[[FloatArray], FloatArray]:
    """The map that debiasing tends to with ever more pairs: E[r | r̂], for noise above 0.

    It is not the inverse of the distortion: given r̂ = φ(r) + ξ, the best guess of r leans to the more frequent scores.
    """
    nodes, weights = standard_normal_grid(len(theta), points=61)
    actions = theta + problem.spread * nodes
    truth = np.stack([problem.truth(k, actions) for k in range(problem.n_tasks)])
    seen = mean(truth, np.broadcast_to(actions, (*truth.shape, len(theta))))
    counts, edges = np.histogram(seen.ravel(), bins=2000, weights=np.tile(weights, problem.n_tasks))
    sums, _ = np.histogram(seen.ravel(), bins=edges, weights=(weights * truth).ravel())
    centres = (edges[:-1] + edges[1:]) / 2
    held = counts > 0
    grid = np.linspace(seen.min() - 4 * noise, seen.max() + 4 * noise, points)
    distance = (grid[:, None] - centres[held]) ** 2 / (2 * noise**2)
    kernel = np.exp(distance.min(axis=1, keepdims=True) - distance)
    values = (kernel @ sums[held]) / (kernel @ counts[held])
    return lambda x: np.interp(x, grid, values)
