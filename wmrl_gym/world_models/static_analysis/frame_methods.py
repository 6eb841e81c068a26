"""Methods of data frames, as far as they decide which columns there are and what is in them."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from typing import Any

from wmrl_gym.world_models.static_analysis.builtin_functions import apply
from wmrl_gym.world_models.static_analysis.calls import METHODS, Call, MethodModel
from wmrl_gym.world_models.static_analysis.faults import api_fault, data_fault, runtime_fault, shape_fault
from wmrl_gym.world_models.static_analysis.files import absolute, path_text
from wmrl_gym.world_models.static_analysis.frames import (
    cells_to_store,
    column,
    columns_index,
    missing_column,
    part_of,
    select,
    to_array,
)
from wmrl_gym.world_models.static_analysis.names import WORKING_DIRECTORY
from wmrl_gym.world_models.static_analysis.scope import Write, scalar_cells
from wmrl_gym.world_models.static_analysis.values import (
    MISSING,
    NONE,
    NUMERIC,
    TEXTUAL,
    UNKNOWN,
    Cells,
    Const,
    Dict,
    Frame,
    Function,
    GroupBy,
    Items,
    Real,
    Scalar,
    Series,
    Value,
    constant,
    constant_list,
    merge_cells,
)


def frame_method(*names: str, checked: bool = True) -> Any:
    """Register a model of DataFrame methods; the call's arguments are bound to pandas' own signature."""

    def register(model: MethodModel) -> MethodModel:
        for name in names:

            def bound(call: Call, frame: Any, name: str = name) -> Value:
                if checked:
                    _bind(call, "DataFrame", name)
                return model(call, frame)

            METHODS[Frame, name] = bound
        return model

    return register


@functools.lru_cache(maxsize=2048)
def _method(class_name: str, name: str) -> Any:
    import pandas as pd

    return inspect.getattr_static(getattr(pd, class_name), name)


def _bind(call: Call, class_name: str, name: str) -> None:
    target = _method(class_name, name)
    if inspect.isfunction(target):
        call.bind(target, method=True)


def in_place(call: Call, frame: Frame, new: Frame) -> Value:
    """Hand back the new frame, or turn the old one into it where ``inplace=True``."""
    if call.constant("inplace", False) is not True:
        return new
    for field in dataclasses.fields(Frame):
        setattr(frame, field.name, getattr(new, field.name))
    return NONE


def names_of(value: Value | None) -> list[Any] | None:
    """One label or several, as a list; None if unknown."""
    single = constant(value)
    if single is not MISSING and not isinstance(single, tuple):
        return [single]
    return constant_list(value)


@frame_method("drop")
def _drop(call: Call, frame: Frame) -> Value:
    axis = call.constant("axis", 0)
    target = call.get("columns")
    rows_only = target is None and axis not in (1, "columns")
    if target is None:
        target = call.get("labels")
    names = names_of(target)
    if target is None and call.get("index") is None and not call.open_ended:
        message = "Need to specify at least one of 'labels', 'index' or 'columns'"
        raise api_fault(message, "ValueError")
    if rows_only:
        text = [name for name in names or [] if isinstance(name, str)]
        if text and call.constant("errors", "raise") == "raise" and frame.index is None:
            raise data_fault(f'"{names} not found in axis"', "KeyError", reason="drop without axis=1 looks for rows")
        return in_place(call, frame, part_of(frame, None))
    if names is None:
        if isinstance(target, Items) and target.items is not None:
            kept = {k: c for k, c in frame.columns.items() if k not in [constant(i) for i in target.items]}
            return in_place(call, frame, frame.with_columns(kept, complete=False))
        return in_place(call, frame, frame.with_columns({}, complete=False, rest=Cells()))
    lost = [name for name in dict.fromkeys(names) if frame.lacks(name)]
    if lost and call.constant("errors", "raise") == "raise":
        reason = f"drop of columns {lost} that are not there"
        raise data_fault(f'"{lost} not found in axis"', "KeyError", second="ValueError", reason=reason)
    kept = {k: c for k, c in frame.columns.items() if k not in names}
    absent = frame.absent | {n for n in names if isinstance(n, str)}
    return in_place(call, frame, frame.with_columns(kept, absent=absent))


@frame_method("copy", "infer_objects", "convert_dtypes")
def _copy(call: Call, frame: Frame) -> Value:
    return frame.copy()


@frame_method("head", "tail", "sample", "nlargest", "nsmallest")
def _few(call: Call, frame: Frame) -> Value:
    share = call.constant("frac", None)
    wanted = call.constant("n", None if "frac" in call.bound else 5)
    if isinstance(share, int | float) and frame.rows is not None:
        rows: int | None = round(frame.rows * share)
    elif isinstance(wanted, int) and frame.rows is not None:
        if wanted > frame.rows and call.callee == "sample":
            if call.constant("replace", False) is False:
                raise runtime_fault("Cannot take a larger sample than population when 'replace=False'", "ValueError")
        rows = min(wanted, frame.rows) if wanted >= 0 else max(0, frame.rows + wanted)
    else:
        rows = None
    return part_of(frame, rows)


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
        return (lambda name: MISSING) if known is None else (lambda name: _filler(known.get(name)))
    if isinstance(value, Series):
        statistic = value.cells.tags & {"statistic"}
        covered = value.parts
        if statistic:
            return lambda name: Cells("float", missing=False) if name in {p[0] for p in covered} else None
        return lambda name: MISSING
    if isinstance(value, Frame):
        return lambda name: MISSING
    return lambda name: _filler(value)


def _filler(value: Value | None) -> Any:
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


@frame_method(
    "sum", "min", "max", "mode", "quantile", "nunique", "count", "any", "all", "describe", "corr", "agg", checked=False
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


@frame_method("astype")
def _astype(call: Call, frame: Frame) -> Value:
    wanted = call.get("dtype")
    if isinstance(wanted, Dict):
        if wanted.items is None:
            return frame.with_columns({k: Cells(sources=c.sources) for k, c in frame.columns.items()})
        lost = [name for name in wanted.items if frame.lacks(name)]
        if lost:
            message = (
                '"Only a column name can be used for the key in a dtype mappings argument. '
                f"'{lost[0]}' not found in columns.\""
            )
            raise data_fault(message, "KeyError")
        kinds = {name: dtype_kind(value) for name, value in wanted.items.items()}
        return frame.with_columns({k: cast(c, kinds[k]) if k in kinds else c for k, c in frame.columns.items()})
    kind = dtype_kind(wanted)
    columns = {name: cast(cells, kind) for name, cells in frame.columns.items()}
    rest = dataclasses.replace(frame.rest, kind=kind or "unknown")
    return frame.with_columns(columns, rest=rest)


def dtype_kind(value: Value | None) -> str | None:
    """The kind of cells that a dtype argument asks for."""
    name = value.obj if isinstance(value, Real) else constant(value)
    text = name if isinstance(name, str) else getattr(name, "__name__", getattr(name, "name", ""))
    text = str(text).lower()
    for prefix, kind in (("int", "int"), ("uint", "int"), ("float", "float"), ("bool", "bool"), ("str", "str")):
        if text.startswith(prefix):
            return kind
    known = {
        "category": "category",
        "categoricaldtype": "category",
        "object": "object",
        "object_": "object",
        "double": "float",
    }
    return "datetime" if text.startswith("datetime") else known.get(text)


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
            "Cannot convert non-finite values (NA or inf) to integer. Replace or remove non-finite values or cast to an "
            "integer type that supports these values (e.g. 'Int64')"
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


@frame_method("assign")
def _assign(call: Call, frame: Frame) -> Value:
    new = frame.copy()
    for name, value in call.kwargs.items():
        item = apply(call, value, new) if isinstance(value, Function) else value
        new.columns[name] = cells_to_store(call.interpreter, frame.rows, item)
    if call.open_ended:
        new.complete = False
    return new


@frame_method("rename")
def _rename(call: Call, frame: Frame) -> Value:
    mapping = call.get("columns")
    if mapping is None and call.constant("axis", 0) in (1, "columns"):
        mapping = call.get("mapper")
    if mapping is None:
        return in_place(call, frame, frame.copy())
    if not isinstance(mapping, Dict) or mapping.items is None:
        return in_place(call, frame, frame.with_columns({}, complete=False))
    if call.constant("errors", "ignore") == "raise":
        lost = [name for name in mapping.items if frame.lacks(name)]
        if lost:
            raise data_fault(f'"{lost} not found in axis"', "KeyError")
    new: dict[Any, Any] = {}
    complete = frame.complete
    for name, cells in frame.columns.items():
        renamed = constant(mapping.items[name]) if name in mapping.items else name
        complete = complete and renamed is not MISSING
        new[renamed if renamed is not MISSING else name] = cells
    return in_place(call, frame, frame.with_columns(new, complete=complete))


@frame_method("select_dtypes")
def _select_dtypes(call: Call, frame: Frame) -> Value:
    include, exclude = _dtype_names(call.get("include")), _dtype_names(call.get("exclude"))
    if include is None and exclude is None and not call.open_ended:
        message = "at least one of include or exclude must be nonempty"
        raise api_fault(message, "ValueError")
    for name in [*(include or []), *(exclude or [])]:
        if name is not None and _kinds_of_dtype(name) is None:
            raise api_fault(f"data type '{name}' not understood", "TypeError")
    if not frame.complete or None in (include or []) or None in (exclude or []) or _unsure(frame):
        kept = {k: c for k, c in frame.columns.items() if _selected(c.kind, include, exclude)}
        return frame.with_columns(kept, complete=False, absent=frame.absent, rest=_rest_kind(frame, include))
    return frame.with_columns({k: c for k, c in frame.columns.items() if _selected(c.kind, include, exclude)})


def _unsure(frame: Frame) -> bool:
    return any(c.kind == "unknown" for c in frame.columns.values())


def _rest_kind(frame: Frame, include: list[Any] | None) -> Cells:
    if include and all(name in ("number", "int64", "float64", "int", "float") for name in include):
        kind = "float" if frame.rest.kind == "unknown" else frame.rest.kind
        return dataclasses.replace(frame.rest, kind=kind)
    return frame.rest


def _dtype_names(value: Value | None) -> list[Any] | None:
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
    "datetime": frozenset({"datetime"}),
}


def _kinds_of_dtype(name: str) -> frozenset[str] | None:
    name = name.lower()
    for prefix, kind in (
        ("int", "int"),
        ("uint", "int"),
        ("float", "float"),
        ("bool", "bool"),
        ("datetime", "datetime"),
    ):
        if name.startswith(prefix):
            return frozenset({kind})
    return _DTYPE_KINDS.get(
        name, frozenset() if name in ("timedelta", "timedelta64", "datetimetz", "complex") else None
    )


def _selected(kind: str, include: list[Any] | None, exclude: list[Any] | None) -> bool:
    def among(names: list[Any]) -> bool:
        return any(kind in (_kinds_of_dtype(name) or ()) for name in names if name is not None)

    return (include is None or among(include)) and not (exclude is not None and among(exclude))


@frame_method("merge", "join")
def _merge(call: Call, frame: Frame) -> Value:
    other = call.get("right") or call.get("other")
    if not isinstance(other, Frame):
        return frame.with_columns(dict(frame.columns), complete=False, rows=None)
    on = names_of(call.get("on")) if "on" in call.bound else None
    return merge_frames(
        frame, other, on, call.constant("how", "inner"), keyed="on" in call.bound or "left_on" in call.bound
    )


def merge_frames(left: Frame, right: Frame, on: list[Any] | None, how: Any, *, keyed: bool) -> Frame:
    """Columns of a merge.

    Raises:
        Fault: KeyError if a key column is certainly missing.
    """
    if on is not None:
        for side in (left, right):
            for name in on:
                if side.lacks(name) and side.index != name:
                    raise missing_column(side, name)
    keys = on if on is not None else [name for name in left.columns if name in right.columns]
    overlap = (set(left.columns) & set(right.columns)) - set(keys)
    columns = {f"{k}_x" if k in overlap else k: c for k, c in left.columns.items()}
    columns |= {
        f"{k}_y" if k in overlap else k: dataclasses.replace(c, missing=None, origin=None)
        for k, c in right.columns.items()
        if k not in keys
    }
    known = left.complete and right.complete and (on is not None or not keyed)
    return Frame(columns, complete=known, rows=left.rows if how == "left" else None)


@frame_method("groupby")
def _groupby(call: Call, frame: Frame) -> Value:
    names = names_of(call.get("by"))
    if names is None:
        return UNKNOWN
    for name in names:
        if isinstance(name, str) and frame.lacks(name) and frame.index != name:
            raise missing_column(frame, name)
    return GroupBy(frame, tuple(str(name) for name in names))


@frame_method("sort_values", "drop_duplicates", "sort_index", "set_index", "reset_index")
def _arranged(call: Call, frame: Frame) -> Value:
    name = call.callee
    keys = names_of(call.get("by") or call.get("subset") or call.get("keys"))
    lost = [key for key in keys or [] if isinstance(key, str) and frame.lacks(key)]
    if lost and name == "set_index":
        raise data_fault(f'"None of {lost} are in the columns"', "KeyError")
    if lost and name == "drop_duplicates":
        raise data_fault(f"Index({lost}, dtype='str')", "KeyError")
    if lost:
        raise missing_column(frame, lost[0])
    if name == "set_index":
        kept = {k: c for k, c in frame.columns.items() if k not in (keys or [])}
        index = str(keys[0]) if keys else None
        return in_place(
            call, frame, frame.with_columns(kept, index=index, complete=frame.complete and keys is not None)
        )
    if name == "reset_index":
        columns = dict(frame.columns)
        if call.constant("drop", False) is not True:
            columns = {frame.index or "index": Cells("unknown"), **columns}
        return in_place(call, frame, frame.with_columns(columns, index=None))
    changes: dict[str, Any] = {"origin": None} if name == "sort_values" else {}
    if name == "drop_duplicates":
        changes = {"rows": None, "origin": None, "parts": ()}
    return in_place(call, frame, frame.with_columns(dict(frame.columns), **changes))


@frame_method("to_numpy", checked=True)
def _to_numpy(call: Call, frame: Frame) -> Value:
    return to_array(frame)


@frame_method("to_csv")
def _to_csv(call: Call, frame: Frame) -> Value:
    path = path_text(call.get("path_or_buf"))
    target = None if path is None else absolute(path)
    if target is not None and not target.startswith((WORKING_DIRECTORY + "/", "/tmp/", "/dev/")):
        folder = target.rpartition("/")[0]
        if target.startswith("/data/"):
            raise data_fault(f"[Errno 30] Read-only file system: '{path}'", "OSError", second="PermissionError")
        raise data_fault(f"Cannot save file into a non-existent directory: '{folder}'", "OSError")
    selected = constant_list(call.get("columns")) if "columns" in call.bound else None
    frame = select(frame, selected) if selected is not None else frame.copy()
    index, header = call.constant("index", True), call.constant("header", True)
    separator = call.constant("sep", ",")
    write = Write(
        target,
        getattr(call.node, "lineno", 0),
        frame,
        index=None if index is MISSING else bool(index),
        header=None if header is MISSING else bool(header),
        separator=None if separator is MISSING else separator,
    )
    if "path_or_buf" not in call.bound:
        return UNKNOWN
    call.interpreter.state.writes.append(write)
    return NONE


@frame_method("pop")
def _pop(call: Call, frame: Frame) -> Value:
    name = call.constant("item")
    taken = column(frame, name)
    frame.columns.pop(name, None)
    frame.absent |= {name}
    return taken


@frame_method("insert")
def _insert(call: Call, frame: Frame) -> Value:
    name, value = call.constant("column"), call.get("value")
    if name in frame.columns and call.constant("allow_duplicates", False) is not True:
        raise data_fault(f"cannot insert {name}, already exists", "ValueError")
    frame.columns[name] = cells_to_store(call.interpreter, frame.rows, value or UNKNOWN)
    return NONE


@frame_method("reindex")
def _reindex(call: Call, frame: Frame) -> Value:
    names = constant_list(call.get("columns")) if "columns" in call.bound else None
    model = call.get("columns")
    if names is None and isinstance(model, Items) and model.frame is not None:
        other = model.frame
        known = {n: frame.columns.get(n, Cells("unknown")) for n in other.columns}
        rest = dataclasses.replace(frame.rest, missing=False if "fill_value" in call.bound else None)
        return frame.with_columns(known, complete=other.complete, dummies=other.dummies, absent=other.absent, rest=rest)
    if names is None:
        return frame.with_columns(
            dict(frame.columns) if "columns" not in call.bound else {}, complete=False, origin=None
        )
    fill = _filler(call.get("fill_value"))
    absent = fill if isinstance(fill, Cells) else Cells("float", missing=True)
    columns = {n: frame.columns.get(n, absent if frame.lacks(n) else frame.rest) for n in names}
    return frame.with_columns(columns, complete=True, dummies=())


@frame_method("apply", "map", "transform", "pipe", "applymap", checked=False)
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
                result = scalar_cells(apply(call, function, Scalar(c)))
                columns[k] = (
                    c.derived(**_kind_of(result), unique=None) if result is not None else Cells(sources=c.sources)
                )
            return frame.with_columns(columns)
    axis = constant(call.args[1] if len(call.args) > 1 else call.kwargs.get("axis"), 0)
    if axis in (1, "columns"):
        row = Dict(None) if not isinstance(function, Function) else _row(frame)
        with call.interpreter.repeated(frame.rows):
            result = apply(call, function, row)
        cells = scalar_cells(result)
        merged = frame.cells()
        return Series(
            merged.derived(**_kind_of(cells), unique=None) if cells else Cells(sources=merged.sources),
            frame.rows,
            None,
            frame.origin,
        )
    return _apply_columns(call, frame, function)


def _kind_of(cells: Cells | None) -> dict[str, Any]:
    if cells is None:
        return {"kind": "unknown", "missing": None, "negative": None, "fractional": None}
    return {"kind": cells.kind, "missing": cells.missing, "negative": cells.negative, "fractional": cells.fractional}


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


@frame_method("iterrows", "itertuples", "items", checked=False)
def _iterrows(call: Call, frame: Frame) -> Value:
    name = call.callee
    if name == "items":
        if not frame.complete:
            return Items("generator", None)
        return Items("generator", [Items("tuple", [Const(k), column(frame, k)]) for k in frame.columns])
    element = Items("tuple", [UNKNOWN, _row(frame)]) if name == "iterrows" else UNKNOWN
    return Items("generator", None, element, frame.rows)


@frame_method("keys", checked=False)
def _keys(call: Call, frame: Frame) -> Value:
    return columns_index(frame)


@frame_method("get")
def _get(call: Call, frame: Frame) -> Value:
    name = call.constant("key")
    if frame.lacks(name):
        return call.get("default", NONE) or NONE
    return column(frame, name)


@frame_method("query", "eval", checked=False)
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


@frame_method(
    "to_dict", "to_string", "info", "memory_usage", "to_json", "to_markdown", "equals", "filter", checked=False
)
def _report(call: Call, frame: Frame) -> Value:
    return NONE if call.callee == "info" else UNKNOWN


@frame_method("squeeze")
def _squeeze(call: Call, frame: Frame) -> Value:
    return column(frame, next(iter(frame.columns))) if frame.width == 1 else UNKNOWN
