"""Functions and constructors of pandas: DataFrame, Series, concat, get_dummies and the like."""

from __future__ import annotations

import dataclasses
from typing import Any

from wmrl_gym.scriptcheck.cells import Cells, merge_cells
from wmrl_gym.scriptcheck.data.frames import lost_columns
from wmrl_gym.scriptcheck.data.merging import merge_frames
from wmrl_gym.scriptcheck.data.pandas_binding import names_of
from wmrl_gym.scriptcheck.faults import runtime_fault, shape_fault
from wmrl_gym.scriptcheck.models import Call, Evaluator, Models
from wmrl_gym.scriptcheck.scope import scalar_cells
from wmrl_gym.scriptcheck.values.data import Array, Frame, Series
from wmrl_gym.scriptcheck.values.objects import Dict, Items, constant, constant_list
from wmrl_gym.scriptcheck.values.scalars import UNKNOWN, Const, Scalar, Unknown, Value

MODELS = Models()


def _bind(call: Call, name: str) -> None:
    import pandas as pd

    call.bind(getattr(pd, name))


@MODELS.function("pandas.DataFrame")
def _data_frame(call: Call) -> Value:
    _bind(call, "DataFrame")
    data, columns = call.get("data"), constant_list(call.get("columns"))
    if columns is None and isinstance(call.get("columns"), Items) is False and "columns" in call.bound:
        columns = names_of(call.get("columns"))
    if isinstance(data, Dict):
        return _from_dictionary(call, data, columns)
    if isinstance(data, Frame):
        new = data.copy()
        if columns is not None:
            new = data.with_columns(
                {n: data.columns.get(n, Cells("float", missing=True)) for n in columns}, complete=True
            )
        return new
    if isinstance(data, Array):
        return _from_array(call, data, columns)
    if isinstance(data, Series):
        name = columns[0] if columns else data.name or "0"
        return Frame({name: data.cells}, rows=data.rows, origin=data.origin)
    if data is None:
        return Frame(dict.fromkeys(columns or [], Cells()), complete=columns is not None or "columns" not in call.bound)
    if isinstance(data, Items):
        return _from_list(call, data, columns)
    return Frame(dict.fromkeys(columns or [], Cells()), complete=columns is not None)


def _from_dictionary(call: Call, data: Dict, wanted: list[Any] | None) -> Value:
    if data.items is None:
        return Frame({}, complete=False)
    sizes: dict[Any, int | None] = {}
    columns: dict[Any, Cells] = {}
    indexed = False
    origins: set[str | None] = set()
    for name, item in data.items.items():
        columns[name] = _column_of(call.interpreter, item)
        if isinstance(item, Series | Array | Items | Frame) and not (isinstance(item, Array) and item.shape == ()):
            sizes[name] = call.interpreter.length(item)
            indexed = indexed or isinstance(item, Series)
            if isinstance(item, Series | Array) and item.origin is not None:
                origins.add(item.origin)
    scalars_only = data.items and not sizes and not any(isinstance(v, Unknown) for v in data.items.values())
    if scalars_only and "index" not in call.bound and not call.open_ended:
        raise shape_fault("If using all scalar values, you must pass an index", second="TypeError")
    rows = _common_length(data, sizes, indexed)
    if wanted is not None:
        columns = {name: columns.get(name, Cells("float", missing=True)) for name in wanted}
    return Frame(columns, rows=rows, origin=origins.pop() if len(origins) == 1 else None)


def _column_of(interpreter: Evaluator, item: Value) -> Cells:
    if isinstance(item, Array):
        if item.shape is not None and len(item.shape) > 1 and item.sparse is False:
            raise shape_fault("Per-column arrays must each be 1-dimensional", second="TypeError")
        return item.cells
    if isinstance(item, Frame):
        raise shape_fault("If using all scalar values, you must pass an index", second="TypeError", confidence=0.8)
    if isinstance(item, Series):
        return item.cells
    if isinstance(item, Items):
        return scalar_cells(interpreter.element(item)) or Cells()
    return scalar_cells(item) or Cells()


