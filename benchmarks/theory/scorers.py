"""World models with a bias of known shape and size: r̂ = r + b + ξ, |b| ≤ B, sd(ξ) = σ."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from benchmarks.theory.problem import FloatArray

Bias = Callable[[FloatArray, FloatArray], FloatArray]
"""(truth of shape (...), actions of shape (..., D)) to b, of shape (...)."""


@dataclass(frozen=True)
class Scorer:
    """A world model of the quadratic tasks."""

    bias: Bias
    noise: float = 0.0
    """σ."""

    def mean(self, truth: FloatArray, actions: FloatArray) -> FloatArray:
        """Predicted scores without the noise."""
        return truth + self.bias(truth, actions)

    def predict(self, rng: np.random.Generator, truth: FloatArray, actions: FloatArray) -> FloatArray:
        """Predicted scores r̂."""
        return self.mean(truth, actions) + self.noise * rng.standard_normal(truth.shape)


def no_bias(truth: FloatArray, actions: FloatArray) -> FloatArray:
    return np.zeros_like(truth)


def offset(size: float) -> Bias:
    """The same for every score. Group-relative advantages cannot see it."""
    return lambda truth, actions: np.full_like(truth, size)


def tilt(size: float, centre: float = -0.6, width: float = 0.5) -> Bias:
    """Monotone: overrates what is good and underrates what is bad, changing over around ``centre``.

    It stretches the scores of the easy tasks more than those of the hard ones, so the policy favours the easy.
    """
    return lambda truth, actions: size * np.tanh((truth - centre) / width)


def reversal(size: float, centre: float = -0.6, width: float = 0.5) -> Bias:
    """The tilt with its sign turned: with ``size`` above ``width`` the order of scores near ``centre`` is reversed."""
    return tilt(-size, centre, width)


def exploit(size: float, direction: int = 1, width: float = 1.0) -> Bias:
    """Rewards a feature of the action that is worth nothing (a longer script, a confident comment)."""
    return lambda truth, actions: size * np.tanh(actions[..., direction] / width)
