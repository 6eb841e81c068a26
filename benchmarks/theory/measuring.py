"""Means, exponents and ratios with bootstrap intervals over seeds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from benchmarks.theory.problem import FloatArray

N_BOOTSTRAP = 2000


@dataclass(frozen=True)
class Estimate:
    """A measured number and its 95 % interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.3g} [{self.low:.3g}, {self.high:.3g}]"

    def covers(self, number: float) -> bool:
        return self.low <= number <= self.high


def bootstrap(samples: FloatArray, statistic: Callable[[FloatArray], float]) -> Estimate:
    """Percentile interval of ``statistic`` over resampled rows, shape (S, ...): one row per seed or repetition."""
    rng = np.random.default_rng(0)
    n = len(samples)
    draws = [statistic(samples[rng.integers(0, n, n)]) for _ in range(N_BOOTSTRAP if n > 1 else 1)]
    low, high = np.quantile(draws, [0.025, 0.975])
    return Estimate(statistic(samples), float(low), float(high))


def mean(samples: FloatArray) -> Estimate:
    """Mean over seeds, samples of shape (S,)."""
    return bootstrap(samples, lambda rows: float(rows.mean()))


def exponent(x: FloatArray, samples: FloatArray) -> Estimate:
    """p in mean(y) ∝ x^p, by least squares on logarithms; x of shape (X,), samples of shape (S, X)."""
    return bootstrap(samples, lambda rows: slope(x, rows.mean(axis=0)))


def slope(x: FloatArray, y: FloatArray) -> float:
    """p in y ∝ x^p."""
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def trace_variance(gradients: FloatArray) -> Estimate:
    """Trace of the covariance of repeated gradients, shape (R, D). The interval is the normal one of a mean."""
    squared = ((gradients - gradients.mean(axis=0)) ** 2).sum(axis=1)
    value = float(squared.mean()) * len(squared) / (len(squared) - 1)
    error = 1.96 * float(squared.std()) / np.sqrt(len(squared))
    return Estimate(value, value - error, value + error)
