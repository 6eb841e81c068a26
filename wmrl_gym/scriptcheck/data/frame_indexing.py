"""What indexing reads from data frames and series, and writes to them."""

from __future__ import annotations

import dataclasses
from typing import Any

from wmrl_gym.scriptcheck.cells import Cells, merge_cells
from wmrl_gym.scriptcheck.data.frames import (
    ACCESSORS,
    column,
    few_rows,
    lost_columns,
    pandas_has,
    part_of,
    select,
    sliced_rows,
)
from wmrl_gym.scriptcheck.faults import Fault, data_fault, runtime_fault, shape_fault
from wmrl_gym.scriptcheck.models import Evaluator, Models
from wmrl_gym.scriptcheck.scope import scalar_cells
from wmrl_gym.scriptcheck.values.data import Array, Frame, GroupBy, Series
from wmrl_gym.scriptcheck.values.objects import Bound, Dict, Items, constant
from wmrl_gym.scriptcheck.values.scalars import MISSING, UNKNOWN, Const, Scalar, Value

MODELS = Models()


@MODELS.subscript(Frame)
def _frame_subscript(interpreter: Evaluator, frame: Frame, key: Value) -> Value:
    name = constant(key)
    if isinstance(name, slice):
        return frame.with_columns(dict(frame.columns), **sliced_rows(frame, name))
    if isinstance(key, Items) and key.kind == "tuple" and any(isinstance(constant(k), slice) for k in key.items or []):
        message = str(name) if name is not MISSING else "(slice(None, None, None), ...)"
        raise shape_fault(message, "InvalidIndexError", second="TypeError", reason="a frame is indexed like an array")
    if name is not MISSING:
        return column(frame, name)
    if isinstance(key, Items):
        names = [constant(item) for item in key.items] if key.items is not None else None
        if names is None or MISSING in names:
            return unlisted(frame) if key.frame is None else _like(frame, key.frame)
        return select(frame, names)
    if isinstance(key, Series | Array | Frame):
        return frame.copy() if isinstance(key, Frame) else part_of(frame, None)
    if isinstance(key, Scalar) and key.cells.kind == "str":
        return Series(frame.cells().derived(), frame.rows, None, frame.origin)
    return UNKNOWN


def _like(frame: Frame, model: Frame) -> Frame:
    """The columns of another frame, which are not all known by name.

    Raises:
        Fault: KeyError if the frame certainly lacks some of them.
    """
    lost = [name for name in model.columns if frame.lacks(name)]
    if frame.complete and model.dummies:
        lost += [f"{column}_..." for column, _, _ in model.dummies]
    if lost:
        raise lost_columns(frame, lost, all_lost=False)
    columns = {name: frame.columns.get(name, frame.rest) for name in model.columns}
    return frame.with_columns(columns, complete=model.complete, dummies=model.dummies, absent=model.absent)


def unlisted(frame: Frame) -> Frame:
    """Some of the columns, nobody knows which."""
    cells = frame.cells()
    kind = cells.kind if len({c.kind for c in frame.columns.values()}) == 1 else "unknown"
    missing = None if cells.missing else cells.missing
    return frame.with_columns(
        {}, complete=False, rest=dataclasses.replace(cells, kind=kind, missing=missing, examples=())
    )


@MODELS.subscript(Series)
def _series_subscript(interpreter: Evaluator, series: Series, key: Value) -> Value:
    position = constant(key)
    if isinstance(position, slice):
        return dataclasses.replace(series, cells=series.cells, **sliced_rows(series, position))
    if isinstance(key, Series | Array):
        return dataclasses.replace(series, rows=None, origin=None, cells=few_rows(series.cells, None), parts=())
    if isinstance(key, Items):
        return dataclasses.replace(series, rows=key.size, origin=None, parts=())
    if isinstance(position, str) and series.origin is not None and series.cells.origin is not None:
        raise data_fault(repr(position), "KeyError", second="TypeError", confidence=0.85)
    return Scalar(series.cells)


@MODELS.subscript(Bound)
def _accessor_subscript(interpreter: Evaluator, accessor: Bound, key: Value) -> Value:
    """``.loc[...]`` and ``.iloc[...]`` of frames and series; any other accessor is not followed."""
    receiver = accessor.receiver
    if isinstance(receiver, Const | Dict) or (isinstance(receiver, Frame | Series) and accessor.name not in ACCESSORS):
        kind = "method" if isinstance(receiver, Frame | Series) else "builtin_function_or_method"
        raise runtime_fault(f"'{kind}' object is not subscriptable", "TypeError")
    if accessor.name not in ("loc", "iloc", "at", "iat"):
        return UNKNOWN
    rows, columns = key, None
    if isinstance(key, Items) and key.kind == "tuple" and key.items is not None and len(key.items) == 2:
        rows, columns = key.items
    if isinstance(receiver, Series):
        return _series_rows(interpreter, receiver, rows, accessor.name)
    if not isinstance(receiver, Frame):
        return UNKNOWN
    taken = _take_columns(receiver, columns, accessor.name)
    return _take_rows(interpreter, taken, rows, accessor.name)


