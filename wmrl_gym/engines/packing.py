"""Packs the decisions of an episode into one sequence, so that a long shared prefix is run once.

A later prompt of an episode begins with the earlier prompt and answer. One pass over the last prompt and answer
therefore gives the log-probabilities of every answer in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wmrl_gym.core import Decision


@dataclass(frozen=True)
class PackedSequence:
    """One chain of decisions, each of which extends the one before."""

    token_ids: NDArray[np.int64]
    """Last prompt and last answer, shape (L,)."""
    prompt_length: int
    """Length of the first prompt."""
    members: tuple[int, ...]
    """Indices of the decisions in it, oldest first."""


def pack(decisions: Sequence[Decision]) -> list[PackedSequence]:
    """Group decisions into chains. Decisions of different episodes may come in any order."""
    order = sorted(range(len(decisions)), key=lambda i: len(decisions[i].prompt_ids))
    open_chains: dict[bytes, list[list[int]]] = {}
    chains: list[list[int]] = []
    end_lengths: set[int] = set()
    for index in order:
        prompt = decisions[index].prompt_ids
        chain = _extended_chain(prompt, open_chains, end_lengths)
        if chain is None:
            chain = []
            chains.append(chain)
        chain.append(index)
        whole = whole_sequence(decisions[index])
        open_chains.setdefault(whole.tobytes(), []).append(chain)
        end_lengths.add(len(whole))
    chains.sort(key=lambda chain: min(chain))
    return [
        PackedSequence(
            token_ids=whole_sequence(decisions[chain[-1]]),
            prompt_length=len(decisions[chain[0]].prompt_ids),
            members=tuple(chain),
        )
        for chain in chains
    ]


def whole_sequence(decision: Decision) -> NDArray[np.int64]:
    """Prompt and answer, shape (P + T,)."""
    return np.concatenate([decision.prompt_ids, decision.token_ids]).astype(np.int64)


def _extended_chain(
    prompt: NDArray[np.int64], open_chains: dict[bytes, list[list[int]]], end_lengths: set[int]
) -> list[int] | None:
    """Take the longest open chain that `prompt` extends."""
    for length in sorted((n for n in end_lengths if n <= len(prompt)), reverse=True):
        waiting = open_chains.get(np.asarray(prompt[:length], np.int64).tobytes())
        if waiting:
            return waiting.pop()
    return None
