"""Features of frozen vision backbones, kept as long as the decision they belong to."""

from __future__ import annotations

from weakref import WeakKeyDictionary

import torch

from wmrl_gym.core import Decision


class FeatureCache:
    """Remembers features by decision, in a bounded amount of memory; forgets them with the decision.

    What does not fit is not kept, and is computed again when it is needed.
    """

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self._kept: WeakKeyDictionary[Decision, torch.Tensor] = WeakKeyDictionary()

    def get(self, decision: Decision) -> torch.Tensor | None:
        """Features of this very decision object, if they are kept."""
        return self._kept.get(decision)

    def put(self, decision: Decision, features: torch.Tensor) -> None:
        """Keep features if they fit."""
        size = features.numel() * features.element_size()
        if size * (len(self._kept) + 1) <= self.max_bytes:
            # A copy: a row of a batch would keep the whole batch in memory.
            self._kept[decision] = features.detach().clone()