def _take_columns(frame: Frame, key: Value | None, accessor: str) -> Value:
    if key is None:
        return frame.copy()
    wanted = constant(key)
    if isinstance(wanted, slice) and wanted == slice(None):
        return frame.copy()
    if accessor == "iloc":
        return _columns_by_position(frame, key, wanted)
    if isinstance(wanted, slice):
        return _columns_between(frame, wanted)
    if isinstance(wanted, str):
        return column(frame, wanted)
    if isinstance(key, Items) and key.items is not None:
        names = [constant(item) for item in key.items]
        return unlisted(frame) if MISSING in names else select(frame, names)
    return unlisted(frame)


def _columns_by_position(frame: Frame, key: Value, wanted: Any) -> Value:
    names = list(frame.columns)
    if not frame.complete:
        return unlisted(frame) if not isinstance(wanted, int) else Series(Cells(), frame.rows, None, frame.origin)
    if isinstance(wanted, int):
        if not -len(names) <= wanted < len(names):
            raise data_fault("single positional indexer is out-of-bounds", "IndexError", second="KeyError")
        return column(frame, names[wanted])
    if isinstance(wanted, slice):
        return select(frame, names[wanted])
    positions = (
        [constant(item) for item in key.items] if isinstance(key, Items) and key.items is not None else [MISSING]
    )
    if all(isinstance(p, int) and -len(names) <= p < len(names) for p in positions):
        return select(frame, [names[p] for p in positions])
    return unlisted(frame)


def _columns_between(frame: Frame, bounds: slice) -> Frame:
    names = list(frame.columns)
    if not frame.complete:
        return unlisted(frame)
    for bound in (bounds.start, bounds.stop):
        if bound is not None and bound not in names:
            raise data_fault(repr(bound), "KeyError")
    start = names.index(bounds.start) if bounds.start is not None else 0
    stop = names.index(bounds.stop) + 1 if bounds.stop is not None else len(names)
    return select(frame, names[start:stop])


def _take_rows(interpreter: Evaluator, taken: Value, key: Value, accessor: str) -> Value:
    if isinstance(taken, Series):
        return _series_rows(interpreter, taken, key, accessor)
    if not isinstance(taken, Frame):
        return UNKNOWN
    wanted = constant(key)
    if isinstance(wanted, slice):
        if wanted == slice(None):
            return taken
        if accessor == "loc":
            return part_of(taken, None)
        return taken.with_columns(dict(taken.columns), **sliced_rows(taken, wanted))
    if isinstance(wanted, int):
        if taken.rows is not None and accessor == "iloc" and not -taken.rows <= wanted < taken.rows:
            raise runtime_fault("single positional indexer is out-of-bounds", "IndexError")
        return Series(taken.cells(), taken.width, None)
    if isinstance(wanted, str) and accessor == "loc" and taken.index is None and taken.origin is not None:
        raise data_fault(repr(wanted), "KeyError", second="TypeError")
    return part_of(taken, interpreter.length(key) if isinstance(key, Items) else None)


def _series_rows(interpreter: Evaluator, series: Series, key: Value, accessor: str) -> Value:
    wanted = constant(key)
    if isinstance(wanted, slice) and accessor == "iloc":
        return dataclasses.replace(series, **sliced_rows(series, wanted))
    if isinstance(wanted, slice) and wanted == slice(None):
        return series
    if isinstance(wanted, int):
        if series.rows is not None and accessor == "iloc" and not -series.rows <= wanted < series.rows:
            raise runtime_fault("single positional indexer is out-of-bounds", "IndexError")
        return Scalar(series.cells)
    rows = interpreter.length(key) if isinstance(key, Items) else None
    return dataclasses.replace(series, rows=rows, origin=None, cells=few_rows(series.cells, rows), parts=())


def cells_to_store(interpreter: Evaluator, rows: int | None, item: Value) -> Cells:
    """Cells of a column that `item` is written to.

    Raises:
        Fault: ValueError if its length cannot fit.
    """
    if isinstance(item, Series):
        return dataclasses.replace(item.cells, missing=item.cells.missing if item.rows == rows else None)
    if isinstance(item, Array) and item.shape is not None:
        if len(item.shape) == 2 and item.shape[1] != 1:
            if item.shape[1] is None or item.sparse:
                return item.cells
            shape = tuple("?" if n is None else n for n in item.shape)
            if item.shape[0] != rows and None not in (item.shape[0], rows):
                raise wrong_length(item.shape[0], rows)
            message = f"Expected a 1D array, got an array with shape ({shape[0]}, {shape[1]})"
            raise shape_fault(message, second="TypeError")
        if len(item.shape) > 2:
            raise shape_fault("Expected a 1D array, got an array with more dimensions")
    if isinstance(item, Array | Items) and not (isinstance(item, Array) and item.shape == ()):
        size = interpreter.length(item)
        if isinstance(item, Items) and item.kind in ("set", "generator", "index"):
            return Cells()
        if size is not None and rows is not None and size != rows:
            raise wrong_length(size, rows)
        if isinstance(item, Array):
            return item.cells
        return scalar_cells(interpreter.element(item)) or Cells()
    if isinstance(item, Frame):
        if item.width is not None and item.width != 1:
            message = "Cannot set a DataFrame with multiple columns to the single column"
            raise shape_fault(message)
        return item.cells()
    return scalar_cells(item) or Cells()