def _common_length(data: Dict, sizes: dict[Any, int | None], indexed: bool) -> int | None:
    """The number of rows.

    Raises:
        Fault: ValueError if arrays and lists of different lengths meet, or one does not fit a series' index.
    """
    assert data.items is not None
    series = [sizes[k] for k in sizes if isinstance(data.items[k], Series)]
    plain = [sizes[k] for k in sizes if not isinstance(data.items[k], Series)]
    known = {n for n in plain if n is not None}
    if len(known) > 1:
        raise shape_fault("All arrays must be of the same length", second="TypeError")
    if indexed and known:
        length = known.pop()
        agreed = {n for n in series if n is not None}
        if len(agreed) == 1 and length not in agreed and None not in series:
            index = agreed.pop()
            raise shape_fault(f"array length {length} does not match index length {index}", second="KeyError")
        return length
    if known:
        return known.pop() if not series else None
    if len(set(series)) == 1:
        return series[0]
    longest = [n for n in series if n is not None]
    return max(longest) if longest and None not in series else None


def _from_array(call: Call, data: Array, columns: list[Any] | None) -> Value:
    if data.sparse:
        raise shape_fault("DataFrame constructor not properly called!", second="TypeError", confidence=0.5)
    if data.shape is None:
        return Frame(dict.fromkeys(columns or [], data.cells), complete=columns is not None)
    if len(data.shape) > 2:
        raise shape_fault(f"Must pass 2-d input. shape={data.shape}")
    width = 1 if len(data.shape) == 1 else data.shape[1]
    if columns is not None and width is not None and width != len(columns):
        message = f"Shape of passed values is ({data.rows}, {width}), indices imply ({data.rows}, {len(columns)})"
        raise shape_fault(message, second="AssertionError")
    names: list[Any] | None = columns
    if names is None and width is not None and "columns" not in call.bound and width <= 5000:
        names = list(range(width))
    known = names is not None
    return Frame(
        dict.fromkeys(names or [], data.cells), complete=known, rows=data.rows, origin=data.origin, rest=data.cells
    )


def _from_list(call: Call, data: Items, columns: list[Any] | None) -> Value:
    first = data.representative()
    if isinstance(first, Dict) and first.items is not None:
        cells: dict[Any, Cells] = {name: scalar_cells(value) or Cells() for name, value in first.items.items()}
        return Frame(cells, complete=columns is None, rows=data.size)
    if isinstance(first, Items) and first.items is not None and columns is not None:
        if len(first.items) != len(columns):
            message = f"{len(columns)} columns passed, passed data had {len(first.items)} columns"
            raise shape_fault(message)
        cells = {name: scalar_cells(value) or Cells() for name, value in zip(columns, first.items, strict=True)}
        return Frame(cells, rows=data.size)
    if scalar_cells(first) is not None and columns is not None and len(columns) == 1:
        return Frame({columns[0]: scalar_cells(first) or Cells()}, rows=data.size)
    return Frame(dict.fromkeys(columns or [], Cells()), complete=columns is not None, rows=data.size)


@MODELS.function("pandas.Series")
def _series(call: Call) -> Value:
    _bind(call, "Series")
    data, name = call.get("data"), call.constant("name", None)
    label = name if isinstance(name, str) else None
    made = _series_of(call, data, label)
    given = call.get("index")
    if isinstance(given, Series) and given.name is not None:
        made.index = (given.name, given.cells)
    elif isinstance(given, Items | Array):
        made.index = None
    return made


def _series_of(call: Call, data: Value | None, label: str | None) -> Series:
    if isinstance(data, Array):
        if data.shape is not None and len(data.shape) > 1:
            raise shape_fault(f"Data must be 1-dimensional, got ndarray of shape {data.shape} instead")
        return Series(data.cells, data.rows, label, data.origin)
    if isinstance(data, Series):
        return dataclasses.replace(data, name=label or data.name)
    if isinstance(data, Items):
        return Series(scalar_cells(call.interpreter.element(data)) or Cells(), data.size, label)
    rows = call.interpreter.length(call.bound["index"]) if "index" in call.bound else None
    return Series(scalar_cells(data) or Cells() if data is not None else Cells(), rows, label)


