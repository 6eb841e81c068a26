"""What it costs to reach a score, read off a learning curve that is noisy.

The first noisy point above a score would favour whoever is measured most often. So each curve is first made monotone:
isotonic regression weighted by the episodes behind each point, which asks what level the arm reached *and held*. A
curve that rises and collapses is pooled to what it held.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

NEVER = math.inf
"""Cost of a score that a curve does not reach."""


def monotone(scores: Sequence[float] | NDArray[np.float64], weights: Sequence[float]) -> NDArray[np.float64]:
    """The nearest curve that never falls, by weighted least squares; shape as `scores`."""
    from sklearn.isotonic import isotonic_regression

    return np.asarray(isotonic_regression(np.asarray(scores, float), sample_weight=np.asarray(weights, float)))


def cost_to_reach(
    cost: Sequence[float] | NDArray[np.float64], level: Sequence[float] | NDArray[np.float64], target: float
) -> float:
    """The cost at which a monotone curve first has the target, straight lines between its points.

    Args:
        cost: spent at each point, never falling, shape (P,).
        level: monotone score at each point, shape (P,).
        target: the score.

    Returns:
        The cost: `NEVER` if no point has the target, the first point's if that one has.
    """
    reached = np.flatnonzero(np.asarray(level) >= target - 1e-12)
    if not len(reached):
        return NEVER
    p = int(reached[0])
    if p == 0:
        return float(cost[0])
    share = (target - level[p - 1]) / (level[p] - level[p - 1])
    return float(cost[p - 1] + (cost[p] - cost[p - 1]) * min(share, 1.0))


@dataclass(frozen=True)
class Ratio:
    """Cost of an arm to reach a score, divided by that of the reference arm. None is "not reached"."""

    estimate: float | None
    low: float | None
    high: float | None
    reached: float
    """Share of the resamples in which the arm reaches it."""
    defined: float
    """Share of the resamples in which there is a ratio at all: in the others the reference paid nothing."""
    level: float = 0.95


def ratio_of(own: NDArray[np.float64], reference: NDArray[np.float64], level: float) -> Ratio | None:
    """The ratio of costs with its interval.

    Args:
        own: cost of the arm; first the estimate, then one per resample; `NEVER` where it does not reach the score.
        reference: likewise of the reference arm, which always reaches its own score.
        level: of the interval.

    Returns:
        The ratio; None if the reference reached its score without a cost: it has learned nothing that could be reached.
    """
    if reference[0] <= 0:
        return None
    defined = reference > 0
    ratios = own[defined] / reference[defined]
    resampled = ratios[1:]
    if not len(resampled):
        return None
    # Of the given numbers, because a mean of one of them and "never" would be neither.
    low = np.quantile(resampled, (1 - level) / 2, method="lower")
    high = np.quantile(resampled, (1 + level) / 2, method="higher")
    return Ratio(
        estimate=_finite(ratios[0]),
        low=_finite(low),
        high=_finite(high),
        reached=float(np.isfinite(resampled).mean()),
        defined=float(defined[1:].mean()),
        level=level,
    )


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