def wrong_length(size: int | None, rows: int | None) -> Fault:
    """The ValueError of a column of another length."""
    message = f"Length of values ({size}) does not match length of index ({rows})"
    return shape_fault(message, second="KeyError")


@MODELS.store(Frame)
def _frame_store(interpreter: Evaluator, frame: Frame, key: Value, item: Value) -> None:
    name = constant(key)
    if isinstance(name, str | int) or (name is not MISSING and isinstance(name, tuple)):
        cells = cells_to_store(interpreter, frame.rows, item)
        if frame.rows is None and not frame.columns and frame.complete:
            frame.rows = interpreter.length(item)
            frame.origin = getattr(item, "origin", None)
        frame.columns[name] = cells  # type: ignore[index]
        frame.absent -= {name}
    elif isinstance(key, Items) and key.items is not None:
        _store_several(interpreter, frame, key.items, item)
    elif isinstance(key, Items | Scalar):
        frame.columns = frame.blurred()
        frame.complete = frame.complete and isinstance(key, Items)
    else:
        frame.columns = frame.blurred()


def _store_several(interpreter: Evaluator, frame: Frame, keys: list[Value], item: Value) -> None:
    names = [constant(key) for key in keys]
    if MISSING in names:
        frame.complete = False
        return
    width: int | None = None
    if isinstance(item, Frame):
        width = item.width
    elif isinstance(item, Array) and item.shape is not None and len(item.shape) == 2:
        width = item.shape[1]
    if width is not None and width != len(names):
        raise shape_fault("Columns must be same length as key", second="KeyError")
    if isinstance(item, Array) and item.rows is not None and frame.rows is not None and item.rows != frame.rows:
        raise wrong_length(item.rows, frame.rows)
    parts = list(item.columns.values()) if isinstance(item, Frame) and item.complete else None
    whole = item.cells if isinstance(item, Array) else item.cells() if isinstance(item, Frame) else Cells()
    for position, name in enumerate(names):
        frame.columns[name] = parts[position] if parts is not None else whole
        frame.absent -= {name}


@MODELS.store(Bound)
def _accessor_store(interpreter: Evaluator, accessor: Bound, key: Value, item: Value) -> None:
    """``df.loc[rows, column] = item``."""
    receiver = accessor.receiver
    if not isinstance(receiver, Frame) or accessor.name not in ("loc", "iloc", "at", "iat"):
        return
    pair = key.items if isinstance(key, Items) and key.items is not None and len(key.items) == 2 else None
    rows, columns = (None, None) if pair is None else pair
    name = constant(columns)
    if isinstance(name, str) and accessor.name in ("loc", "at"):
        stored = scalar_cells(item) or (item.cells if isinstance(item, Series | Array) else Cells())
        whole = constant(rows) == slice(None)
        old = receiver.columns.get(name)
        cells = stored if whole or old is None else merge_cells([old, stored])
        loose = None if old is None and not whole else cells.missing
        receiver.columns[name] = dataclasses.replace(cells, missing=None if old is not None and old.missing else loose)
        receiver.absent -= {name}
    else:
        receiver.columns = receiver.blurred()


@MODELS.store(Series)
def _series_store(interpreter: Evaluator, series: Series, key: Value, item: Value) -> None:
    cells = scalar_cells(item) or Cells()
    merged = merge_cells([series.cells, cells])
    series.cells = dataclasses.replace(merged, missing=None if series.cells.missing else merged.missing)


@MODELS.subscript(GroupBy)
def _group_subscript(interpreter: Evaluator, group: GroupBy, key: Value) -> Value:
    name = constant(key)
    if isinstance(name, str):
        if group.frame.lacks(name):
            raise data_fault(f"'Column not found: {name}'", "KeyError")
        return GroupBy(group.frame, group.keys, (name,), single=True)
    if isinstance(key, Items) and key.items is not None:
        names = [constant(item) for item in key.items]
        lost = [n for n in names if n is not MISSING and group.frame.lacks(n)]
        if lost:
            raise data_fault(f'"Columns not found: {", ".join(map(repr, lost))}"', "KeyError")
        return GroupBy(group.frame, group.keys, tuple(n for n in names if isinstance(n, str)))
    return UNKNOWN


@MODELS.attribute(GroupBy)
def _group_attribute(interpreter: Evaluator, group: GroupBy, name: str) -> Value:
    if pandas_has("DataFrame", name) or name in ("ngroup", "cumcount", "get_group", "groups", "ngroups", "nth"):
        return Bound(group, name)
    if name in group.frame.columns:
        return GroupBy(group.frame, group.keys, (name,), single=True)
    return UNKNOWN
