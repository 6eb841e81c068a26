"""Inverse-variance fusion: how much an anchor group counts beside a world-model group.

Two streams estimate the same policy gradient: anchors (executed, clean, few) and world-model groups (predicted, noisy,
many). Weighing each by the inverse of its variance gives an estimate better than either (paper, Theorem 4).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

NO_VARIANCE = 1e-9
"""Executed scores that vary less than this rank nothing."""

SMALLEST_CALIBRATION_RESIDUAL = 1e-12
"""Stands in for a residual of exactly 0 during warm-up: a world model that was perfect then leaves nothing to divide
by. It gives rho = 1 while the world model stays perfect, and the upper clip as soon as it does not."""


def group_residual(calibrated: ArrayLike, executed: ArrayLike) -> float | None:
    """Squared disagreement inside one anchor group, in units of the executed scores' variance.

    Centred, because a group-relative advantage never sees a constant offset.

    Args:
        calibrated: debiased predicted scores of the group, shape (n,).
        executed: executed scores of the same trajectories, shape (n,).

    Returns:
        The residual (dimensionless, 0 is perfect), or None when the executed scores do not vary: such a group ranks
        nothing and must not pull the estimate towards zero.
    """
    c, r = np.asarray(calibrated, float), np.asarray(executed, float)
    if r.size < 2 or r.var() < NO_VARIANCE:
        return None
    return float(np.mean(((c - c.mean()) - (r - r.mean())) ** 2) / r.var())


def group_weights(is_anchor: ArrayLike, rho: float) -> NDArray[np.float64]:
    """Weight per group, mean exactly 1, so that the plain mean of w·A over groups is the fused gradient.

    g = (rho * g_E + g_WM) / (rho * |G_E| + |G_WM|), with g_E and g_WM sums over groups.

    Args:
        is_anchor: which groups are anchors, shape (G,).
        rho: weight of an anchor group relative to a world-model group, positive.
    """
    anchor_G = np.asarray(is_anchor, bool)
    total = rho * anchor_G.sum() + (~anchor_G).sum()
    return np.where(anchor_G, rho, 1.0) * anchor_G.size / total


class InverseVarianceFusion:
    """Tracks the world model's residual on anchor groups and turns it into rho.

    rho = 1 + eta^2 / eta^2_cal, clipped: when calibrated predictions agree with execution no better and no worse than
    in the warm-up, an anchor counts twice; as they get worse it counts more. Until the warm-up is over, rho is 1.

    Args:
        half_life: anchor groups after which an observation counts half.
        warmup: anchor groups after which eta^2_cal is frozen.
        clip: smallest and largest rho.

    Attributes:
        residual_: eta^2, the moving average of `group_residual`; None before the first group.
        calibration_residual_: eta^2_cal; None during the warm-up.
        n_groups_: anchor groups that entered (those without variance do not).
    """

    def __init__(self, half_life: float = 64, warmup: int = 32, clip: tuple[float, float] = (1.0, 4.0)) -> None:
        if half_life <= 0 or warmup < 1:
            raise ValueError(f"half_life is {half_life}, warmup {warmup}: give a positive half-life, at least 1 group")
        low, high = (float(bound) for bound in clip)
        if not 0 < low <= high:
            raise ValueError(f"clip is {tuple(clip)}: give two positive numbers, the smaller one first")
        self.half_life = float(half_life)
        self.warmup = int(warmup)
        self.clip = (low, high)
        self.calibration_residual_: float | None = None
        self.n_groups_ = 0
        self._weighted_sum = 0.0
        self._weight = 0.0

    @property
    def residual_(self) -> float | None:
        """eta^2: weighted mean of the residuals, the newest counting most.

        Divided by the weights given so far, so that the first group neither counts as 0 before nor dominates after.
        """
        return self._weighted_sum / self._weight if self._weight else None

    @property
    def rho(self) -> float:
        """Weight of an anchor group relative to a world-model group."""
        if self.calibration_residual_ is None or self.residual_ is None:
            return 1.0
        ratio = self.residual_ / max(self.calibration_residual_, SMALLEST_CALIBRATION_RESIDUAL)
        return float(np.clip(1.0 + ratio, *self.clip))

    def update(self, calibrated: ArrayLike, executed: ArrayLike) -> float | None:
        """Take in one anchor group.

        Args:
            calibrated: debiased predicted scores, shape (n,).
            executed: executed scores of the same trajectories, shape (n,).

        Returns:
            The group's residual, or None if it was skipped for want of variance.

        Raises:
            ValueError: if a score is unknown, or the shapes differ. Nothing is stored.
        """
        c, r = np.asarray(calibrated, float), np.asarray(executed, float)
        if c.shape != r.shape or not (np.isfinite(c).all() and np.isfinite(r).all()):
            raise ValueError(f"calibrated {c.tolist()} and executed {r.tolist()} must be finite and of equal length")
        residual = group_residual(c, r)
        if residual is None:
            return None
        decay = 0.5 ** (1.0 / self.half_life)
        self._weighted_sum = decay * self._weighted_sum + (1 - decay) * residual
        self._weight = decay * self._weight + (1 - decay)
        self.n_groups_ += 1
        if self.n_groups_ == self.warmup:
            self.calibration_residual_ = self.residual_
        return residual

    def weights(self, is_anchor: ArrayLike) -> NDArray[np.float64]:
        """`group_weights` with the present rho, shape (G,)."""
        return group_weights(is_anchor, self.rho)

    def state_dict(self) -> dict[str, Any]:
        """All that was learned, as plain data that survives JSON."""
        return {
            "n_groups": self.n_groups_,
            "weighted_sum": self._weighted_sum,
            "weight": self._weight,
            "calibration_residual": self.calibration_residual_,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        frozen = state["calibration_residual"]
        n_groups, total, weight = int(state["n_groups"]), float(state["weighted_sum"]), float(state["weight"])
        self.calibration_residual_ = None if frozen is None else float(frozen)
        self.n_groups_, self._weighted_sum, self._weight = n_groups, total, weight
