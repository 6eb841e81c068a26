"""Anchoring: which groups are really executed.

An anchor is chosen by hashing (seed, step, group key), never by a random generator's state and never by looking at a
score. So a resumed run draws the same anchors, the order of the groups does not matter, and every group carries the
probability with which it was chosen, without which no later estimator could correct for the choice.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wmrl_gym.core import fingerprint


@dataclass(frozen=True, eq=False)
class AnchorDraw:
    """Which groups of one step are anchors."""

    is_anchor: NDArray[np.bool_]
    """Whether each group is executed, shape (G,)."""

    propensity: NDArray[np.float64]
    """Probability with which each group was to be an anchor, shape (G,)."""


class RandomAnchors:
    """Each group is an anchor with the same probability, independently of everything the policy or world model does.

    Args:
        fraction: probability of a group to be an anchor. 1 executes everything (GRPO), 0 nothing (pure world model).
        min_per_step: at least this many anchors in a step, unless ``fraction`` is 0. When too few are drawn, those next
            in hash order join them, which raises the propensity of every group; `AnchorDraw` reports the raised one.
        max_in_flight: how many anchor submissions may be executing at the same time; the vector environment obeys it.
        seed: another seed, another stream of anchors.

    Raises:
        ValueError: for a fraction outside [0, 1] or a negative count.
    """

    def __init__(self, fraction: float = 0.1, min_per_step: int = 1, max_in_flight: int = 24, seed: int = 0) -> None:
        if not 0 <= fraction <= 1:
            raise ValueError(f"RandomAnchors.fraction is {fraction}: give a probability between 0 and 1")
        if min_per_step < 0:
            raise ValueError(f"RandomAnchors.min_per_step is {min_per_step}: give 0 or more groups")
        if max_in_flight < 1:
            raise ValueError(f"RandomAnchors.max_in_flight is {max_in_flight}: at least one execution must be allowed")
        self.fraction = float(fraction)
        self.min_per_step = int(min_per_step)
        self.max_in_flight = int(max_in_flight)
        self.seed = int(seed)

    def draw(self, step: int, group_keys: Sequence[str]) -> AnchorDraw:
        """Mark the anchors of one step: a pure function of the seed, the step and the set of keys.

        Args:
            step: training step.
            group_keys: one key per group, unique within the step, length G, in any order.

        Returns:
            Mask and propensity, in the order of ``group_keys``.

        Raises:
            ValueError: if two groups share a key, for they could only be anchors together.
        """
        keys = list(group_keys)
        if len(set(keys)) != len(keys):
            twice = sorted({key for key in keys if keys.count(key) > 1})
            raise ValueError(
                f"group keys {twice} occur more than once in step {step}: make them unique, e.g. '3:titanic'"
            )
        uniform_G = np.array([self._uniform(step, key) for key in keys], float)
        is_anchor_G = uniform_G < self.fraction
        if self.fraction > 0:
            by_hash = sorted(range(len(keys)), key=lambda g: (uniform_G[g], keys[g]))
            is_anchor_G[by_hash[: self.min_per_step]] = True
        return AnchorDraw(is_anchor_G, np.full(len(keys), self._propensity(len(keys))))

    def draw_episode(self, step: int, key: str) -> tuple[bool, float]:
        """Mark a single episode that belongs to no group; ``min_per_step`` does not apply.

        Returns:
            Whether to execute it, and its propensity.
        """
        return self._uniform(step, key) < self.fraction, self.fraction

    def _uniform(self, step: int, key: str) -> float:
        """A number in [0, 1) with the 53 bits a float can hold, the same in every process and on every machine."""
        return (int(fingerprint((self.seed, int(step), str(key)))[:16], 16) >> 11) / 2.0**53

    def _propensity(self, n_groups: int) -> float:
        """E[max(B, min_per_step)] / G with B ~ Binomial(G, fraction): by symmetry each group's share of the anchors."""
        f, forced = self.fraction, min(self.min_per_step, n_groups)
        if f in (0.0, 1.0) or forced == 0:
            return f
        short = sum((forced - k) * math.comb(n_groups, k) * f**k * (1 - f) ** (n_groups - k) for k in range(forced))
        return f + short / n_groups
