"""Decoding in batches with any Hugging Face causal language model: who chooses the tokens, and three ways to run it.

The plain ways are `transformers`' own ``generate``, which knows the cache of every architecture (windows, recurrent
states, mixtures of both). The fast way, for models whose every layer attends to all that went before, runs what
prompts share once, writes its cache in place and drops rows that ended. All ask the same `TokenChooser`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any, Literal, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import GenerationConfig, LogitsProcessorList, StoppingCriteriaList

from wmrl_gym.engines.preallocated_cache import base_model, cache_argument, preallocated_cache
from wmrl_gym.engines.shared_prefix import MOST_LEVELS, columns_needed, left_pad, prefill, shared_paths
from wmrl_gym.engines.traits import positions_are_limited

COMPACT_BELOW = 0.7
"""Rows that ended are dropped from the batch once fewer than this share still runs; copying the cache has a price."""

Method = Literal["shared", "padded", "even"]
""""shared" runs what prompts share once; "padded" pads prompts on the left and generates; "even" generates prompts of
equal length together, which pads nothing."""


class TokenChooser(Protocol):
    """Decides what comes next, row by row, and remembers it."""

    def __call__(self, logits: torch.Tensor, rows: NDArray[np.int64]) -> tuple[torch.Tensor, NDArray[np.bool_]]:
        """Choose the next token of some rows.

        Args:
            logits: of the next token, shape (n, vocabulary).
            rows: which rows of the batch these are, shape (n,). A row that ended may still be among them.

        Returns:
            Token ids, shape (n,) (any valid one for a row that ended), and which rows go on, shape (n,).
        """
        ...


@torch.inference_mode()
def decode(
    model: Any,
    prompts: Sequence[NDArray[np.int64]],
    chooser: TokenChooser,
    *,
    limits: Sequence[int],
    method: Method,
    pad_id: int,
    levels: int = MOST_LEVELS,
    device: torch.device | str = "cpu",
) -> None:
    """Continue every prompt until its chooser ends it.

    Args:
        model: a causal language model; its adapters are used as they are.
        prompts: token ids, length N, each at least one.
        chooser: is told the rows by their place in ``prompts``.
        limits: most tokens that each row may get, length N, each at least 1; the chooser keeps to them.
        method: which must be right for this model; `examination` finds out.
        pad_id: any valid token id.
        levels: of common beginnings that "shared" runs once each; 0 shares nothing.
        device: where the model lives.
    """
    if method == "shared":
        _decode_shared(model, prompts, chooser, max(limits), pad_id, levels, device)
        return
    # A row whose table of positions is at its end must not be run on beyond it because of its neighbours.
    apart = positions_are_limited(model)
    batches: dict[tuple[int, int], list[int]] = {}
    for row, (prompt, limit) in enumerate(zip(prompts, limits, strict=True)):
        batches.setdefault((limit if apart else 0, len(prompt) if method == "even" else 0), []).append(row)
    for rows in batches.values():
        _generate(model, prompts, rows, chooser, max(limits[row] for row in rows), pad_id, device)


def _decode_shared(
    model: Any,
    prompts: Sequence[NDArray[np.int64]],
    chooser: TokenChooser,
    limit: int,
    pad_id: int,
    levels: int,
    device: torch.device | str,
) -> None:
    # Sorted, so that prompts that begin alike are neighbours.
    rows = np.asarray(sorted(range(len(prompts)), key=lambda i: prompts[i].tolist()), np.int64)
    ordered = [prompts[i] for i in rows]
    paths = shared_paths(ordered, levels=levels)
    width = columns_needed(ordered, paths)
    cache = preallocated_cache(model, width + limit)
    state = prefill(model, ordered, paths, cache, pad_id=pad_id, device=device)
    keyword, logits, positions = cache_argument(model), state.logits, state.lengths
    mask = torch.cat([state.mask, state.mask.new_ones(len(rows), limit)], dim=1)
    while True:
        chosen, goes_on = chooser(logits, rows)
        if not goes_on.any():
            return
        if goes_on.mean() < COMPACT_BELOW:
            index = torch.from_numpy(np.flatnonzero(goes_on)).to(device)
            cache.batch_select_indices(index)
            chosen, positions, mask, rows = chosen[index], positions[index], mask[index], rows[goes_on]
            goes_on = goes_on[goes_on]
        width += 1
        logits = model(
            input_ids=chosen[:, None],
            attention_mask=mask[:, :width],
            position_ids=positions[:, None],
            use_cache=True,
            **{keyword: cache},
        ).logits[:, -1]
        # A row that ended stays where it is: there may be no further position in its context.
        positions = positions + torch.from_numpy(goes_on).to(positions)


def _generate(
    model: Any,
    prompts: Sequence[NDArray[np.int64]],
    rows: Sequence[int],
    chooser: TokenChooser,
    limit: int,
    pad_id: int,
    device: torch.device | str,
) -> None:
    """Let `transformers` run the model, and choose the tokens where it would sample them."""
    index = np.asarray(rows, np.int64)
    goes_on = np.ones(len(index), bool)

    def choose(_: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        chosen, goes_on[:] = chooser(scores, index)
        # Greedy decoding then takes the chosen token.
        return torch.full_like(scores, -torch.inf).scatter(1, chosen[:, None], 0.0)

    def ended(ids: torch.Tensor, _: Any, **__: Any) -> torch.Tensor:
        return torch.from_numpy(~goes_on).to(ids.device)

    ids, mask = left_pad([prompts[i] for i in rows], pad_id, device)
    inner = base_model(model)
    settings = GenerationConfig(do_sample=False, max_new_tokens=limit, pad_token_id=pad_id, use_cache=True)
    with _without_generation_defaults(inner):
        inner.generate(
            input_ids=ids,
            attention_mask=mask,
            generation_config=settings,
            logits_processor=LogitsProcessorList([choose]),
            stopping_criteria=StoppingCriteriaList([ended]),
        )


@contextlib.contextmanager
def _without_generation_defaults(model: Any) -> Iterator[None]:
    """Hide what the model's folder says of sampling: a repetition penalty there would change the probabilities."""
    held = model.generation_config
    model.generation_config = GenerationConfig()
    try:
        yield
    finally:
        model.generation_config = held


def choose(
    logits: torch.Tensor, uniforms: NDArray[np.float64], temperature: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Token ids and their log-probabilities, both of shape (n,), from logits of shape (n, vocabulary).

    Inverts each row's cumulative distribution at its uniform number. Temperature 0 takes the likeliest token, with its
    log-probability at temperature 1.
    """
    scaled = logits.float() if temperature == 0 else logits.float() / temperature
    log_probs = torch.log_softmax(scaled, dim=-1)
    if temperature == 0:
        chosen = log_probs.argmax(-1)
    else:
        # Double precision, so that rounding in a large batch practically never moves a uniform across a boundary.
        cumulative = log_probs.double().exp().cumsum(-1)
        targets = torch.from_numpy(uniforms).to(logits.device)[:, None] * cumulative[:, -1:]
        chosen = torch.searchsorted(cumulative, targets, right=True)[:, 0].clamp(max=logits.shape[-1] - 1)
    return chosen, log_probs.gather(-1, chosen[:, None])[:, 0]
