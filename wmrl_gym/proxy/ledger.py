"""The ledger: trajectories that were scored by both the world model and execution, the newest of them."""

from __future__ import annotations

import dataclasses
import itertools
import json
import os
from collections import deque
from collections.abc import Iterable, Mapping
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

    def as_line(self) -> str:
        """A line of JSON Lines."""
        return json.dumps(dataclasses.asdict(self), ensure_ascii=False) + "\n"


_COLUMNS = tuple(field.name for field in dataclasses.fields(Pair))
_DTYPES: dict[str, Any] = {"step": np.int64, "group_key": object, "status": object}


class Ledger:
    """The newest pairs, exported as arrays or as JSON Lines.

    What is older is forgotten here, so that state and checkpoints of a long run do not grow: a run writes every pair to
    its own file as it comes.

    Args:
        pairs: to begin with.
        window: newest pairs that are kept.
    """

    def __init__(self, pairs: Iterable[Pair] = (), window: int = 5000) -> None:
        if window < 1:
            raise ValueError(f"the ledger's window is {window}: keep at least 1 pair")
        self._pairs: deque[Pair] = deque(maxlen=window)
        self.n_pairs = 0
        """Pairs ever taken in."""
        self.extend(pairs)

    def __len__(self) -> int:
        return len(self._pairs)

    @property
    def window(self) -> int:
        """Newest pairs that are kept."""
        return self._pairs.maxlen or 0

    @property
    def pairs(self) -> tuple[Pair, ...]:
        """The pairs that are kept, oldest first."""
        return tuple(self._pairs)

    def extend(self, pairs: Iterable[Pair]) -> None:
        """Append pairs."""
        new = list(pairs)
        self._pairs.extend(new)
        self.n_pairs += len(new)

    def columns(self, newest: int | None = None) -> dict[str, NDArray[Any]]:
        """One array per field of `Pair`, each of shape (n,), of the ``newest`` pairs or of all that are kept."""
        first = 0 if newest is None else max(len(self._pairs) - newest, 0)
        pairs = list(itertools.islice(self._pairs, first, None))
        return {
            name: np.array([getattr(pair, name) for pair in pairs], dtype=_DTYPES.get(name, float)) for name in _COLUMNS
        }

    def write(self, path: str | Path) -> None:
        """Write one JSON object per pair that is kept and line, by rename."""
        path = Path(path)
        temporary = path.with_name(f".{path.name}.{os.getpid()}")
        temporary.write_text("".join(pair.as_line() for pair in self._pairs), encoding="utf-8")
        os.replace(temporary, path)

    def state_dict(self) -> dict[str, Any]:
        """The columns as plain lists, which survive JSON to the last bit, and how many pairs there ever were."""
        columns = {name: [getattr(pair, name) for pair in self._pairs] for name in _COLUMNS}
        return {"columns": columns, "n_pairs": self.n_pairs}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned; of a longer window, the newest."""
        columns = state["columns"]
        pairs = [Pair(*row) for row in zip(*(columns[name] for name in _COLUMNS), strict=True)]
        count = int(state["n_pairs"])
        self._pairs = deque(pairs, maxlen=self._pairs.maxlen)
        self.n_pairs = count
