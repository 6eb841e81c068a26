"""Log-probabilities of tokens that were produced, with gradients: one forward pass without a cache.

What a group's episodes share, their opening prompt, is run once where the model allows it: its rows then branch behind
the prompt like a tree, held apart by an attention mask. Elsewhere each episode is a row of its own. Logits are computed
for the produced tokens alone, a part at a time, and computed again in the backward pass, so that those of a whole batch
never exist together.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.checkpoint import checkpoint
from transformers.modeling_layers import GradientCheckpointingLayer

from wmrl_gym.core import Decision
from wmrl_gym.engines.architecture import Architecture
from wmrl_gym.engines.packing import PackedSequence, pack
from wmrl_gym.engines.preallocated_cache import base_model

LOGITS_AT_ONCE = 2**24
"""Logits that exist at the same time: 64 MiB in single precision, several times that while they are worked on."""


@dataclass
class Row:
    """A row of the forward pass: an opening prompt, and the episodes that branch off behind it."""

    prompt: NDArray[np.int64]
    branches: list[PackedSequence] = field(default_factory=list)

    @property
    def starts(self) -> list[int]:
        """Column at which each branch begins."""
        lengths = [self._tail_length(branch) for branch in self.branches]
        return [len(self.prompt) + sum(lengths[:i]) for i in range(len(lengths))]

    @property
    def width(self) -> int:
        """Columns of the row."""
        return len(self.prompt) + sum(self._tail_length(branch) for branch in self.branches)

    def _tail_length(self, branch: PackedSequence) -> int:
        # Nothing is predicted from the last token.
        return max(0, len(branch.token_ids) - len(self.prompt) - 1)


def token_log_probs(
    model: Any,
    decisions: Sequence[Decision],
    architecture: Architecture,
    *,
    temperature: float,
    pad_id: int,
    device: torch.device | str,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Log-probability and entropy of every produced token under the current weights.

    Args:
        model: a causal language model.
        decisions: what was decided, length N.
        architecture: what is right for this model.
        temperature: the temperature they were sampled at.
        pad_id: any valid token id.
        device: where the model lives.

    Returns:
        (log_probs, entropy, mask), each of shape (N, T_max).
    """
    rows = _rows(pack(decisions), architecture, base_model(model))
    hidden = row_features(model, rows, architecture, pad_id, device)
    source, target = _places(rows, decisions)
    token_ids = torch.from_numpy(np.concatenate([decision.token_ids for decision in decisions])).to(device)
    picked = hidden[tuple(torch.from_numpy(index).to(device) for index in source)]
    log_probs, entropy = _by_parts(model, picked, token_ids, architecture, temperature)
    index = tuple(torch.from_numpy(index).to(device) for index in target)
    empty = torch.zeros((len(decisions), max(len(d.token_ids) for d in decisions)), device=device)
    mask = empty.index_put(index, torch.ones(len(token_ids), device=device))
    return empty.index_put(index, log_probs), empty.index_put(index, entropy), mask


def _rows(sequences: Sequence[PackedSequence], architecture: Architecture, model: Any) -> list[Row]:
    if not architecture.branches:
        return [Row(sequence.token_ids[: sequence.prompt_length], [sequence]) for sequence in sequences]
    groups: dict[bytes, list[PackedSequence]] = {}
    for sequence in sequences:
        groups.setdefault(sequence.token_ids[: sequence.prompt_length].tobytes(), []).append(sequence)
    rows = []
    for members in groups.values():
        prompt = members[0].token_ids[: members[0].prompt_length]
        size = _branches_per_row(len(prompt), members, int(getattr(model.config, "hidden_size", 1024)))
        rows += [Row(prompt, members[start : start + size]) for start in range(0, len(members), size)]
    return rows


