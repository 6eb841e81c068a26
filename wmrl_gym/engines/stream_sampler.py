"""Samples each row from its own random stream, keeps the log-probabilities, and may cut a thought short."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from wmrl_gym.engines.conversation import Conversation
from wmrl_gym.engines.decoding import choose


@dataclass
class Sampled:
    """What one row produced."""

    token_ids: NDArray[np.int64]
    """Shape (T,)."""
    log_probs: NDArray[np.float32]
    """Of each token at the sampling temperature (at 1 for temperature 0), shape (T,)."""
    finished: bool
    """Whether it ended its turn; False if it was cut off at its limit."""
    forced: NDArray[np.bool_] | None = None
    """Which tokens were put there instead of being sampled, shape (T,); None if none was."""


@dataclass(frozen=True)
class ThoughtBudget:
    """How long an answer may think. A thought that is still open then is closed by these tokens, and sampling goes on.

    As in budget forcing (Muennighoff et al., "s1: Simple test-time scaling", 2025), towards shorter thoughts only.
    """

    tokens: int
    """Sampled before the thought is closed."""
    closing: tuple[int, ...]
    """What closes it."""
    is_open: Callable[[NDArray[np.int64]], bool]
    """Whether an answer that begins with these tokens, shape (T,), is inside a thought."""


def thought_budget(conversation: Conversation, tokens: int) -> ThoughtBudget:
    """The budget for thoughts of a conversation.

    Args:
        conversation: says how thoughts are written.
        tokens: longest thought, at least 1.

    Raises:
        ValueError: if that is no length.
    """
    if tokens < 1:
        raise ValueError(f"max_thinking_tokens is {tokens}: give at least 1, or None for no limit")
    _, closing = conversation.thought_tags
    # The line break is part of how such models end their thoughts, and of what they were trained to go on from.
    return ThoughtBudget(
        tokens,
        closing=tuple(conversation.encode(f"\n{closing}\n\n").tolist()),
        is_open=conversation.is_inside_thought,
    )


class StreamSampler:
    """A `decoding.TokenChooser` that inverts the cumulative distribution at uniforms of each row's own random stream.

    What a row is given depends on its seed and on nothing else in the batch.

    Args:
        seeds: random stream of each row, length N.
        limits: most tokens of each row, length N, each at least 1.
        temperature: 0 takes the likeliest token and records its log-probability at temperature 1.
        stop_ids: tokens that end a turn.
        thinking: how long a row may think; None for as long as it likes.
    """

    def __init__(
        self,
        seeds: Sequence[tuple[int, ...]],
        limits: Sequence[int],
        temperature: float,
        stop_ids: Sequence[int],
        thinking: ThoughtBudget | None = None,
    ) -> None:
        self.limits = np.asarray(limits, np.int64)
        self.temperature = temperature
        self.stop_ids = np.asarray(stop_ids, np.int64)
        self.thinking = thinking
        shape = (len(seeds), int(self.limits.max(initial=0)))
        self._uniforms = np.stack([np.random.default_rng(seed).random(shape[1]) for seed in seeds])
        self._tokens = np.zeros(shape, np.int64)
        self._log_probs = np.zeros(shape, np.float32)
        self._forced = np.zeros(shape, bool)
        self._lengths = np.zeros(shape[0], np.int64)
        self._stopped = np.zeros(shape[0], bool)

    def __call__(self, logits: torch.Tensor, rows: NDArray[np.int64]) -> tuple[torch.Tensor, NDArray[np.bool_]]:
        """See `decoding.TokenChooser`."""
        places = np.minimum(self._lengths[rows], self.limits[rows] - 1)
        chosen, log_probs = choose(logits, self._uniforms[rows, places], self.temperature)
        if self.thinking is not None:
            chosen, log_probs = self._close_thoughts(logits, rows, chosen, log_probs)
        running = self._running(rows)
        alive, chosen_here = rows[running], chosen.cpu().numpy()[running]
        self._tokens[alive, places[running]] = chosen_here
        self._log_probs[alive, places[running]] = log_probs.float().cpu().numpy()[running]
        self._lengths[alive] += 1
        # A stop token that was put there (none should be) ends nothing.
        self._stopped[alive] = np.isin(chosen_here, self.stop_ids) & ~self._forced[alive, places[running]]
        return chosen, self._running(rows)

    def _running(self, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        return ~self._stopped[rows] & (self._lengths[rows] < self.limits[rows])

    def _close_thoughts(
        self, logits: torch.Tensor, rows: NDArray[np.int64], chosen: torch.Tensor, log_probs: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Replace what was chosen by the tokens that close a thought, in rows where it has lasted too long."""
        assert self.thinking is not None
        replaced = chosen.clone()
        for i, row in enumerate(rows.tolist()):
            place = int(self._lengths[row]) - self.thinking.tokens
            if not 0 <= place < len(self.thinking.closing) or not self._running(rows[i : i + 1])[0]:
                continue
            written = self._tokens[row, : self._lengths[row]]
            begun = self.thinking.is_open(written) if place == 0 else self._forced[row, len(written) - 1]
            if not begun:
                continue
            replaced[i] = self.thinking.closing[place]
            self._forced[row, self._lengths[row]] = True
        if torch.equal(replaced, chosen):
            return chosen, log_probs
        scaled = logits.float() / (self.temperature or 1.0)
        return replaced, torch.log_softmax(scaled, dim=-1).gather(-1, replaced[:, None])[:, 0]

    def results(self) -> list[Sampled]:
        """What each row produced."""
        return [
            Sampled(
                self._tokens[i, :n].copy(),
                self._log_probs[i, :n].copy(),
                bool(self._stopped[i]),
                self._forced[i, :n].copy() if self._forced[i, :n].any() else None,
            )
            for i, n in enumerate(self._lengths)
        ]
