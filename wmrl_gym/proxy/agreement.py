"""How well predicted scores agree with executed ones: rank correlation and area under the ROC curve.

A policy gradient with centred advantages only uses the order of scores, so these two say what a world model is worth.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray


def average_ranks(values: ArrayLike) -> NDArray[np.float64]:
    """Ranks from 1, equal values sharing the mean of theirs, shape (n,)."""
    _, inverse, counts = np.unique(np.asarray(values, float), return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2.0)[inverse]


def rank_correlation(predicted: ArrayLike, executed: ArrayLike) -> float | None:
    """Spearman's rank correlation, in [-1, 1]; None if either side does not vary."""
    p, e = average_ranks(predicted), average_ranks(executed)
    if p.size < 2 or np.ptp(p) == 0 or np.ptp(e) == 0:
        return None
    p, e = p - p.mean(), e - e.mean()
    return float(np.clip((p @ e) / np.sqrt((p @ p) * (e @ e)), -1.0, 1.0))


def area_under_curve(predicted: ArrayLike, is_good: ArrayLike) -> float | None:
    """Probability that a good trajectory is predicted above a bad one, ties counting half; None without both kinds."""
    good = np.asarray(is_good, bool)
    n_good, n_bad = int(good.sum()), int((~good).sum())
    if n_good == 0 or n_bad == 0:
        return None
    return float((average_ranks(predicted)[good].sum() - n_good * (n_good + 1) / 2) / (n_good * n_bad))
