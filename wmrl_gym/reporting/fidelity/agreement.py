"""How well predictions agree with the truth, each figure with a bootstrap interval over episodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from wmrl_gym.proxy.agreement import area_under_curve, rank_correlation
from wmrl_gym.reporting.fidelity.pairs import FloatArray, Pairs

Figure = Callable[[Pairs], float | None]
LEAST_FOR_INTERVAL = 20
"""Solutions from which an interval is given: the bootstrap of fewer is too sure of itself."""


@dataclass(frozen=True)
class Estimate:
    """A figure; None where the solutions do not say."""

    value: float | None
    low: float | None
    """Bounds of the interval; None if the figure is, if there are fewer than `LEAST_FOR_INTERVAL` solutions, or if less
    than half of the draws have a figure."""
    high: float | None


def _mean(values: FloatArray) -> float | None:
    known = values[np.isfinite(values)]
    return float(known.mean()) if known.size else None


def _status_accuracy(pairs: Pairs) -> float | None:
    known = pairs.known
    return _mean((pairs.status == pairs.true_status)[known].astype(float))


def _strict_accuracy(pairs: Pairs) -> float | None:
    return _mean(((pairs.status == pairs.true_status) & pairs.known).astype(float))


def _absolute_error(pairs: Pairs) -> float | None:
    return _mean(np.abs(pairs.predicted - pairs.executed))


def _bias(pairs: Pairs) -> float | None:
    return _mean(pairs.predicted - pairs.executed)


def _spearman(pairs: Pairs) -> float | None:
    known = pairs.known
    return rank_correlation(pairs.predicted[known], pairs.executed[known])


def _spearman_valid(pairs: Pairs) -> float | None:
    known = pairs.known & pairs.valid
    return rank_correlation(pairs.predicted[known], pairs.executed[known])


def _validity_auc(pairs: Pairs) -> float | None:
    known = pairs.known
    return area_under_curve(pairs.predicted[known], pairs.valid[known])


def _abstention_rate(pairs: Pairs) -> float | None:
    return _mean((~pairs.known).astype(float))


FIGURES: Mapping[str, Figure] = {
    "status_accuracy": _status_accuracy,
    "status_accuracy_at_2": lambda pairs: _mean(pairs.second_right),
    "status_accuracy_unknown_wrong": _strict_accuracy,
    "exception_accuracy": lambda pairs: _mean(pairs.exception_right),
    "exception_accuracy_at_2": lambda pairs: _mean(pairs.second_exception_right),
    "reward_mae": _absolute_error,
    "reward_bias": _bias,
    "spearman": _spearman,
    "spearman_valid": _spearman_valid,
    "validity_auc": _validity_auc,
    "abstention_rate": _abstention_rate,
}
"""Name -> figure. All but the last and ``status_accuracy_unknown_wrong`` are over the scripts it does not abstain on;
exceptions are those of scripts that really raise; bias is predicted minus executed, so positive is lenient."""

SUMMARY = ("status_accuracy", "reward_mae", "reward_bias", "validity_auc", "spearman", "abstention_rate")
"""The figures of a part of the solutions."""


def estimates(
    pairs: Pairs, names: tuple[str, ...] = tuple(FIGURES), *, resamples: int, level: float, seed: int
) -> dict[str, Estimate]:
    """Each figure with the interval that holds `level` of its bootstrap distribution.

    Whole episodes are drawn with replacement, because an answer and its revision are no independent draws.
    """
    draws: dict[str, list[float]] = {name: [] for name in names}
    for rows in episode_draws(pairs, resamples, seed) if len(pairs) >= LEAST_FOR_INTERVAL else []:
        drawn = pairs.take(rows)
        for name in names:
            value = FIGURES[name](drawn)
            if value is not None:
                draws[name].append(value)
    return {name: _estimate(FIGURES[name](pairs), draws[name], resamples, level) for name in names}


def episode_draws(pairs: Pairs, resamples: int, seed: int) -> list[np.ndarray]:
    """Rows of each bootstrap sample: as many episodes as there are, drawn with replacement."""
    rng = np.random.default_rng(seed)
    _, number = np.unique(pairs.episode, return_inverse=True)
    rows = [np.flatnonzero(number == i) for i in range(number.max() + 1)] if len(pairs) else []
    if not rows:
        return []
    return [np.concatenate([rows[i] for i in rng.integers(len(rows), size=len(rows))]) for _ in range(resamples)]


def _estimate(value: float | None, draws: list[float], resamples: int, level: float) -> Estimate:
    if value is None or not draws or 2 * len(draws) < resamples:
        return Estimate(value, None, None)
    low, high = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2])
    return Estimate(value, float(low), float(high))
