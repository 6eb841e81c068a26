"""Features of frozen vision backbones, kept as long as the decision they belong to."""

from __future__ import annotations

import weakref
from typing import Any

import torch

from wmrl_gym.core import Decision


class FeatureCache:
    """Remembers features by decision, in a bounded amount of memory; forgets them with the decision.

    A decision is known by its array of token ids, the very object, because a rollout replaces the decision itself to
    note how many of its actions were taken. What does not fit is not kept, and is computed again when it is needed.
    """

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self._kept: dict[int, tuple[weakref.ref[Any], torch.Tensor]] = {}

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, decision: Decision) -> torch.Tensor | None:
        """Features of this decision, if they are kept."""
        owner, features = self._kept.get(id(decision.token_ids), (None, None))
        return features if owner is not None and owner() is decision.token_ids else None

    def put(self, decision: Decision, features: torch.Tensor) -> None:
        """Keep features if they fit."""
        size = features.numel() * features.element_size()
        if size * (len(self._kept) + 1) > self.max_bytes:
            return
        key, kept = id(decision.token_ids), self._kept
        owner = weakref.ref(decision.token_ids, lambda _: kept.pop(key, None))
        # A copy: a row of a batch would keep the whole batch in memory.
        kept[key] = owner, features.detach().clone()
