"""Continuous actions as tokens: 256 uniform bins per number, written with the last 256 tokens of the tokenizer.

The arithmetic is OpenVLA's as MiniVLA uses it (Stanford-ILIAD/openvla-mini, prismatic/vla/action_tokenizer.py). There
are 256 bin *edges* and so only 255 intervals: `digitize` counts from 1 to 256, and decoding folds the last one, which
only the number 1.0 itself reaches, into the last interval.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

BINS = 256
ACTION_SIZE = 7


class ActionCodec(Protocol):
    """Turns a chunk of normalised actions into tokens and back."""

    first_token: int
    """Smallest of the token ids that stand for actions; they are contiguous."""
    token_count: int
    """How many token ids stand for actions."""
    tokens_per_decision: int
    """Length of one decision in tokens, T."""
    actions_per_decision: int
    """Length of one decision in actions, n."""

    def encode(self, actions: ArrayLike) -> NDArray[np.int64]:
        """Token ids, shape (T,), of normalised actions, shape (n, 7)."""
        ...

    def decode(self, token_ids: ArrayLike) -> NDArray[np.float64]:
        """Normalised actions, shape (n, 7), of token ids, shape (T,)."""
        ...

    def tokens_taken(self, actions_used: int) -> int:
        """How many leading tokens of a decision had an effect when only that many of its actions were taken."""
        ...


class BinnedActions:
    """One token per number: seven tokens per action, action after action.

    Args:
        tokens_end: one more than the largest token id, ``len(tokenizer)``. Bin d of 1..256 is token ``tokens_end - d``.
        actions_per_decision: how many actions one decision holds, n; 1 is the original.
    """

    def __init__(self, tokens_end: int, actions_per_decision: int = 1) -> None:
        if actions_per_decision < 1:
            raise ValueError(f"actions_per_decision is {actions_per_decision}: a decision holds at least one action")
        self.tokens_end = tokens_end
        self.first_token = tokens_end - BINS
        self.token_count = BINS
        self.actions_per_decision = actions_per_decision
        self.tokens_per_decision = actions_per_decision * ACTION_SIZE
        self.edges = np.linspace(-1.0, 1.0, BINS)
        self.centres = (self.edges[:-1] + self.edges[1:]) / 2.0

    def encode(self, actions: ArrayLike) -> NDArray[np.int64]:
        """Token ids, shape (7n,), of normalised actions, shape (n, 7); numbers outside [-1, 1] are clipped."""
        numbers = np.asarray(actions, float)
        if numbers.shape != (self.actions_per_decision, ACTION_SIZE):
            raise ValueError(
                f"actions have shape {numbers.shape}: this policy decides on chunks of "
                f"({self.actions_per_decision}, {ACTION_SIZE})"
            )
        return (self.tokens_end - np.digitize(np.clip(numbers, -1.0, 1.0), self.edges)).reshape(-1).astype(np.int64)

    def decode(self, token_ids: ArrayLike) -> NDArray[np.float64]:
        """Bin centres, shape (n, 7), of token ids, shape (7n,)."""
        bins = self.tokens_end - np.asarray(token_ids, np.int64)
        return self.centres[np.clip(bins - 1, 0, len(self.centres) - 1)].reshape(-1, ACTION_SIZE)

    def tokens_taken(self, actions_used: int) -> int:
        """Seven tokens for each action taken."""
        return min(actions_used, self.actions_per_decision) * ACTION_SIZE