@MODELS.function("pandas.concat")
def _concat(call: Call) -> Value:
    _bind(call, "concat")
    parts = call.interpreter.elements(call.get("objs") or UNKNOWN)
    if isinstance(call.get("objs"), Frame | Series):
        kind = "DataFrame" if isinstance(call.get("objs"), Frame) else "Series"
        message = f'first argument must be an iterable of pandas objects, you passed an object of type "{kind}"'
        raise runtime_fault(message, "TypeError")
    if parts is None or not all(isinstance(part, Frame | Series) for part in parts):
        for part in parts or []:
            if isinstance(part, Array | Items):
                kind = "numpy.ndarray" if isinstance(part, Array) else f"{part.kind}"
                message = (
                    f"cannot concatenate object of type '<class '{kind}'>'; only Series and DataFrame objs are valid"
                )
                raise runtime_fault(message, "TypeError")
        return Frame({}, complete=False)
    if not parts:
        raise runtime_fault("No objects to concatenate", "ValueError")
    if call.constant("axis", 0) in (1, "columns"):
        return _side_by_side(parts)
    if all(isinstance(part, Series) for part in parts):
        return _stack_series(parts)  # type: ignore[arg-type]
    return _stack(call, [p if isinstance(p, Frame) else Frame({"0": p.cells}, rows=p.rows) for p in parts])  # type: ignore[attr-defined]


def _side_by_side(parts: list[Value]) -> Frame:
    columns: dict[Any, Cells] = {}
    complete = True
    sizes: set[int | None] = set()
    rest: list[Cells] = []
    for position, part in enumerate(parts):
        if isinstance(part, Frame):
            columns |= part.columns
            complete = complete and part.complete
            rest += [] if part.complete else [part.rest]
            sizes.add(part.rows)
        elif isinstance(part, Series):
            columns[part.name or position] = part.cells
            sizes.add(part.rows)
    rows = sizes.pop() if len(sizes) == 1 else None
    # pandas aligns on the index: with different indices gaps appear, of which nothing is certain.
    columns = (
        {k: dataclasses.replace(c, missing=c.missing or None) for k, c in columns.items()} if rows is None else columns
    )
    origins = {getattr(part, "origin", None) for part in parts}
    dummies = tuple(d for part in parts if isinstance(part, Frame) for d in part.dummies)
    return Frame(
        columns, complete, rows, origins.pop() if len(origins) == 1 else None, dummies=dummies, rest=merge_cells(rest)
    )


def _stack_series(parts: list[Series]) -> Series:
    sizes = [part.rows for part in parts]
    rows = sum(sizes) if None not in sizes else None  # type: ignore[arg-type]
    cells = stacked_cells([part.cells for part in parts])
    return Series(cells, rows, parts[0].name, None, parts=tuple((part.origin, part.rows) for part in parts))


def stacked_cells(parts: list[Cells]) -> Cells:
    """Cells of columns put below each other."""
    merged = merge_cells(parts)
    counts = [part.unique for part in parts]
    most = max((n for n in counts if n is not None), default=None)
    examples = next((part.examples for part in parts if part.examples), ())
    return dataclasses.replace(merged, unique=most if None not in counts else None, origin=None, examples=examples)


def _stack(call: Call, parts: list[Frame]) -> Frame:
    names = list(dict.fromkeys(name for part in parts for name in part.columns))
    if call.constant("join", "outer") == "inner":
        names = [name for name in names if all(not part.lacks(name) for part in parts)]
    columns: dict[Any, Cells] = {}
    for name in names:
        present = [part.columns[name] for part in parts if name in part.columns]
        cells = stacked_cells(present)
        if any(part.lacks(name) for part in parts):
            kind = "float" if cells.kind == "int" else cells.kind
            cells = dataclasses.replace(cells, missing=True, kind=kind)
        elif len(present) < len(parts):
            cells = dataclasses.replace(cells, missing=cells.missing or None)
        columns[name] = cells
    sizes = [part.rows for part in parts]
    rows = sum(sizes) if None not in sizes else None  # type: ignore[arg-type]
    complete = all(part.complete for part in parts)
    stacked = tuple((part.origin, part.rows) for part in parts)
    rest = merge_cells([part.rest for part in parts if not part.complete])
    absent = frozenset.intersection(*(part.absent for part in parts)) if parts else frozenset()
    return Frame(columns, complete, rows, parts=stacked, rest=rest, absent=absent)


@MODELS.function("pandas.merge")
def _merge(call: Call) -> Value:
    _bind(call, "merge")
    left, right = call.get("left"), call.get("right")
    if not isinstance(left, Frame) or not isinstance(right, Frame):
        return Frame({}, complete=False)
    on = names_of(call.get("on")) if "on" in call.bound else None
    keyed = bool({"on", "left_on", "right_on", "left_index"} & set(call.bound))
    return merge_frames(left, right, on, call.constant("how", "inner"), keyed=keyed)


