"""How sure one can be of a mean over held-out tasks: the stratified bootstrap."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Values = Mapping[str, Sequence[float]]
"""Task -> one number per episode."""


@dataclass(frozen=True)
class Interval:
    """An estimate and the bounds that hold `level` of its bootstrap distribution."""

    estimate: float
    low: float
    high: float
    level: float = 0.95

    @property
    def excludes_zero(self) -> bool:
        """Whether zero lies outside the bounds."""
        return self.low > 0 or self.high < 0


def category_weights(categories: Mapping[str, str]) -> dict[str, float]:
    """Weight of each task in the mean over categories of the mean over their tasks; the weights add up to 1."""
    sizes = Counter(categories.values())
    return {task: 1 / (len(sizes) * sizes[category]) for task, category in categories.items()}


def mean_interval(
    values: Values,
    weights: Mapping[str, float] | None = None,
    *,
    level: float = 0.95,
    resamples: int = 4000,
    seed: int = 0,
    share: bool = False,
) -> Interval:
    """Mean over tasks of the mean over episodes, with its interval.

    The tasks are fixed, because they are the benchmark; the episodes are drawn anew within each task. So the interval
    speaks of the agent's randomness on these tasks, not of other tasks.

    Args:
        values: of each task's episodes.
        weights: of the tasks, adding up to 1; None weighs them alike.
        level: of the interval.
        resamples: of the bootstrap.
        seed: of the resampling.
        share: the values are shares of 1, so the bounds stay between 0 and 1.

    Raises:
        ValueError: if there is no task, or a task without an episode.
    """
    means = resampled_means(values, weights, resamples, np.random.default_rng(seed))
    found = _interval(_mean(values, weights), means, level, [(values, weights)])
    if not share:
        return found
    return Interval(found.estimate, max(found.low, 0.0), min(found.high, 1.0), level)


def difference_interval(
    before: Values,
    after: Values,
    weights: Mapping[str, float] | None = None,
    *,
    level: float = 0.95,
    resamples: int = 4000,
    seed: int = 0,
) -> Interval:
    """`after` minus `before`, episodes of both drawn anew; arguments as in `mean_interval`.

    Raises:
        ValueError: if the two do not hold the same tasks.
    """
    if set(before) != set(after):
        raise ValueError(f"the evaluations are of different tasks: {sorted(set(before) ^ set(after))} are in one only")
    rng = np.random.default_rng(seed)
    resampled = [resampled_means(values, weights, resamples, rng) for values in (before, after)]
    estimate = _mean(after, weights) - _mean(before, weights)
    return _interval(estimate, resampled[1] - resampled[0], level, [(before, weights), (after, weights)])


def _mean(values: Values, weights: Mapping[str, float] | None) -> float:
    means = [np.mean(episodes) for episodes in values.values()]
    return float(np.average(means, weights=None if weights is None else [weights[task] for task in values]))


def resampled_means(
    values: Values, weights: Mapping[str, float] | None, resamples: int, rng: np.random.Generator
) -> NDArray[np.float64]:
    """Means over tasks of episodes drawn anew within each task, shape (resamples,).

    Episodes that are drawn from n of them vary by a share (n - 1) / n too little, which with two episodes is half: what
    is drawn is stretched by as much. A task with one episode says nothing of its spread, and adds none.

    Raises:
        ValueError: if there is no task, or a task without an episode.
    """
    if not values or any(len(episodes) == 0 for episodes in values.values()):
        raise ValueError("an interval needs at least one task, and an episode of each")
    total = np.zeros(resamples)
    for task in sorted(values):  # by name: the draw must not depend on the order of the mapping
        episodes = np.asarray(values[task], float)
        means = episodes[rng.integers(len(episodes), size=(resamples, len(episodes)))].mean(axis=1)
        stretch = np.sqrt(len(episodes) / max(len(episodes) - 1, 1))
        means = episodes.mean() + stretch * (means - episodes.mean())
        total += means * (1 / len(values) if weights is None else weights[task])
    return total


def interval_of(estimate: float, means: NDArray[np.float64], level: float) -> Interval:
    """An estimate with the bounds that hold `level` of these resampled values."""
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return Interval(estimate, float(low), float(high), level)


def _interval(
    estimate: float,
    means: NDArray[np.float64],
    level: float,
    parts: Sequence[tuple[Values, Mapping[str, float] | None]],
) -> Interval:
    """The bounds, wider by as much as Student's t is wider than the normal distribution.

    How far episodes spread is itself estimated. The degrees of freedom are Welch's and Satterthwaite's.
    """
    from scipy.stats import norm, t

    variances, freedoms = [], []
    for values, weights in parts:
        for task, episodes in values.items():
            weight = 1 / len(values) if weights is None else weights[task]
            if len(episodes) > 1:
                variances.append(weight**2 * float(np.var(episodes, ddof=1)) / len(episodes))
                freedoms.append(len(episodes) - 1)
    factor = 1.0
    if sum(variances) > 0:
        squares = sum(variance**2 / freedom for variance, freedom in zip(variances, freedoms, strict=True))
        upper = (1 + level) / 2
        factor = float(t.ppf(upper, sum(variances) ** 2 / squares) / norm.ppf(upper))
    return interval_of(estimate, estimate + factor * (means - estimate), level)
