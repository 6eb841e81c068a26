"""What policies that act in batches have in common."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from wmrl_gym.core import Decision

History = Sequence[Decision]
Stream = tuple[int, ...]


def act_in_batches(
    observations: Sequence[Any],
    histories: Sequence[History],
    seeds: Sequence[Stream],
    batch_size: int | None,
    act: Callable[[Sequence[Any], Sequence[History], Sequence[Stream]], list[Decision]],
) -> list[Decision]:
    """Decide for all episodes, at most `batch_size` at a time; None takes all at once.

    Raises:
        ValueError: if the lengths differ.
    """
    if not len(observations) == len(histories) == len(seeds):
        raise ValueError(
            f"act got {len(observations)} observations, {len(histories)} histories and {len(seeds)} seeds: "
            "give one of each per episode"
        )
    decisions: list[Decision] = []
    size = batch_size or max(1, len(observations))
    for start in range(0, len(observations), size):
        part = slice(start, start + size)
        decisions += act(observations[part], histories[part], seeds[part])
    return decisions


def episodes_that_keep_busy(batch_size: int | None, device: torch.device) -> int:
    """`core.Batching.concurrency` of a model: an accelerator takes hardly longer for many than for few."""
    return batch_size or (1 if device.type == "cpu" else 64)


def available_device(device: torch.device | str) -> torch.device:
    """The device, if this machine has it.

    Raises:
        ValueError: if there is none of that name.
    """
    try:
        wanted = torch.device(device)
        torch.empty(0, device=wanted)
    except (RuntimeError, AssertionError) as error:
        there = ["cpu", *(f"cuda:{i}" for i in range(torch.cuda.device_count()))]
        raise ValueError(
            f"device is {str(device)!r}, which this machine does not have: {str(error).splitlines()[0]}\n"
            f"  there are: {', '.join(there)}"
        ) from None
    return wanted
