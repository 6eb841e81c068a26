"""Filling and dropping what is missing in data frames."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

from wmrl_gym.scriptcheck.cells import NUMERIC, Cells
from wmrl_gym.scriptcheck.data.pandas_binding import bind_pandas, in_place, names_of
from wmrl_gym.scriptcheck.faults import api_fault, data_fault, shape_fault
from wmrl_gym.scriptcheck.models import Call, Models
from wmrl_gym.scriptcheck.scope import scalar_cells
from wmrl_gym.scriptcheck.values.data import Frame, Series
from wmrl_gym.scriptcheck.values.objects import Dict
from wmrl_gym.scriptcheck.values.scalars import MISSING, NONE, Const, Scalar, Value

MODELS = Models()
frame_method = functools.partial(MODELS.method, Frame, bind=bind_pandas)


@frame_method("fillna")
def _fillna(call: Call, frame: Frame) -> Value:
    value = call.get("value")
    if value is None or value == NONE:
        raise api_fault("Must specify a fill 'value'.", "ValueError")
    fillers = _fillers(frame, value)
    columns = {name: fill_cells(cells, fillers(name)) for name, cells in frame.columns.items()}
    rest = frame.rest
    if not frame.complete and isinstance(value, Const | Scalar):
        rest = dataclasses.replace(rest, missing=False)
    elif not frame.complete:
        rest = dataclasses.replace(rest, missing=False if rest.missing is False else None)
    return in_place(call, frame, frame.with_columns(columns, rest=rest))


def _fillers(frame: Frame, value: Value) -> Any:
    """A function that tells what a column's gaps are filled with: None for not at all, `MISSING` for unknown."""
    if isinstance(value, Dict):
        known = value.items
        return (lambda name: MISSING) if known is None else (lambda name: filler_cells(known.get(name)))
    if isinstance(value, Series):
        statistic = value.cells.tags & {"statistic"}
        covered = value.parts
        if statistic:
            return lambda name: Cells("float", missing=False) if name in {p[0] for p in covered} else None
        return lambda name: MISSING
    if isinstance(value, Frame):
        return lambda name: MISSING
    return lambda name: filler_cells(value)


def filler_cells(value: Value | None) -> Any:
    """Cells of a fill value: None if there is none, `MISSING` if it is unknown."""
    if value is None:
        return None
    return scalar_cells(value) or MISSING


def fill_cells(cells: Cells, filler: Any) -> Cells:
    """Cells whose gaps are filled.

    Args:
        cells: the column.
        filler: cells of the value, None if the column is not filled, `MISSING` if nobody knows.
    """
    if filler is None or cells.missing is False:
        return cells
    if filler is MISSING:
        return dataclasses.replace(cells, missing=None, origin=None)
    kind = cells.kind
    if (filler.kind == "str" and kind in NUMERIC) or (filler.kind in NUMERIC and kind in ("str",)):
        kind = "object"
    gone = False if filler.missing is False else None
    negative = True if filler.negative else cells.negative
    return cells.derived(kind=kind, missing=gone, negative=negative, examples=cells.examples).tagged("imputed")


@frame_method("ffill", "bfill", "interpolate")
def _fill_along(call: Call, frame: Frame) -> Value:
    name = call.callee
    if name == "interpolate" and any(c.kind == "str" for c in frame.columns.values()):
        raise shape_fault("Cannot interpolate with str dtype", "TypeError")
    columns = {k: dataclasses.replace(c, missing=None if c.missing else c.missing) for k, c in frame.columns.items()}
    return in_place(call, frame, frame.with_columns(columns))


@frame_method("dropna")
def _dropna(call: Call, frame: Frame) -> Value:
    subset = names_of(call.get("subset")) if "subset" in call.bound else None
    lost = [name for name in subset or [] if frame.lacks(name)]
    if lost:
        raise data_fault(f"{lost}", "KeyError")
    if call.constant("axis", 0) in (1, "columns"):
        kept = {k: c for k, c in frame.columns.items() if c.missing is False}
        sure = all(c.missing is not None for c in frame.columns.values()) and "thresh" not in call.bound
        if "thresh" in call.bound or "how" in call.bound:
            return in_place(call, frame, frame.with_columns(dict(frame.columns), complete=False))
        return in_place(call, frame, frame.with_columns(kept, complete=sure and frame.complete))
    involved = subset if subset is not None else list(frame.columns)
    whole = all(frame.columns[name].missing is False for name in involved if name in frame.columns) and frame.complete
    rows = frame.rows if whole else None
    partial = {"thresh", "how"} & set(call.bound)
    columns = {
        k: dataclasses.replace(c, missing=None if partial else False) if k in involved else c
        for k, c in frame.columns.items()
    }
    rest = dataclasses.replace(frame.rest, missing=False) if subset is None and not partial else frame.rest
    origin = frame.origin if whole else None
    return in_place(call, frame, frame.with_columns(columns, rows=rows, origin=origin, parts=(), rest=rest))
