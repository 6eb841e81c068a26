"""Prompts that begin alike have their common beginning run once, over as many levels as pay.

The checks of one script share the script, the scripts of one task share its description. Sorted token by token, the
prompts form a tree; each level of it is one forward pass over its distinct segments, and the key-value cache is then
repeated for the rows that go on from there. Everything is padded on the left.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers.cache_utils import DynamicCache

from wmrl_gym.engines.preallocated_cache import cache_argument, forward_arguments

LEAST_SHARED = 16
"""Shorter common segments are not worth a forward pass of their own."""
MOST_LEVELS = 4


@dataclass(frozen=True)
class Segment:
    """Tokens that several neighbouring rows share."""

    first_row: int
    start: int
    end: int


Path = tuple[Segment, ...]


def shared_paths(rows: Sequence[NDArray[np.int64]], *, levels: int = MOST_LEVELS) -> list[Path]:
    """The shared segments at the beginning of each row, outermost first; at least one token of a row is left over.

    Args:
        rows: token ids, sorted lexicographically.
        levels: longest path; the segments that save least are given up first.
    """
    paths: list[Path] = [()] * len(rows)

    def descend(low: int, high: int, start: int, path: Path) -> None:
        common = min(_common_length(rows[low], rows[high - 1]), len(rows[low]) - 1)
        if high - low > 1 and common - start >= LEAST_SHARED:
            path, start = (*path, Segment(low, start, common)), common
        cuts = [low, *(i for i in range(low + 1, high) if rows[i][common] != rows[i - 1][common]), high]
        if len(cuts) == 2:
            paths[low:high] = [path] * (high - low)
            return
        for left, right in itertools.pairwise(cuts):
            descend(left, right, start, path)

    if rows:
        descend(0, len(rows), 0, ())
    return _at_most(levels, paths)


def _common_length(a: NDArray[np.int64], b: NDArray[np.int64]) -> int:
    width = min(len(a), len(b))
    different = np.flatnonzero(a[:width] != b[:width])
    return int(different[0]) if len(different) else width


def _at_most(levels: int, paths: list[Path]) -> list[Path]:
    while (longest := max(paths, key=len, default=())) and len(longest) > levels:
        saved = {s: (s.end - s.start) * (sum(s in path for path in paths) - 1) for s in longest}
        paths = [_without(min(longest, key=lambda s: saved[s]), path) for path in paths]
    return paths


def _without(segment: Segment, path: Path) -> Path:
    """The path with the segment's tokens handed on to the next one."""
    if segment not in path:
        return path
    i = path.index(segment)
    rest = path[i + 1 :]
    if rest:
        rest = (Segment(rest[0].first_row, segment.start, rest[0].end), *rest[1:])
    return (*path[:i], *rest)


def tokens_computed_before(row: int, path: Path) -> int:
    """Tokens of a row that were run for the sake of an earlier row."""
    return sum(segment.end - segment.start for segment in path if segment.first_row != row)


@dataclass
class Prefilled:
    """Where sampling begins."""

    logits: torch.Tensor
    """Of the token after each row, shape (N, vocabulary)."""
    mask: torch.Tensor
    """1 where the cache holds a token, 0 on padding, shape (N, columns)."""
    lengths: torch.Tensor
    """True number of tokens of each row, shape (N,)."""


def columns_needed(rows: Sequence[NDArray[np.int64]], paths: Sequence[Path]) -> int:
    """Width of the cache after `prefill`."""
    depth = max(len(path) for path in paths)
    shared = sum(max(p[level].end - p[level].start for p in paths if len(p) > level) for level in range(depth))
    return shared + max(len(row) - _end(path) for row, path in zip(rows, paths, strict=True))


def _end(path: Path) -> int:
    return path[-1].end if path else 0


def prefill(
    model: Any,
    rows: Sequence[NDArray[np.int64]],
    paths: Sequence[Path],
    cache: DynamicCache,
    *,
    pad_id: int,
    device: torch.device | str,
) -> Prefilled:
    """Run all rows, shared segments once.

    Args:
        model: a causal language model.
        rows: token ids of the prompts, length N.
        paths: what `shared_paths` found; empty ones share nothing.
        cache: an empty key-value cache; filled on return, one row per prompt.
        pad_id: any valid token id.
        device: where the model lives.
    """
    keyword = cache_argument(model)
    extra = {"logits_to_keep": 1} if "logits_to_keep" in forward_arguments(model) else {}
    mask = torch.zeros((1, 0), dtype=torch.int64, device=device)

    def run(segments: Sequence[NDArray[np.int64]], parents: Sequence[int]) -> torch.Tensor:
        nonlocal mask
        index = torch.tensor(parents, device=device)
        if mask.shape[1] and list(parents) != list(range(mask.shape[0])):
            cache.batch_select_indices(index)
        ids, new = left_pad(segments, pad_id, device)
        before = mask[index]
        positions = before.sum(1, keepdim=True) + (new.cumsum(1) - 1).clamp(min=0)
        mask = torch.cat([before, new], dim=1)
        output = model(
            input_ids=ids, attention_mask=mask, position_ids=positions, use_cache=True, **{keyword: cache}, **extra
        )
        return output.logits[:, -1]

    entries: dict[Path, int] = {(): 0}
    for level in range(max(len(path) for path in paths)):
        here: dict[Path, int] = {}
        segments, parents = [], []
        for row, path in zip(rows, paths, strict=True):
            key = path[: level + 1]
            if key not in here:
                here[key] = len(here)
                parents.append(entries[path[:level]])
                segments.append(row[key[level].start : key[level].end] if len(key) > level else row[:0])
        run(segments, parents)
        entries = here
    tails = [row[_end(path) :] for row, path in zip(rows, paths, strict=True)]
    logits = run(tails, [entries[path] for path in paths])
    return Prefilled(logits, mask, mask.sum(1))


def left_pad(
    segments: Sequence[NDArray[np.int64]], pad_id: int, device: torch.device | str
) -> tuple[torch.Tensor, torch.Tensor]:
    """Token ids and mask, both of shape (N, longest)."""
    width = max(len(segment) for segment in segments)
    ids = np.full((len(segments), width), pad_id, np.int64)
    mask = np.zeros((len(segments), width), np.int64)
    for i, segment in enumerate(segments):
        if len(segment):
            ids[i, width - len(segment) :] = segment
            mask[i, width - len(segment) :] = 1
    return torch.from_numpy(ids).to(device), torch.from_numpy(mask).to(device)