def _branches_per_row(prompt_length: int, members: Sequence[PackedSequence], hidden_size: int) -> int:
    """How many branches make a row cheapest: a shared prompt saves, but attention pays for the square of the width."""
    tail = sum(len(member.token_ids) for member in members) / len(members) - prompt_length

    def cost(size: int) -> float:
        width = prompt_length + size * tail
        # Of a layer, 24 h^2 operations a token are matrix products and 4 h w attention to a row of w tokens.
        return -(-len(members) // size) * width * (6 * hidden_size + width)

    return min(range(1, len(members) + 1), key=cost)


def row_features(
    model: Any, rows: Sequence[Row], architecture: Architecture, pad_id: int, device: torch.device | str
) -> torch.Tensor:
    """What the head reads (or the logits, where the head cannot be had apart), shape (rows, width, features)."""
    width = max(row.width for row in rows)
    ids = np.full((len(rows), width), pad_id, np.int64)
    positions = np.zeros((len(rows), width), np.int64)
    segments = np.full((len(rows), width), -1, np.int64)
    for i, row in enumerate(rows):
        length = len(row.prompt)
        ids[i, :length] = row.prompt
        positions[i, :length] = np.arange(length)
        segments[i, :length] = 0
        for number, (start, branch) in enumerate(zip(row.starts, row.branches, strict=True), start=1):
            tail = branch.token_ids[length:-1]
            here = slice(start, start + len(tail))
            ids[i, here], segments[i, here] = tail, number
            positions[i, here] = length + np.arange(len(tail))
    arguments: dict[str, Any] = {"input_ids": torch.from_numpy(ids).to(device)}
    if any(len(row.branches) > 1 for row in rows):
        arguments["attention_mask"] = _branch_mask(torch.from_numpy(segments).to(device), base_model(model))
        arguments["position_ids"] = torch.from_numpy(positions).to(device)
    # Without branches nothing is masked: padding stands on the right, where causal models never see it.
    with _layers_recomputed(model):
        if architecture.pads_on_the_right or len(rows) == 1:
            return architecture.features(model, arguments)
        widths = [row.width for row in rows]
        parts = [
            architecture.features(model, {"input_ids": arguments["input_ids"][i : i + 1, :w]})
            for i, w in enumerate(widths)
        ]
        return torch.cat([torch.nn.functional.pad(part, (0, 0, 0, width - part.shape[1])) for part in parts])


def _branch_mask(segments: torch.Tensor, model: Any) -> torch.Tensor:
    """Which columns each column attends to, shape (rows, 1, width, width): its own branch and the prompt."""
    width = segments.shape[1]
    query, key = segments[:, :, None], segments[:, None, :]
    causal = torch.ones(width, width, dtype=torch.bool, device=segments.device).tril()
    allowed = (((query == key) | (key == 0)) & causal)[:, None]
    if getattr(model.config, "_attn_implementation", None) == "sdpa":
        return allowed
    lowest = torch.finfo(model.dtype).min
    return torch.zeros(allowed.shape, dtype=model.dtype, device=segments.device).masked_fill(~allowed, lowest)


def _places(
    rows: Sequence[Row], decisions: Sequence[Decision]
) -> tuple[tuple[NDArray[np.int64], NDArray[np.int64]], tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Where each produced token is predicted (row, column), and where it stands (decision, place)."""
    found: dict[int, tuple[int, NDArray[np.int64]]] = {}
    for i, row in enumerate(rows):
        length = len(row.prompt)
        for start, branch in zip(row.starts, row.branches, strict=True):
            for member in branch.members:
                decision = decisions[member]
                # The logits at a position predict the token after it.
                predicted_at = len(decision.prompt_ids) - 1 + np.arange(len(decision.token_ids))
                columns = np.where(predicted_at < length, predicted_at, start + predicted_at - length)
                found[member] = i, columns
    counts = [len(decision.token_ids) for decision in decisions]
    source_rows = np.repeat([found[i][0] for i in range(len(decisions))], counts)
    source_columns = np.concatenate([found[i][1] for i in range(len(decisions))])
    target_rows = np.repeat(np.arange(len(decisions)), counts)
    target_columns = np.concatenate([np.arange(count) for count in counts])
    return (source_rows, source_columns), (target_rows, target_columns)


def _by_parts(
    model: Any, features: torch.Tensor, token_ids: torch.Tensor, architecture: Architecture, temperature: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Log-probabilities and entropies of tokens from what the head reads of each, both of shape (M,)."""

    def read(part: torch.Tensor, wanted: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        table = torch.log_softmax(architecture.logits(model, part).float() / temperature, dim=-1)
        return table.gather(-1, wanted[:, None])[:, 0], -(table.exp() * table).sum(-1)

    size = max(1, LOGITS_AT_ONCE // architecture.vocabulary)
    if len(token_ids) <= size:
        return read(features, token_ids)
    parts = [
        checkpoint(read, features[start : start + size], token_ids[start : start + size], use_reentrant=False)
        for start in range(0, len(token_ids), size)
    ]
    return torch.cat([log_probs for log_probs, _ in parts]), torch.cat([entropy for _, entropy in parts])


@contextlib.contextmanager
def _layers_recomputed(model: Any) -> Iterator[None]:
    """Compute layers again in the backward pass, where gradient checkpointing was switched on for them.

    `transformers` does so in training mode alone, which would also switch dropout on.
    """
    layers = []
    if torch.is_grad_enabled():
        blocks = (module for module in model.modules() if isinstance(module, GradientCheckpointingLayer))
        layers = [block for block in blocks if block.gradient_checkpointing and not block.training]
    for layer in layers:
        layer.forward = functools.partial(checkpoint, layer.forward, use_reentrant=False)
    try:
        yield
    finally:
        for layer in layers:
            del layer.forward
