"""Samples answers in batches, each from its own random stream and, where asked for, inside its own grammar."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray

from wmrl_gym.engines.engine import Sampling
from wmrl_gym.engines.grammar import GrammarState


@dataclass
class Row:
    """One answer in the making."""

    prompt_ids: NDArray[np.int64]
    seed: int
    limit: int
    """Most tokens it may have."""
    grammar: GrammarState | None = None
    token_ids: list[int] = field(default_factory=list)
    """What was produced, without the token that ends a turn."""
    finished: bool = False
    """False while it runs, and for good if it was cut off at its limit."""
    generated: int = 0
    """Tokens produced, the one that ends a turn included."""

    def fresh(self) -> Row:
        """The same row before its first token, to be completed apart from this one."""
        grammar = None if self.grammar is None else self.grammar.copy()
        return Row(self.prompt_ids, self.seed, self.limit, grammar)

    def take(self, token: int, stop_ids: Sequence[int]) -> bool:
        """Append a token; True if the answer goes on."""
        self.generated += 1
        if token in stop_ids:
            self.finished = True
            return False
        self.token_ids.append(token)
        if self.grammar is not None and self.grammar.advance(token):
            self.finished = True
            return False
        return self.generated < self.limit


class ConstrainedSampler:
    """A `decoding.TokenChooser` that completes rows in place.

    Args:
        rows: what to complete, length N.
        sampling: temperature and what goes with it.
        stop_ids: tokens that end a turn.
    """

    def __init__(self, rows: Sequence[Row], sampling: Sampling, stop_ids: Sequence[int]) -> None:
        self.rows = rows
        self.sampling = sampling
        self.stop_ids = stop_ids
        self._uniforms = [np.random.default_rng(row.seed).random(row.limit) for row in rows]
        self._ended = np.zeros(len(rows), bool)
        self._seen: torch.Tensor | None = None

    def __call__(self, logits: torch.Tensor, rows: NDArray[np.int64]) -> tuple[torch.Tensor, NDArray[np.bool_]]:
        """See `decoding.TokenChooser`."""
        if self._seen is None:
            shape = (len(self.rows), logits.shape[1])
            self._seen = torch.zeros(shape, dtype=torch.bool, device=logits.device)
        index = torch.from_numpy(rows).to(logits.device)
        places = [min(self.rows[i].generated, self.rows[i].limit - 1) for i in rows.tolist()]
        uniforms = np.asarray([self._uniforms[i][place] for i, place in zip(rows.tolist(), places, strict=True)])
        allowed = _allowed([None if self._ended[i] else self.rows[i].grammar for i in rows.tolist()], logits)
        chosen = choose(logits, uniforms, self.sampling, self._seen[index], allowed)
        self._seen[index, chosen] = True
        for i, token in zip(rows.tolist(), chosen.tolist(), strict=True):
            if not self._ended[i]:
                self._ended[i] = not self.rows[i].take(token, self.stop_ids)
        return chosen, ~self._ended[rows]


def _allowed(grammars: Sequence[GrammarState | None], logits: torch.Tensor) -> torch.Tensor | None:
    """Which tokens may come next in each line, shape (n, vocabulary); None if none has a grammar."""
    if all(grammar is None for grammar in grammars):
        return None
    table = np.ones(tuple(logits.shape), bool)
    for line, grammar in enumerate(grammars):
        if grammar is not None:
            table[line] = grammar.allowed(logits.shape[1])
    return torch.from_numpy(table).to(logits.device)


def choose(
    logits: torch.Tensor,
    uniforms: NDArray[np.float64],
    sampling: Sampling,
    seen: torch.Tensor,
    allowed: torch.Tensor | None = None,
) -> torch.Tensor:
    """One token per line: presence penalty, grammar, temperature, top-k, then top-p of what is left.

    Args:
        logits: shape (n, vocabulary).
        uniforms: one draw from [0, 1) per line, which decides the token by inverting the cumulative distribution.
        sampling: the settings.
        seen: tokens that the answer already holds, shape (n, vocabulary).
        allowed: tokens that the grammar allows, shape (n, vocabulary); None for all.

    Returns:
        Token ids, shape (n,).
    """
    scores = logits.float()
    if sampling.presence_penalty:
        scores = scores - sampling.presence_penalty * seen
    if allowed is not None:
        scores = scores.masked_fill(~allowed, -torch.inf)
    if sampling.temperature == 0:
        return scores.argmax(-1)
    width = scores.shape[1]
    values, tokens = scores.topk(min(sampling.top_k or width, width), dim=-1)
    # Double precision, so that rounding in a batch practically never moves a draw across a boundary.
    probabilities = torch.softmax(values.double() / sampling.temperature, dim=-1)
    before = probabilities.cumsum(-1) - probabilities
    # The likeliest token always stays, even where the others' share alone would do.
    probabilities = torch.where(before < sampling.top_p, probabilities, 0.0)
    cumulative = probabilities.cumsum(-1)
    targets = torch.from_numpy(uniforms).to(logits.device)[:, None] * cumulative[:, -1:]
    places = torch.searchsorted(cumulative, targets, right=True).clamp(max=values.shape[1] - 1)
    return tokens.gather(1, places)[:, 0]
