"""Forward passes with shared prompts, and a lean sampling loop for any Hugging Face causal language model.

The n samples of a group share their prompt, so a prompt is run once and its key-value cache is expanded to the rows
that need it; acting and learning both go through `forward_with_shared_prompts`. Everything is padded on the left.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers.cache_utils import DynamicCache, DynamicLayer

COMPACT_BELOW = 0.7
"""Rows that ended are dropped from the batch once fewer than this share still runs; copying the cache has a price."""


class PreallocatedLayer(DynamicLayer):
    """A key-value cache layer that writes into a buffer of fixed capacity instead of concatenating at every token."""

    def __init__(self, capacity: int) -> None:
        super().__init__()
        self.capacity = capacity
        self.length = 0

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        """Allocate for the batch size, heads and width of the first states."""
        super().lazy_initialization(key_states, value_states)
        self._allocate(key_states, value_states)

    def _allocate(self, keys: torch.Tensor, values: torch.Tensor) -> None:
        self.key_buffer = keys.new_empty((*keys.shape[:2], self.capacity, keys.shape[3]))
        self.value_buffer = values.new_empty((*values.shape[:2], self.capacity, values.shape[3]))

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Append states, shape (batch, heads, new, width), and return all of them so far."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        end = self.length + key_states.shape[2]
        self.key_buffer[:, :, self.length : end] = key_states
        self.value_buffer[:, :, self.length : end] = value_states
        self.length = end
        self.keys, self.values = self.key_buffer[:, :, :end], self.value_buffer[:, :, :end]
        return self.keys, self.values

    def batch_select_indices(self, indices: torch.Tensor) -> None:
        """Keep (or repeat) rows of the batch."""
        if self.keys is None or self.values is None:
            return
        keys, values = self.keys[indices], self.values[indices]
        self._allocate(keys, values)
        self.key_buffer[:, :, : self.length] = keys
        self.value_buffer[:, :, : self.length] = values
        self.keys, self.values = self.key_buffer[:, :, : self.length], self.value_buffer[:, :, : self.length]


def sampling_cache(model: Any, capacity: int) -> DynamicCache:
    """The model's own cache, with its ordinary layers replaced by preallocated ones of `capacity` tokens."""
    cache = DynamicCache(config=model.config)
    cache.layers = [PreallocatedLayer(capacity) if type(layer) is DynamicLayer else layer for layer in cache.layers]
    return cache


def cache_argument(model: Any) -> str:
    """Name of the forward argument that takes the key-value cache: it changed within transformers 5."""
    return "cache" if "cache" in inspect.signature(_base(model).forward).parameters else "past_key_values"


