"""A single thing: anything, a constant, a number or string of unknown value, a text with holes."""

from __future__ import annotations

import dataclasses
from typing import Any

from wmrl_gym.scriptcheck.cells import Cells
from wmrl_gym.scriptcheck.limits import MAX_PARTS, MAX_TEXT


class Value:
    """Base of all abstract values."""


@dataclasses.dataclass(frozen=True)
class Unknown(Value):
    """Anything. No check has an opinion about it."""

    def __deepcopy__(self, memo: dict[int, Any]) -> Unknown:
        return self


UNKNOWN = Unknown()


MISSING: Any = object()


@dataclasses.dataclass(frozen=True)
class Const(Value):
    """A Python constant: None, bool, number, str, bytes, slice or a NumPy dtype."""

    value: Any

    def __deepcopy__(self, memo: dict[int, Any]) -> Const:
        return self


NONE = Const(None)


@dataclasses.dataclass(frozen=True)
class Scalar(Value):
    """One number or string whose value is unknown but whose kind is not."""

    cells: Cells = dataclasses.field(default_factory=Cells)

    def __deepcopy__(self, memo: dict[int, Any]) -> Scalar:
        return self


@dataclasses.dataclass(frozen=True)
class Text(Value):
    """A string or path, parts of which may be unknown: pieces of text with `Cells` in the holes."""

    parts: tuple[str | Cells, ...]
    is_path: bool = False

    def __post_init__(self) -> None:
        if len(self.parts) > MAX_PARTS or sum(len(p) for p in self.parts if isinstance(p, str)) > MAX_TEXT:
            # A text that doubles in a loop would fill the memory: it becomes one hole.
            object.__setattr__(self, "parts", (Cells("str", missing=False),))
            return
        merged: list[str | Cells] = []
        for part in self.parts:
            if isinstance(part, str) and merged and isinstance(merged[-1], str):
                merged[-1] += part
            elif part != "":
                merged.append(part)
        object.__setattr__(self, "parts", tuple(merged))

    @property
    def literal(self) -> str | None:
        """The whole text, None if it has holes."""
        return "".join(self.parts) if all(isinstance(p, str) for p in self.parts) else None  # type: ignore[arg-type]

    def __deepcopy__(self, memo: dict[int, Any]) -> Text:
        return self
