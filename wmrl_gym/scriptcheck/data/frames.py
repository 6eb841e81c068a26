"""Data frames and series: their attributes, and what indexing reads from and writes to them."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

from wmrl_gym.scriptcheck.cells import Cells
from wmrl_gym.scriptcheck.faults import Fault, api_fault, data_fault, shape_fault
from wmrl_gym.scriptcheck.models import Evaluator, Models
from wmrl_gym.scriptcheck.values.data import Array, Frame, Series
from wmrl_gym.scriptcheck.values.objects import Bound, Items, strings
from wmrl_gym.scriptcheck.values.scalars import UNKNOWN, Const, Scalar, Value

MODELS = Models()

ACCESSORS = ("loc", "iloc", "at", "iat", "str", "dt", "cat", "plot", "style")


@functools.lru_cache(maxsize=64)
def dtype_of(kind: str) -> Value:
    """The real dtype of a kind of cells, so that comparing it with "object" gives what it gives in reality."""
    import numpy as np
    import pandas as pd

    dtypes: dict[str, Any] = {
        "int": np.dtype("int64"),
        "float": np.dtype("float64"),
        "bool": np.dtype("bool"),
        "str": pd.Series(["a"]).dtype,
        "category": pd.CategoricalDtype(),
        "datetime": np.dtype("datetime64[ns]"),
        "object": np.dtype("object"),
    }
    return Const(dtypes[kind]) if kind in dtypes else UNKNOWN


def count(value: int | None) -> Value:
    """A size as a value."""
    return Scalar(Cells("int", missing=False, negative=False, fractional=False)) if value is None else Const(value)


@functools.lru_cache(maxsize=4096)
def pandas_has(class_name: str, attribute: str) -> bool:
    """Whether a class of pandas has that attribute."""
    import pandas as pd

    return hasattr(getattr(pd, class_name), attribute)


def missing_column(frame: Frame, name: Any) -> Fault:
    """The KeyError of reading one missing column."""
    return data_fault(repr(name), "KeyError", second="AttributeError", reason=f"there is no column {name!r} here")


def column(frame: Frame, name: Any) -> Series:
    """One column.

    Raises:
        Fault: KeyError if it is certainly missing.
    """
    if frame.lacks(name):
        raise missing_column(frame, name)
    cells = frame.columns.get(name, frame.rest)
    return Series(cells, frame.rows, name, frame.origin, parts=frame.parts)


def select(frame: Frame, names: Sequence[Any]) -> Frame:
    """Several columns.

    Raises:
        Fault: KeyError, in pandas' words, if some are certainly missing.
    """
    lost = [name for name in names if frame.lacks(name)]
    if lost:
        raise lost_columns(frame, lost, all_lost=len(lost) == len(names))
    columns = {name: frame.columns.get(name, frame.rest) for name in names}
    doubled = tuple(name for position, name in enumerate(names) if name in names[:position])
    return frame.with_columns(columns, complete=True, absent=frozenset(), dummies=(), doubled=doubled)


def lost_columns(frame: Frame, lost: list[Any], *, all_lost: bool) -> Fault:
    """The KeyError of selecting columns that are not there."""
    if all_lost:
        dtype = "str" if all(isinstance(name, str) for name in lost) else "object"
        message = f"\"None of [Index({lost}, dtype='{dtype}')] are in the [columns]\""
    else:
        message = f'"{lost} not in index"'
    return data_fault(message, "KeyError", second="ValueError", reason=f"there are no columns {lost} here")


def row_slice(rows: int | None, bounds: slice) -> int | None:
    """Number of rows that a slice keeps."""
    if rows is None or not all(isinstance(b, int | None) for b in (bounds.start, bounds.stop, bounds.step)):
        return None
    return len(range(*bounds.indices(rows)))


def sliced_rows(value: Frame | Series, bounds: slice) -> dict[str, Any]:
    """Changes to a frame or series of which a slice of rows is kept: a whole stacked table is recognised again."""
    rows = row_slice(value.rows, bounds)
    changes: dict[str, Any] = {"rows": rows, "parts": ()}
    origin = None
    if bounds.step in (None, 1) and rows is not None and value.rows is not None:
        start, stop, _ = bounds.indices(value.rows)
        offset = 0
        for file, size in value.parts:
            if size is None:
                break
            if (offset, offset + size) == (start, stop):
                origin = file
            offset += size
        if rows == value.rows:
            origin, changes["parts"] = value.origin, value.parts
    changes["origin"] = origin
    return changes


def few_rows(cells: Cells, rows: int | None) -> Cells:
    """Cells of a part of the rows: what was missing may or may not be among them."""
    if cells.missing and (rows is None or rows < 200):
        return dataclasses.replace(cells, missing=None)
    return cells


def part_of(frame: Frame, rows: int | None, origin: str | None = None) -> Frame:
    """Some rows of a frame."""
    columns = {name: few_rows(cells, rows) for name, cells in frame.columns.items()}
    return frame.with_columns(columns, rows=rows, origin=origin, parts=())


@MODELS.attribute(Frame)
def _frame_attribute(interpreter: Evaluator, frame: Frame, name: str) -> Value:
    if name == "columns":
        return columns_index(frame)
    if name == "shape":
        return Items("tuple", [count(frame.rows), count(frame.width)])
    if name == "values":
        return to_array(frame)
    if name == "index":
        return Items("index", None, Scalar(Cells("int", missing=False)), frame.rows)
    if name == "dtypes":
        return Series(Cells("object", missing=False), frame.width, "dtypes")
    if name == "empty":
        return Const(False) if frame.rows else UNKNOWN
    if name == "size":
        return count(None if frame.rows is None or frame.width is None else frame.rows * frame.width)
    if name == "ndim":
        return Const(2)
    if name == "T":
        return Frame({}, complete=False)
    if pandas_has("DataFrame", name):
        return Bound(frame, name)
    if name in frame.columns or not frame.lacks(name):
        return column(frame, name)
    message = f"'DataFrame' object has no attribute '{name}'"
    if any(name == known for known in ("append", "iteritems", "applymap", "ix", "as_matrix", "mad")):
        raise api_fault(message, "AttributeError", second="TypeError")
    raise data_fault(message, "AttributeError", second="KeyError")


def columns_index(frame: Frame) -> Items:
    """``frame.columns``."""
    if frame.complete:
        return strings([*frame.columns, *frame.doubled], "index")
    return Items("index", None, Scalar(Cells("str", missing=False)), frame=frame)


def to_array(frame: Frame) -> Array:
    """``frame.values``."""
    cells = frame.cells()
    kinds = {c.kind for c in frame.columns.values()}
    if kinds & {"str", "category", "datetime"} and len(kinds) > 1:
        cells = dataclasses.replace(cells, kind="object")
    return Array(cells, (frame.rows, frame.width), origin=frame.origin)


@MODELS.attribute(Series)
def _series_attribute(interpreter: Evaluator, series: Series, name: str) -> Value:
    if name in ("values", "array"):
        return Array(series.cells, (series.rows,), origin=series.origin)
    if name == "shape":
        return Items("tuple", [count(series.rows)])
    if name in ("dtype", "dtypes"):
        return dtype_of(series.cells.kind)
    if name == "index":
        return Items("index", None, UNKNOWN, series.rows)
    if name in ("size",):
        return count(series.rows)
    if name == "name":
        return Const(series.name)
    if name == "empty":
        return Const(False) if series.rows else UNKNOWN
    if name in ("str", "dt", "cat"):
        _require_accessor(series, name)
    if pandas_has("Series", name):
        return Bound(series, name)
    if series.name is None or series.cells.kind == "object":
        return UNKNOWN
    raise api_fault(f"'Series' object has no attribute '{name}'", "AttributeError", second="KeyError")


def _require_accessor(series: Series, name: str) -> None:
    kind = series.cells.kind
    if name == "str" and kind in ("int", "float", "bool", "datetime"):
        shown = {"int": "integer", "float": "floating", "bool": "boolean", "datetime": "datetime64"}[kind]
        message = f"Can only use .str accessor with string values, not {shown}"
        raise shape_fault(message, "AttributeError", second="TypeError")
    if name == "dt" and kind in ("int", "float", "bool", "str"):
        raise shape_fault("Can only use .dt accessor with datetimelike values", "AttributeError", second="TypeError")
    if name == "cat" and kind in ("int", "float", "bool", "str", "datetime"):
        message = "Can only use .cat accessor with a 'category' dtype"
        raise shape_fault(message, "AttributeError", second="TypeError")