def _left_pad(rows: Sequence[NDArray[np.int64]], pad_id: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Token ids and mask, both of shape (N, longest)."""
    width = max(len(row) for row in rows)
    ids = np.full((len(rows), width), pad_id, np.int64)
    mask = np.zeros((len(rows), width), np.int64)
    for i, row in enumerate(rows):
        if len(row):
            ids[i, width - len(row) :] = row
            mask[i, width - len(row) :] = 1
    return torch.from_numpy(ids), torch.from_numpy(mask)


@dataclass
class SharedForward:
    """Logits of the tails, and what is needed to go on from there."""

    logits: torch.Tensor
    """Shape (N, tail width, vocabulary); the last column belongs to the last token of every row."""
    mask: torch.Tensor
    """Shape (N, prompt width + tail width)."""
    lengths: torch.Tensor
    """True number of tokens of each row, shape (N,)."""


def forward_with_shared_prompts(
    model: torch.nn.Module,
    prompts: Sequence[NDArray[np.int64]],
    tails: Sequence[NDArray[np.int64]],
    *,
    cache: DynamicCache,
    pad_id: int,
    device: torch.device | str = "cpu",
    last_logits_only: bool = False,
) -> SharedForward:
    """Run each distinct prompt once, then the tails of all rows on top of it. Differentiable.

    Args:
        model: a causal language model.
        prompts: shared beginnings, length N; equal ones are run once. May be empty arrays.
        tails: what follows in each row, length N, each at least one token.
        cache: an empty key-value cache; filled on return.
        pad_id: any valid token id.
        device: where the model lives.
        last_logits_only: compute logits of the last column alone, if the model can.
    """
    distinct: dict[bytes, int] = {}
    rows = torch.tensor([distinct.setdefault(prompt.tobytes(), len(distinct)) for prompt in prompts], device=device)
    unique = [np.frombuffer(key, np.int64) for key in distinct]
    keyword = cache_argument(model)
    tail_ids, tail_mask = (tensor.to(device) for tensor in _left_pad(tails, pad_id))
    prompt_lengths = torch.tensor([len(prompt) for prompt in prompts], device=device)
    positions = prompt_lengths[:, None] + (tail_mask.cumsum(1) - 1).clamp(min=0)
    mask = tail_mask
    extra: dict[str, Any] = {}
    keeps = "logits_to_keep" in inspect.signature(_base(model).forward).parameters
    if max(len(prompt) for prompt in unique) > 0:
        ids, prompt_mask = (tensor.to(device) for tensor in _left_pad(unique, pad_id))
        prompt_positions = (prompt_mask.cumsum(1) - 1).clamp(min=0)
        model(
            input_ids=ids,
            attention_mask=prompt_mask,
            position_ids=prompt_positions,
            use_cache=True,
            **{keyword: cache},
            **({"logits_to_keep": 1} if keeps else {}),
        )
        if len(unique) != len(prompts) or not torch.equal(rows, torch.arange(len(prompts), device=device)):
            cache.batch_select_indices(rows)
        mask = torch.cat([prompt_mask[rows], tail_mask], dim=1)
    if keeps and last_logits_only:
        extra["logits_to_keep"] = 1
    output = model(
        input_ids=tail_ids,
        attention_mask=mask,
        position_ids=positions,
        use_cache=True,
        **{keyword: cache},
        **extra,
    )
    return SharedForward(output.logits, mask, prompt_lengths + tail_mask.sum(1))


def _base(model: Any) -> Any:
    """The model inside a PEFT wrapper."""
    return model.get_base_model() if hasattr(model, "get_base_model") else model


@dataclass
class Sampled:
    """What one row produced."""

    token_ids: NDArray[np.int64]
    log_probs: NDArray[np.float32]
    finished: bool


@torch.inference_mode()
def sample(
    model: torch.nn.Module,
    prompts: Sequence[NDArray[np.int64]],
    tails: Sequence[NDArray[np.int64]],
    *,
    seeds: Sequence[tuple[int, ...]],
    max_new_tokens: int,
    temperature: float,
    stop_ids: Sequence[int],
    pad_id: int,
    device: torch.device | str = "cpu",
) -> list[Sampled]:
    """Sample one continuation per row by inverting the cumulative distribution with the row's own random stream.

    A row's uniforms depend on its seed and on nothing else in the batch. Temperature 0 takes the likeliest token and
    records its log-probability at temperature 1.
    """
    count = len(prompts)
    uniforms = np.stack([np.random.default_rng(seed).random(max_new_tokens) for seed in seeds])
    prompt_width, tail_width = (max(len(row) for row in rows) for rows in (prompts, tails))
    cache = sampling_cache(_base(model), prompt_width + tail_width + max_new_tokens)
    state = forward_with_shared_prompts(
        model, prompts, tails, cache=cache, pad_id=pad_id, device=device, last_logits_only=True
    )
    keyword, logits, positions = cache_argument(model), state.logits[:, -1], state.lengths
    mask = torch.cat([state.mask, state.mask.new_ones(count, max_new_tokens)], dim=1)
    width = state.mask.shape[1]
    tokens = np.zeros((count, max_new_tokens), np.int64)
    log_probs = np.zeros((count, max_new_tokens), np.float32)
    lengths, stopped = np.zeros(count, np.int64), np.zeros(count, bool)
    rows = np.arange(count)  # which original row each row of the running batch is
    for step in range(max_new_tokens):
        chosen, chosen_log_probs = choose(logits, uniforms[rows, step], temperature)
        chosen_cpu = chosen.cpu().numpy()
        running = ~stopped[rows]
        alive = rows[running]
        tokens[alive, step] = chosen_cpu[running]
        log_probs[alive, step] = chosen_log_probs.cpu().numpy()[running]
        lengths[alive] += 1
        stopped[alive] = np.isin(chosen_cpu[running], stop_ids)
        keep = ~stopped[rows]
        if step + 1 == max_new_tokens or not keep.any():
            break
        if keep.mean() < COMPACT_BELOW:
            index = torch.from_numpy(np.flatnonzero(keep)).to(device)
            cache.batch_select_indices(index)
            chosen, positions, mask, rows = chosen[index], positions[index], mask[index], rows[keep]
        width += 1
        logits = model(
            input_ids=chosen[:, None],
            attention_mask=mask[:, :width],
            position_ids=positions[:, None],
            use_cache=True,
            **{keyword: cache},
        ).logits[:, -1]
        positions = positions + 1
    return [Sampled(tokens[i, :n].copy(), log_probs[i, :n].copy(), bool(stopped[i])) for i, n in enumerate(lengths)]


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
