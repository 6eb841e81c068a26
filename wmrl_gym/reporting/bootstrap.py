"""How sure one can be of a mean over held-out tasks: the stratified bootstrap."""

from __future__ import annotations

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


def mean_interval(values: Values, *, level: float = 0.95, resamples: int = 4000, seed: int = 0) -> Interval:
    """Mean over tasks of the mean over episodes, with its interval.

    The tasks are fixed, because they are the benchmark; the episodes are drawn anew within each task. So the interval
    speaks of the agent's randomness on these tasks, not of other tasks.

    Raises:
        ValueError: if there is no task, or a task without an episode.
    """
    means = _resampled_means(values, resamples, np.random.default_rng(seed))
    return _interval(_mean(values), means, level)


def difference_interval(
    before: Values, after: Values, *, level: float = 0.95, resamples: int = 4000, seed: int = 0
) -> Interval:
    """`after` minus `before`, episodes of both drawn anew.

    Raises:
        ValueError: if the two do not hold the same tasks.
    """
    if set(before) != set(after):
        raise ValueError(f"the evaluations are of different tasks: {sorted(set(before) ^ set(after))} are in one only")
    rng = np.random.default_rng(seed)
    differences = -_resampled_means(before, resamples, rng) + _resampled_means(after, resamples, rng)
    return _interval(_mean(after) - _mean(before), differences, level)


def _mean(values: Values) -> float:
    return float(np.mean([np.mean(episodes) for episodes in values.values()]))


def _resampled_means(values: Values, resamples: int, rng: np.random.Generator) -> NDArray[np.float64]:
    if not values or any(len(episodes) == 0 for episodes in values.values()):
        raise ValueError("an interval needs at least one task, and an episode of each")
    total = np.zeros(resamples)
    for task in sorted(values):  # by name: the draw must not depend on the order of the mapping
        episodes = np.asarray(values[task], float)
        total += episodes[rng.integers(len(episodes), size=(resamples, len(episodes)))].mean(axis=1)
    return total / len(values)


def _interval(estimate: float, means: NDArray[np.float64], level: float) -> Interval:
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return Interval(estimate, float(low), float(high), level)
