"""Group-relative advantages: a trajectory is worth what it scored above the mean of its group."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

STD_OFFSET = 1e-4
"""Added to the standard deviation before dividing, as in the paper's authors' code."""


def group_advantages(rewards: Sequence[float | None], *, normalise_by_std: bool = False) -> list[float | None]:
    """Centre the rewards of one group: A = r - mean(r).

    Args:
        rewards: one per trajectory; None is unscored, which neither gets an advantage nor enters the mean.
        normalise_by_std: also divide by the group's standard deviation (n - 1 in the denominator). An affine
            calibration of the rewards is then without effect.

    Returns:
        One advantage per trajectory. All are None if fewer than two are scored: there is nothing to compare with.
    """
    scored = np.array([reward for reward in rewards if reward is not None], float)
    if scored.size < 2:
        return [None] * len(rewards)
    scale = float(scored.std(ddof=1)) + STD_OFFSET if normalise_by_std else 1.0
    mean = float(scored.mean())
    return [None if reward is None else (reward - mean) / scale for reward in rewards]
