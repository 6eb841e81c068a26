"""Whether an update moved the weights at all.

Next to a weight of 0.02, numbers in bfloat16 lie 1.2e-4 apart: a step of 1e-6 is rounded away, and a run learns nothing
without a word. So every update says which share of the weights that had a gradient it changed.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch

WATCHED = 2048
"""Weights looked at in each tensor, evenly spread over it."""
LEAST_SHARE = 0.1
"""Below it an update counts as lost."""
UPDATES_LOST = 3
"""So many in a row end the run."""


class UpdatesVanish(RuntimeError):
    """Updates are rounded away: training would go on without learning anything."""


def require_precise(parameters: Iterable[torch.nn.Parameter]) -> None:
    """Refuse weights in half precision.

    Raises:
        ValueError: if one that learns has fewer than 32 bits.
    """
    coarse = {str(p.dtype).removeprefix("torch.") for p in parameters if torch.finfo(p.dtype).bits < 32}
    if coarse:
        raise ValueError(
            f"weights that are to learn are in {', '.join(sorted(coarse))}, where small updates are rounded away\n"
            "  load them in float32 and compute in bfloat16: policy.dtype=float32 policy.compute_dtype=bfloat16."
        )


class WeightChange:
    """Watches some weights of every tensor.

    Args:
        parameters: what is trained.
    """

    def __init__(self, parameters: Iterable[torch.nn.Parameter]) -> None:
        self.parameters = list(parameters)
        self._before: list[torch.Tensor] = []
        self._lost = 0

    @torch.no_grad()
    def remember(self) -> None:
        """Note the weights that have a gradient, before an update."""
        self._before = [_some(parameter).clone() for parameter in self.parameters]

    @torch.no_grad()
    def share(self) -> float | None:
        """Share of the weights with a gradient that changed since `remember`; None if none had one.

        Raises:
            UpdatesVanish: if hardly any changed in several updates in a row.
        """
        counted = changed = 0
        for parameter, before in zip(self.parameters, self._before, strict=True):
            if parameter.grad is None:
                continue
            moving = _some(parameter.grad) != 0
            counted += int(moving.sum())
            changed += int(((_some(parameter) != before) & moving).sum())
        if not counted:
            return None
        share = changed / counted
        self._lost = self._lost + 1 if share < LEAST_SHARE else 0
        if self._lost >= UPDATES_LOST:
            raise UpdatesVanish(
                f"in {self._lost} updates in a row only {share:.1%} of the weights with a gradient changed: steps are "
                "smaller than the numbers' precision\n"
                "  raise algorithm.learning_rate, or hold the weights in float32."
            )
        return share


def _some(values: torch.Tensor) -> torch.Tensor:
    flat = values.detach().reshape(-1)
    return flat[:: max(1, len(flat) // WATCHED)]
