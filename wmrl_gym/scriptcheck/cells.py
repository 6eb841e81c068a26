"""What is known of the values in one column or array: their kind, their gaps, and where they come from."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any, Literal

Kind = Literal["int", "float", "bool", "str", "category", "datetime", "object", "unknown"]


NUMERIC: frozenset[str] = frozenset({"int", "float", "bool"})


TEXTUAL: frozenset[str] = frozenset({"str", "object"})


@dataclasses.dataclass(frozen=True)
class Predictor:
    """A fitted model behind some predictions: all that decides how good they may be."""

    estimator: Any
    """The `Estimator` that was fitted, with its parameters."""
    sources: frozenset[str]
    """Raw columns (or "pixels") that its features come from."""
    tags: frozenset[str]
    """What was done to the features, for example {"scaled", "onehot"}."""
    rows: int | None
    """Rows it was fitted on."""
    width: int | None
    """Number of features, None if unknown."""
    target: Cells
    """What it was fitted to."""
    method: str = "predict"
    """The method that made the predictions."""


@dataclasses.dataclass(frozen=True, slots=True)
class Cells:
    """What is known of the values in one column, or in one array."""

    kind: str = "unknown"
    missing: bool | None = None
    """True: holds NaN for certain; False: holds none; None: nobody knows."""
    unique: int | None = None
    negative: bool | None = None
    fractional: bool | None = None
    """Whether numbers have a fractional part, so that they cannot be class labels."""
    examples: tuple[str, ...] = ()
    origin: tuple[str, str] | None = None
    """(file, column) if these are the unchanged values of that column."""
    sources: frozenset[str] = frozenset()
    """Names of the raw columns these were computed from."""
    tags: frozenset[str] = frozenset()
    """What was done to them, for example {"scaled"}."""
    predictors: tuple[Predictor, ...] = ()
    """The models that predicted these values, if they are predictions."""
    length: float | None = None
    """Mean number of characters of texts."""
    role: str | None = None
    """For predictions: "labels", "probability", "decision" or "regression"."""

    @property
    def numeric(self) -> bool | None:
        """Whether arithmetic works on them; None if unknown."""
        return None if self.kind == "unknown" else self.kind in NUMERIC

    def derived(self, **changes: Any) -> Cells:
        """Values computed from these: what is stated changes, lineage stays, raw identity goes."""
        changes.setdefault("origin", None)
        changes.setdefault("examples", ())
        return dataclasses.replace(self, **changes)

    def computed(self, result: Cells | None) -> Cells:
        """What a function makes of these one by one, where it makes one like `result` of each; None if unknown."""
        if result is None:
            return Cells(sources=self.sources)
        return self.derived(
            kind=result.kind,
            missing=result.missing,
            negative=result.negative,
            fractional=result.fractional,
            unique=None,
        )

    def tagged(self, *tags: str) -> Cells:
        """The same values with further tags."""
        return dataclasses.replace(self, tags=self.tags | set(tags))

    def __deepcopy__(self, memo: dict[int, Any]) -> Cells:
        return self


def either(a: bool | None, b: bool | None) -> bool | None:
    """Logical or with an unknown."""
    if a or b:
        return True
    return False if a is False and b is False else None


def merge_cells(parts: Iterable[Cells]) -> Cells:
    """What is known of all these values put together, as in one array."""
    parts = list(parts)
    if not parts:
        return Cells()
    if len(parts) == 1:
        return parts[0]
    kinds = {part.kind for part in parts}
    missing: bool | None = False
    negative: bool | None = False
    fractional: bool | None = False
    for part in parts:
        missing = either(missing, part.missing)
        negative = either(negative, part.negative)
        fractional = either(fractional, part.fractional)
    textual = next((part for part in parts if part.kind in ("str", "object")), None)
    roles = {part.role for part in parts}
    return Cells(
        kind=_merged_kind(kinds),
        missing=missing,
        negative=negative,
        fractional=fractional,
        examples=textual.examples if textual else (),
        sources=frozenset().union(*(part.sources for part in parts)),
        tags=frozenset().union(*(part.tags for part in parts)),
        predictors=tuple(dict.fromkeys(p for part in parts for p in part.predictors)),
        role=roles.pop() if len(roles) == 1 else None,
    )


def _merged_kind(kinds: set[str]) -> str:
    if len(kinds) == 1:
        return next(iter(kinds))
    if "unknown" in kinds:
        return "unknown" if not kinds & {"str", "object"} else "object"
    if kinds <= NUMERIC:
        return "float" if "float" in kinds else "int"
    if kinds & {"str", "object"}:
        return "object"
    return "unknown"
