"""Between the simulator's actions and the normalised ones the model was trained on.

Two conventions meet here (Stanford-ILIAD/openvla-mini, experiments/robot and prismatic/vla/datasets/rlds):

- Numbers are scaled so that the 1st and 99th percentile of the training data become -1 and 1, where the data set's mask
  says so; the gripper is left as it is.
- The simulator's gripper command is -1 to open and +1 to close. The data sets hold 1 for open and 0 for close.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray


@dataclass(frozen=True)
class ActionScale:
    """Statistics of one data set's actions, each of shape (7,)."""

    low: NDArray[np.float64]
    """1st percentile, in the data set's units."""
    high: NDArray[np.float64]
    """99th percentile."""
    mask: NDArray[np.bool_]
    """Which numbers are scaled; False for the gripper."""

    @classmethod
    def identity(cls) -> ActionScale:
        """Statistics that change no number: for actions that lie in [-1, 1] already, as LIBERO's do."""
        return cls(np.full(7, -1.0), np.full(7, 1.0), np.array([True] * 6 + [False]))

    @classmethod
    def from_statistics(cls, statistics: Mapping[str, Any], key: str | None = None) -> ActionScale:
        """Read one data set's entry of a ``dataset_statistics.json``.

        Args:
            statistics: the file's content: data set name -> "action" -> q01, q99 and, optionally, mask.
            key: the data set's name, with or without the suffix "_no_noops"; None if there is only one.

        Raises:
            ValueError: if the key is missing, or needed and not given.
        """
        names = list(statistics)
        if key is None and len(names) == 1:
            key = names[0]
        elif key is not None and key not in statistics:
            key = f"{key}_no_noops"
        if key is None or key not in statistics:
            raise ValueError(f"action statistics are there for {names}: name one of these as statistics_key")
        action = statistics[key]["action"]
        low, high = np.asarray(action["q01"], float), np.asarray(action["q99"], float)
        return cls(low, high, np.asarray(action.get("mask", np.ones(len(low))), bool))

    def to_statistics(self) -> dict[str, Any]:
        """The entry "action" of a ``dataset_statistics.json``."""
        return {"q01": self.low.tolist(), "q99": self.high.tolist(), "mask": self.mask.tolist()}

    def to_environment(self, normalised: ArrayLike) -> NDArray[np.float32]:
        """The simulator's actions, shape (n, 7), gripper -1 (open) or +1 (close), of normalised ones."""
        numbers = np.asarray(normalised, float)
        actions = np.where(self.mask, 0.5 * (numbers + 1) * (self.high - self.low) + self.low, numbers)
        actions[:, -1] = -np.sign(2 * actions[:, -1] - 1)
        return actions.astype(np.float32)

    def from_environment(self, actions: ArrayLike) -> NDArray[np.float64]:
        """Normalised actions, shape (n, 7), of the simulator's: what the model learns to say."""
        numbers = np.array(actions, float)
        numbers[:, -1] = 1 - np.clip(numbers[:, -1], 0, 1)
        scaled = np.clip(2 * (numbers - self.low) / (self.high - self.low + 1e-8) - 1, -1, 1)
        scaled = np.where(self.high > self.low, scaled, 0.0)
        return np.where(self.mask, scaled, numbers)
