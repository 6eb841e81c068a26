"""The ledger: every trajectory that was scored by both the world model and execution. Append-only."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclasses.dataclass(frozen=True)
class Pair:
    """One anchor trajectory scored by both."""

    step: int
    """Training step; for an episode without a group, the episode's number."""
    group_key: str
    predicted: float
    calibrated: float
    """The prediction through the map as it was *before* this step's pairs entered it: an honest forecast."""
    executed: float
    propensity: float
    """Probability with which the group was to be executed."""
    status: str
    """Status of the trajectory's last execution."""
    seconds: float
    """Wall-clock seconds of execution, summed over the trajectory's turns."""


_COLUMNS = tuple(field.name for field in dataclasses.fields(Pair))
_DTYPES: dict[str, Any] = {"step": np.int64, "group_key": object, "status": object}


class Ledger:
    """Append-only list of `Pair`, exported as arrays or as JSON Lines."""

    def __init__(self, pairs: Iterable[Pair] = ()) -> None:
        self._pairs = list(pairs)

    def __len__(self) -> int:
        return len(self._pairs)

    @property
    def pairs(self) -> tuple[Pair, ...]:
        """All pairs, oldest first."""
        return tuple(self._pairs)

    def extend(self, pairs: Iterable[Pair]) -> None:
        """Append pairs."""
        self._pairs.extend(pairs)

    def columns(self, newest: int | None = None) -> dict[str, NDArray[Any]]:
        """One array per field of `Pair`, each of shape (n,), of the ``newest`` pairs or of all."""
        pairs = self._pairs if newest is None else self._pairs[max(len(self._pairs) - newest, 0) :]
        return {
            name: np.array([getattr(pair, name) for pair in pairs], dtype=_DTYPES.get(name, float)) for name in _COLUMNS
        }

    def write(self, path: str | Path) -> None:
        """Write one JSON object per pair and line."""
        lines = (json.dumps(dataclasses.asdict(pair), ensure_ascii=False) + "\n" for pair in self._pairs)
        Path(path).write_text("".join(lines), encoding="utf-8")

    def state_dict(self) -> dict[str, list[Any]]:
        """The columns as plain lists, which survive JSON to the last bit."""
        return {name: [getattr(pair, name) for pair in self._pairs] for name in _COLUMNS}

    @classmethod
    def from_state_dict(cls, state: Mapping[str, Sequence[Any]]) -> Ledger:
        """The ledger that `state_dict` described."""
        return cls(Pair(*row) for row in zip(*(state[name] for name in _COLUMNS), strict=True))