@MODELS.function("pandas.get_dummies")
def _get_dummies(call: Call) -> Value:
    _bind(call, "get_dummies")
    data = call.get("data")
    if isinstance(data, Series):
        name = data.name or "0"
        data = Frame({name: data.cells}, rows=data.rows, origin=data.origin, parts=data.parts)
    if not isinstance(data, Frame):
        return Frame({}, complete=False)
    wanted = names_of(call.get("columns")) if "columns" in call.bound and call.constant("columns") is not None else None
    for name in wanted or []:
        if data.lacks(name):
            raise lost_columns(
                data, [n for n in wanted or [] if data.lacks(n)], all_lost=all(map(data.lacks, wanted or []))
            )
    spread = (
        wanted
        if wanted is not None
        else [k for k, c in data.columns.items() if c.kind in ("str", "category", "object")]
    )
    if not spread:
        return data.copy()
    kept = {k: c for k, c in data.columns.items() if k not in spread}
    dummies = tuple((str(k), _source_of(data), data.columns[k].unique if k in data.columns else None) for k in spread)
    gone = frozenset(str(k) for k in spread)
    sources = frozenset().union(*(data.columns[k].sources for k in spread if k in data.columns))
    indicator = Cells("bool", False, negative=False, fractional=False, sources=sources, tags=frozenset({"onehot"}))
    return data.with_columns(
        kept, complete=False, absent=data.absent | gone, dummies=data.dummies + dummies, rest=indicator
    )


def _source_of(frame: Frame) -> str:
    """Which rows the categories were seen in: tables that were stacked first see the same ones."""
    if frame.parts:
        return "stacked"
    return frame.origin or "?"


@MODELS.function("pandas.to_numeric")
def _to_numeric(call: Call) -> Value:
    _bind(call, "to_numeric")
    data, errors = call.get("arg"), call.constant("errors", "raise")
    if not isinstance(data, Series):
        return UNKNOWN
    if data.cells.kind == "str" and errors == "raise" and data.cells.origin is not None:
        example = data.cells.examples[0] if data.cells.examples else ""
        raise shape_fault(f"Unable to parse string '{example}' at position 0", second="TypeError")
    text = data.cells.kind in ("str", "object")
    cells = data.cells.derived(kind="float" if text else data.cells.kind, missing=None if text else data.cells.missing)
    return dataclasses.replace(data, cells=cells)


@MODELS.function("pandas.to_datetime")
def _to_datetime(call: Call) -> Value:
    _bind(call, "to_datetime")
    data = call.get("arg")
    if not isinstance(data, Series):
        return UNKNOWN
    return dataclasses.replace(data, cells=data.cells.derived(kind="datetime", missing=data.cells.missing or None))


@MODELS.function("cut", "qcut", of="pandas")
def _cut(call: Call) -> Value:
    data = call.first()
    if not isinstance(data, Series):
        return UNKNOWN
    labels = constant(call.kwargs.get("labels"), None)
    kind = "int" if labels is False else "category"
    missing = data.cells.missing or None
    return dataclasses.replace(
        data, cells=data.cells.derived(kind=kind, missing=missing, fractional=False, negative=False)
    )


@MODELS.function("pandas.factorize")
def _factorize(call: Call) -> Value:
    data = call.first()
    cells = data.cells if isinstance(data, Series | Array) else Cells()
    codes = Array(
        cells.derived(kind="int", missing=False, fractional=False).tagged("ordinal"),
        (call.interpreter.length(data) if data else None,),
    )
    return Items("tuple", [codes, Items("index", None, Scalar(cells), cells.unique)])


@MODELS.function("isna", "isnull", "notna", "notnull", of="pandas")
def _isna(call: Call) -> Value:
    data = call.first()
    if isinstance(data, Series):
        return Series(Cells("bool", missing=False), data.rows, data.name, data.origin, mask=True)
    if isinstance(data, Const):
        return Const(data.value is None or data.value != data.value)
    return UNKNOWN


@MODELS.function("pandas.unique")
def _unique(call: Call) -> Value:
    data = call.first()
    return Array(data.cells, (data.cells.unique,)) if isinstance(data, Series) else UNKNOWN


@MODELS.function("CategoricalDtype", "Categorical", "Index", "Timestamp", "set_option", of="pandas")
def _other(call: Call) -> Value:
    return UNKNOWN
