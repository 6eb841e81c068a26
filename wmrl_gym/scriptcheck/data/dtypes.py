"""Dtypes as scripts name them: what astype and select_dtypes make of them."""

from __future__ import annotations

import dataclasses
from typing import Any

from wmrl_gym.scriptcheck.cells import TEXTUAL, Cells
from wmrl_gym.scriptcheck.faults import shape_fault
from wmrl_gym.scriptcheck.values.objects import Items, Real, constant
from wmrl_gym.scriptcheck.values.scalars import MISSING, NONE, Value

_KINDS_BY_PREFIX = {"int": "int", "uint": "int", "float": "float", "bool": "bool", "datetime": "datetime"}


def dtype_kind(value: Value | None) -> str | None:
    """The kind of cells that a dtype argument asks for."""
    name = value.obj if isinstance(value, Real) else constant(value)
    text = name if isinstance(name, str) else getattr(name, "__name__", getattr(name, "name", ""))
    text = str(text).lower()
    for prefix, kind in (*_KINDS_BY_PREFIX.items(), ("str", "str")):
        if text.startswith(prefix):
            return kind
    known = {
        "category": "category",
        "categoricaldtype": "category",
        "object": "object",
        "object_": "object",
        "double": "float",
    }
    return known.get(text)


def cast(cells: Cells, kind: str | None) -> Cells:
    """Cells after ``astype``.

    Raises:
        Fault: ValueError for text that is not a number, or for missing values that shall become integers.
    """
    if kind is None:
        return dataclasses.replace(cells, kind="unknown", origin=None)
    if kind in ("int", "float") and cells.kind == "str" and not _all_numeric(cells):
        example = cells.examples[0] if cells.examples else ""
        if kind == "int":
            raise shape_fault(f"invalid literal for int() with base 10: '{example}'", second="TypeError")
        raise shape_fault(f"could not convert string to float: '{example}'", second="TypeError")
    if kind == "int" and cells.missing and cells.kind in ("float", "object"):
        message = (
            "Cannot convert non-finite values (NA or inf) to integer. Replace or remove non-finite values or cast to "
            "an integer type that supports these values (e.g. 'Int64')"
        )
        raise shape_fault(message, "IntCastingNaNError", second="ValueError")
    if kind == "object":
        kind = cells.kind if cells.kind in TEXTUAL else "unknown"
    fractional = False if kind in ("int", "bool") else cells.fractional
    missing = False if kind in ("int", "bool") else cells.missing
    unique = cells.unique if kind not in ("int", "bool") or cells.kind != "float" else None
    return cells.derived(kind=kind, fractional=fractional, missing=missing, unique=unique, examples=cells.examples)


def _all_numeric(cells: Cells) -> bool:
    """Whether text may well be numbers: pandas would have read a column of numbers as numbers, so only if unsure."""
    if cells.origin is not None or not cells.examples:
        return cells.origin is None
    return all(example.replace(".", "", 1).lstrip("-").isdigit() for example in cells.examples)


def dtype_names(value: Value | None) -> list[Any] | None:
    """Dtypes as names, None for each that is unknown; None if the argument was not given."""
    if value is None or value == NONE:
        return None
    parts = value.items if isinstance(value, Items) and value.kind in ("list", "tuple", "set") else [value]
    if parts is None:
        return [None]
    found: list[Any] = []
    for part in parts:
        name = part.obj if isinstance(part, Real) else constant(part)
        found.append(
            None if name is MISSING else name if isinstance(name, str) else getattr(name, "__name__", str(name))
        )
    return found


_DTYPE_KINDS: dict[str, frozenset[str]] = {
    "number": frozenset({"int", "float"}),
    "object": frozenset({"str", "object"}),
    "o": frozenset({"str", "object"}),
    "object_": frozenset({"str", "object"}),
    "str": frozenset({"str"}),
    "string": frozenset({"str"}),
    "category": frozenset({"category"}),
}


def kinds_of_dtype(name: str) -> frozenset[str] | None:
    """Kinds of cells that a dtype name stands for, None if pandas does not know it."""
    name = name.lower()
    for prefix, kind in _KINDS_BY_PREFIX.items():
        if name.startswith(prefix):
            return frozenset({kind})
    return _DTYPE_KINDS.get(
        name, frozenset() if name in ("timedelta", "timedelta64", "datetimetz", "complex") else None
    )


def dtype_selected(kind: str, include: list[Any] | None, exclude: list[Any] | None) -> bool:
    """Whether ``select_dtypes`` keeps a column of that kind."""

    def among(names: list[Any]) -> bool:
        return any(kind in (kinds_of_dtype(name) or ()) for name in names if name is not None)

    return (include is None or among(include)) and not (exclude is not None and among(exclude))
