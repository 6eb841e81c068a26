"""Methods of data frames that compute: statistics, masks, functions applied to columns and rows."""

from __future__ import annotations

import dataclasses
import functools

from wmrl_gym.scriptcheck.cells import NUMERIC, Cells, merge_cells
from wmrl_gym.scriptcheck.data.frames import column, part_of
from wmrl_gym.scriptcheck.data.pandas_binding import bind_pandas, in_place
from wmrl_gym.scriptcheck.data.series_methods import require_length
from wmrl_gym.scriptcheck.faults import shape_fault
from wmrl_gym.scriptcheck.language.builtin_functions import apply
from wmrl_gym.scriptcheck.models import Call, Models
from wmrl_gym.scriptcheck.scope import scalar_cells
from wmrl_gym.scriptcheck.values.data import Frame, Series
from wmrl_gym.scriptcheck.values.objects import Dict, Function, Items, constant
from wmrl_gym.scriptcheck.values.scalars import NONE, UNKNOWN, Const, Scalar, Value

MODELS = Models()
frame_method = functools.partial(MODELS.method, Frame, bind=bind_pandas)


@frame_method("isnull", "isna", "notnull", "notna", "duplicated", "isin", "eq", "ne", "gt", "lt", "ge", "le")
def _mask(call: Call, frame: Frame) -> Value:
    if call.callee == "duplicated":
        return Series(Cells("bool", missing=False), frame.rows, None, mask=True)
    return frame.with_columns(dict.fromkeys(frame.columns, Cells("bool", missing=False)), origin=frame.origin)


@frame_method("mean", "median", "std", "var", "skew", "kurt", "sem")
def _statistic(call: Call, frame: Frame) -> Value:
    name = call.callee
    by_row = call.constant("axis", 0) in (1, "columns")
    numeric_only = call.constant("numeric_only", False) is True
    text = [k for k, c in frame.columns.items() if c.kind == "str"]
    if text and not numeric_only and not by_row:
        message = f"Cannot perform reduction '{name}' with string dtype"
        raise shape_fault(message, "TypeError", second="ValueError", reason=f"columns {text[:3]} hold text")
    merged = merge_cells([c for c in frame.columns.values() if c.kind in NUMERIC])
    if by_row:
        return Series(merged.derived(kind="float", unique=None), frame.rows, None, frame.origin)
    covered = tuple((k, None) for k, c in frame.columns.items() if c.kind in NUMERIC)
    cells = Cells("float", missing=False, tags=frozenset({"statistic"}), sources=merged.sources)
    return Series(cells, len(covered), None, parts=covered)


@MODELS.method(
    Frame, "sum", "min", "max", "mode", "quantile", "nunique", "count", "any", "all", "describe", "corr", "agg"
)
def _summary(call: Call, frame: Frame) -> Value:
    name = call.callee
    numeric_only = constant(call.kwargs.get("numeric_only"), False) is True
    text = next((c for c in frame.columns.values() if c.kind == "str"), None)
    if name == "corr":
        if text is not None and not numeric_only:
            example = text.examples[0] if text.examples else ""
            raise shape_fault(f"could not convert string to float: '{example}'", second="TypeError")
        return frame.with_columns(dict.fromkeys(frame.columns, Cells("float")), rows=frame.width)
    if name == "mode":
        columns = {k: dataclasses.replace(c, missing=None, origin=None) for k, c in frame.columns.items()}
        return frame.with_columns(columns, rows=None, origin=None)
    if constant(call.kwargs.get("axis"), 0) in (1, "columns"):
        return Series(frame.cells().derived(unique=None), frame.rows, None, frame.origin)
    if name in ("nunique", "count", "any", "all", "sum", "min", "max"):
        return Series(Cells("unknown", missing=None), frame.width, None)
    return UNKNOWN


@MODELS.method(Frame, "apply", "map", "transform", "pipe", "applymap")
def _apply(call: Call, frame: Frame) -> Value:
    name = call.callee
    function = call.first() or call.kwargs.get("func")
    if function is None:
        return UNKNOWN
    if name == "pipe":
        return apply(call, function, frame)
    if name == "map":
        with call.interpreter.repeated(frame.rows):
            columns = {}
            for k, c in frame.columns.items():
                require_length(c, function)
                columns[k] = c.computed(scalar_cells(apply(call, function, Scalar(c))))
            return frame.with_columns(columns)
    axis = constant(call.args[1] if len(call.args) > 1 else call.kwargs.get("axis"), 0)
    if axis in (1, "columns"):
        row = Dict(None) if not isinstance(function, Function) else _row(frame)
        with call.interpreter.repeated(frame.rows):
            answer = apply(call, function, row)
        return Series(frame.cells().computed(scalar_cells(answer)), frame.rows, None, frame.origin)
    return _apply_columns(call, frame, function)


def _row(frame: Frame) -> Value:
    """One row, as a mapping from column names to scalars."""
    if not frame.complete:
        return UNKNOWN
    return Dict({name: Scalar(cells) for name, cells in frame.columns.items()})


def _apply_columns(call: Call, frame: Frame, function: Value) -> Value:
    columns: dict[str, Cells] = {}
    for name in frame.columns:
        result = apply(call, function, column(frame, name))
        if not isinstance(result, Series):
            return UNKNOWN
        columns[name] = result.cells
    return frame.with_columns(columns)


@MODELS.method(Frame, "iterrows", "itertuples", "items")
def _iterrows(call: Call, frame: Frame) -> Value:
    name = call.callee
    if name == "items":
        if not frame.complete:
            return Items("generator", None)
        return Items("generator", [Items("tuple", [Const(k), column(frame, k)]) for k in frame.columns])
    element = Items("tuple", [UNKNOWN, _row(frame)]) if name == "iterrows" else UNKNOWN
    return Items("generator", None, element, frame.rows)


@MODELS.method(Frame, "query", "eval")
def _query(call: Call, frame: Frame) -> Value:
    return part_of(frame, None)


@frame_method("clip", "round", "abs", "add", "sub", "mul", "div", "replace", "where", "mask", "rank", "shift", "diff")
def _elementwise(call: Call, frame: Frame) -> Value:
    name = call.callee
    text = [k for k, c in frame.columns.items() if c.kind == "str"]
    if text and name in ("clip", "abs", "diff"):
        raise shape_fault(f"unsupported operation '{name}' for dtype 'str'", "TypeError", second="ValueError")
    if name in ("clip", "round", "abs"):
        columns = {k: c.derived(negative=None) for k, c in frame.columns.items()}
    else:
        columns = {
            k: c.derived(kind=c.kind if name == "rank" else "unknown", missing=None, negative=None)
            for k, c in frame.columns.items()
        }
    return in_place(call, frame, frame.with_columns(columns))


@MODELS.method(Frame, "to_dict", "to_string", "info", "memory_usage", "to_json", "to_markdown", "equals", "filter")
def _report(call: Call, frame: Frame) -> Value:
    return NONE if call.callee == "info" else UNKNOWN
