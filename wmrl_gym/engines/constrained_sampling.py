"""Samples answers in batches, each from its own random stream and, where asked for, inside its own grammar."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from wmrl_gym.engines.decoding import COMPACT_BELOW, cache_argument, sampling_cache
from wmrl_gym.engines.engine import Sampling
from wmrl_gym.engines.grammar import GrammarState
from wmrl_gym.engines.shared_prefix import Path, columns_needed, prefill


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


@torch.inference_mode()
def sample_answers(
    model: Any,
    rows: Sequence[Row],
    paths: Sequence[Path],
    sampling: Sampling,
    *,
    stop_ids: Sequence[int],
    pad_id: int,
    device: torch.device | str,
) -> None:
    """Complete all rows in place, as one batch.

    Args:
        model: a causal language model.
        rows: what to complete, length N.
        paths: shared beginnings of the rows, as of `shared_prefix.shared_paths`.
        sampling: temperature and what goes with it.
        stop_ids: tokens that end a turn.
        pad_id: any valid token id.
        device: where the model lives.
    """
    prompts = [row.prompt_ids for row in rows]
    limit = max(row.limit for row in rows)
    columns = columns_needed(prompts, paths)
    cache = sampling_cache(model, columns + limit)
    state = prefill(model, prompts, paths, cache, pad_id=pad_id, device=device)
    logits, positions = state.logits, state.lengths
    mask = torch.cat([state.mask, state.mask.new_ones(len(rows), limit)], dim=1)
    uniforms = np.stack([np.random.default_rng(row.seed).random(limit) for row in rows])
    seen = torch.zeros(logits.shape, dtype=torch.bool, device=device)
    keyword = cache_argument(model)
    batch = np.arange(len(rows))  # which row each line of the running batch is
    goes_on = np.ones(len(rows), bool)
    for step in range(limit):
        allowed = _allowed([rows[i].grammar if goes_on[i] else None for i in batch.tolist()], logits)
        chosen = choose(logits, uniforms[batch, step], sampling, seen, allowed)
        seen.scatter_(1, chosen[:, None], True)
        for i, token in zip(batch.tolist(), chosen.tolist(), strict=True):
            if goes_on[i]:
                goes_on[i] = rows[i].take(token, stop_ids)
        keep = goes_on[batch]
        if not keep.any():
            break
        if keep.mean() < COMPACT_BELOW:
            index = torch.from_numpy(np.flatnonzero(keep)).to(device)
            cache.batch_select_indices(index)
            chosen, positions, mask, seen = chosen[index], positions[index], mask[index], seen[index]
            batch = batch[keep]
        logits = model(
            input_ids=chosen[:, None],
            attention_mask=mask[:, : columns + step + 1],
            position_ids=positions[:, None],
            use_cache=True,
            **{keyword: cache},
        ).logits[:, -1]
        positions = positions + 1


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
