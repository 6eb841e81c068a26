"""Methods of series, of their accessors, and of grouped frames."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

from wmrl_gym.scriptcheck.cells import NUMERIC, Cells
from wmrl_gym.scriptcheck.data.dtypes import cast, dtype_kind
from wmrl_gym.scriptcheck.data.frames import few_rows
from wmrl_gym.scriptcheck.data.missing_values import fill_cells
from wmrl_gym.scriptcheck.data.pandas_binding import bind_pandas
from wmrl_gym.scriptcheck.faults import shape_fault
from wmrl_gym.scriptcheck.language.builtin_functions import apply
from wmrl_gym.scriptcheck.language.paths import absolute, path_text
from wmrl_gym.scriptcheck.models import Call, Models
from wmrl_gym.scriptcheck.scope import Write, scalar_cells
from wmrl_gym.scriptcheck.values.data import Array, Frame, GroupBy, Series
from wmrl_gym.scriptcheck.values.objects import Dict, Items, constant
from wmrl_gym.scriptcheck.values.scalars import MISSING, NONE, UNKNOWN, Scalar, Value

MODELS = Models()
series_method = functools.partial(MODELS.method, Series, bind=bind_pandas)


def _with(series: Series, **changes: Any) -> Series:
    return dataclasses.replace(series, cells=series.cells.derived(**changes), mask=False)


def _in_place(call: Call, series: Series, new: Series) -> Value:
    """Pandas copies on write: ``df["a"].fillna(0, inplace=True)`` changes a copy, and the frame keeps its gaps."""
    if call.constant("inplace", False) is not True:
        return new
    series.cells, series.rows, series.origin = new.cells, new.rows, new.origin
    return NONE


@series_method("fillna")
def _fillna(call: Call, series: Series) -> Value:
    value = call.get("value")
    filler: Any = MISSING
    if value is not None:
        filler = scalar_cells(value) or MISSING
    return _in_place(call, series, dataclasses.replace(series, cells=fill_cells(series.cells, filler)))


@series_method("ffill", "bfill", "interpolate")
def _fill_along(call: Call, series: Series) -> Value:
    return _in_place(call, series, _with(series, missing=None if series.cells.missing else series.cells.missing))


@series_method("astype")
def _astype(call: Call, series: Series) -> Value:
    return dataclasses.replace(series, cells=cast(series.cells, dtype_kind(call.get("dtype"))), mask=False)


@series_method("copy", "infer_objects", "convert_dtypes", "squeeze")
def _copy(call: Call, series: Series) -> Value:
    return dataclasses.replace(series)


@series_method("rename", "reset_index", "sort_index", "sort_values")
def _rearranged(call: Call, series: Series) -> Value:
    name = call.callee
    if name == "reset_index" and call.constant("drop", False) is not True:
        key, values = series.index or ("index", Cells())
        label = call.constant("name", series.name)
        return Frame(
            {key: values, label if isinstance(label, str) else str(series.name): series.cells}, rows=series.rows
        )
    label = call.constant("index", series.name) if name == "rename" else series.name
    origin = None if name == "sort_values" else series.origin
    return dataclasses.replace(series, name=label if isinstance(label, str) else series.name, origin=origin)


@series_method("mean", "median", "std", "var", "skew", "sum", "min", "max", "quantile", "prod", "kurt")
def _statistic(call: Call, series: Series) -> Value:
    name = call.callee
    cells = series.cells
    if cells.kind == "str" and name in ("mean", "median", "std", "var", "skew", "prod", "kurt", "quantile"):
        raise shape_fault(f"Cannot perform reduction '{name}' with string dtype", "TypeError", second="ValueError")
    if series.name == "dtypes" or (series.mask and name == "sum"):
        return Scalar(Cells("int", missing=False))
    same = cells.kind if name in ("min", "max", "sum", "prod") else "float"
    return Scalar(Cells(same, missing=False, negative=cells.negative if cells.negative is False else None))


@series_method("mode")
def _mode(call: Call, series: Series) -> Value:
    return dataclasses.replace(series, rows=None, origin=None, cells=dataclasses.replace(series.cells, missing=False))


@series_method("nunique", "count", "argmax", "argmin")
def _count(call: Call, series: Series) -> Value:
    return Scalar(Cells("int", missing=False, negative=False, fractional=False))


@series_method("unique")
def _unique(call: Call, series: Series) -> Value:
    cells = series.cells
    rows = cells.unique + bool(cells.missing) if cells.unique is not None and cells.origin is not None else None
    return Array(dataclasses.replace(cells, origin=None), (rows,))


@series_method("value_counts")
def _value_counts(call: Call, series: Series) -> Value:
    return Series(Cells("float", missing=False), None, None)


@series_method(
    "isnull", "isna", "notnull", "notna", "duplicated", "isin", "between", "eq", "ne", "gt", "lt", "ge", "le"
)
def _mask(call: Call, series: Series) -> Value:
    cells = Cells("bool", missing=False, negative=False, fractional=False, sources=series.cells.sources)
    return dataclasses.replace(series, cells=cells, mask=True)


@MODELS.method(Series, "ravel")
@series_method("to_numpy")
def _to_numpy(call: Call, series: Series) -> Value:
    return Array(series.cells, (series.rows,), origin=series.origin)


@series_method("tolist", "to_list")
def _tolist(call: Call, series: Series) -> Value:
    return Items("list", None, Scalar(series.cells), series.rows)


@series_method("to_frame")
def _to_frame(call: Call, series: Series) -> Value:
    name = call.constant("name", series.name)
    return Frame(
        {name if isinstance(name, str) else series.name or "0": series.cells}, rows=series.rows, origin=series.origin
    )


@series_method("head", "tail", "sample", "nlargest", "nsmallest")
def _few(call: Call, series: Series) -> Value:
    wanted = call.constant("n", 5)
    rows = min(wanted, series.rows) if isinstance(wanted, int) and series.rows is not None else None
    return dataclasses.replace(series, rows=rows, origin=None, cells=few_rows(series.cells, rows), parts=())


@MODELS.method(Series, "dropna", "drop", "drop_duplicates", "explode", "reindex", "repeat")
def _fewer(call: Call, series: Series) -> Value:
    cells = series.cells
    if call.callee == "dropna":
        if cells.missing is False:
            return series
        cells = dataclasses.replace(cells, missing=False)
    return dataclasses.replace(series, rows=None, origin=None, cells=cells, parts=())


@series_method("clip", "round", "abs")
def _bounded(call: Call, series: Series) -> Value:
    name = call.callee
    if series.cells.kind == "str" and name != "round":
        raise shape_fault("Invalid comparison between dtype=str and int", "TypeError", second="ValueError")
    lower = call.constant("lower", None)
    floor = name == "abs" or (isinstance(lower, int | float) and lower >= 0)
    return _with(
        series,
        negative=False if floor else series.cells.negative and None,
        fractional=series.cells.fractional if name != "round" else None,
    )


@MODELS.method(Series, "replace", "where", "mask", "combine_first", "update")
def _replaced(call: Call, series: Series) -> Value:
    kind = series.cells.kind if call.callee == "combine_first" else "unknown"
    return _with(series, kind=kind, missing=None, negative=None, fractional=None, unique=None)


@series_method(
    "rank", "diff", "shift", "cumsum", "cumprod", "cummax", "pct_change", "add", "sub", "mul", "div", "pow", "rsub"
)
def _numeric(call: Call, series: Series) -> Value:
    missing = True if call.callee in ("diff", "shift", "pct_change") and not call.args and not call.kwargs else None
    return _with(series, kind="float" if series.cells.kind in NUMERIC else "unknown", missing=missing, negative=None)


@MODELS.method(Series, "map", "apply", "transform")
def _map(call: Call, series: Series) -> Value:
    function = call.first() or call.kwargs.get("arg") or call.kwargs.get("func")
    if isinstance(function, Dict):
        return _map_dictionary(series, function)
    if isinstance(function, Series) or function is None:
        return _with(
            series,
            kind=function.cells.kind if function else "unknown",
            missing=None,
            unique=None,
            fractional=None,
            negative=None,
        )
    require_length(series.cells, function)
    with call.interpreter.repeated(series.rows):
        result = apply(call, function, Scalar(series.cells))
    found = scalar_cells(result)
    if found is None:
        return dataclasses.replace(series, cells=Cells(sources=series.cells.sources, tags=series.cells.tags - {"raw"}))
    cells = dataclasses.replace(series.cells.computed(found), role=None)
    return dataclasses.replace(series, cells=cells, mask=False)


def require_length(cells: Cells, function: Value) -> None:
    """``len`` of a missing text is the ``len`` of a float.

    Raises:
        Fault: TypeError if ``len`` is mapped over texts with gaps, or over numbers.
    """
    if getattr(function, "name", "") != "builtins.len":
        return
    kind = "float" if cells.kind == "str" and cells.missing else cells.kind
    if kind in ("int", "float"):
        raise shape_fault(f"object of type '{kind}' has no len()", "TypeError")


def _map_dictionary(series: Series, mapping: Dict) -> Value:
    if mapping.items is None:
        found = scalar_cells(mapping.element)
        return _with(series, kind=found.kind if found else "unknown", missing=None, unique=None, fractional=None)
    parts = [scalar_cells(value) for value in mapping.items.values()]
    kinds = {part.kind for part in parts if part is not None}
    lost = [e for e in series.cells.examples if e not in mapping.items and not any(str(k) == e for k in mapping.items)]
    missing: bool | None = True if lost or series.cells.missing else None
    if series.cells.unique is not None and series.cells.missing is False and not lost:
        missing = series.cells.unique > len(mapping.items)
    kind = kinds.pop() if len(kinds) == 1 else "unknown"
    negative = False if all(part is not None and part.negative is False for part in parts) else None
    kind = "float" if kind == "int" and missing else kind
    return _with(series, kind=kind, missing=missing, negative=negative, fractional=False, unique=len(mapping.items))


@series_method("factorize")
def _factorize(call: Call, series: Series) -> Value:
    codes = Array(series.cells.derived(kind="int", missing=False, fractional=False).tagged("ordinal"), (series.rows,))
    return Items("tuple", [codes, Items("index", None, Scalar(series.cells), series.cells.unique)])


@series_method("to_csv")
def _to_csv(call: Call, series: Series) -> Value:
    path = path_text(call.get("path_or_buf"))
    index = call.constant("index", True)
    columns = {str(series.name): series.cells}
    if series.index is not None and index is True:
        columns = {series.index[0]: series.index[1], **columns}
        index = False
    frame = Frame(columns, rows=series.rows, origin=series.origin)
    write = Write(None if path is None else absolute(path), getattr(call.node, "lineno", 0), frame)
    write.index = None if index is MISSING else bool(index)
    call.interpreter.state.writes.append(write)
    return NONE


@MODELS.method(Series, "to_dict")
def _to_dict(call: Call, series: Series) -> Value:
    return Dict(None, Scalar(series.cells))


@MODELS.method(Series, "items", "iteritems")
def _items(call: Call, series: Series) -> Value:
    return Items("generator", None, Items("tuple", [UNKNOWN, Scalar(series.cells)]), series.rows)


@MODELS.method(Series, "groupby", "rolling", "expanding", "ewm", "resample", "agg", "describe", "pipe")
@MODELS.method(Series, "idxmax", "idxmin", "item", "any", "all", "corr", "autocorr", "cov")
def _other(call: Call, series: Series) -> Value:
    return UNKNOWN


_TEXT_TO_NUMBER = ("len", "count", "find")
_TEXT_TO_BOOL = ("contains", "startswith", "endswith", "isnumeric", "isdigit", "isupper", "islower")
_TEXT_TO_TEXT = (
    *("lower", "upper", "strip", "lstrip", "rstrip", "title", "replace"),
    *("slice", "zfill", "pad", "cat", "normalize"),
)
_TEXT_TO_PARTS = ("split", "rsplit", "findall", "extract", "get", "join", "partition", "get_dummies")


@MODELS.method(Series, *(f"str.{name}" for name in (*_TEXT_TO_NUMBER, *_TEXT_TO_BOOL, *_TEXT_TO_TEXT, *_TEXT_TO_PARTS)))
def _accessor_result(call: Call, series: Series) -> Value:
    name = call.callee
    if name in (*_TEXT_TO_NUMBER, *_TEXT_TO_BOOL):
        number = "int" if series.cells.missing is False else "float"
        kind = "bool" if name in _TEXT_TO_BOOL else number
        return _with(series, kind=kind, negative=False, fractional=False, unique=None)
    if name in _TEXT_TO_TEXT:
        cells = series.cells.derived(kind="str", unique=None, examples=series.cells.examples)
        return dataclasses.replace(series, cells=cells)
    if name in ("extract", "get_dummies") or constant(call.kwargs.get("expand"), False) is True:
        return Frame({}, complete=False, rows=series.rows, rest=Cells("unknown", sources=series.cells.sources))
    return _with(series, kind="unknown", unique=None)


def accessor_attribute(series: Series, name: str) -> Value | None:
    """An attribute of ``.cat`` or ``.dt`` that is data and not a method; None if it is not one."""
    if name == "cat.codes":
        cells = series.cells.derived(kind="int", missing=False, fractional=False, negative=series.cells.missing)
        return dataclasses.replace(series, cells=cells.tagged("ordinal"), mask=False)
    parts = ("year", "month", "day", "hour", "minute", "second", "dayofweek", "weekday", "dayofyear", "quarter")
    if name.startswith("dt.") and name.removeprefix("dt.") in parts:
        return _with(series, kind="int" if series.cells.missing is False else "float", unique=None, negative=False)
    if name == "cat.categories":
        return Items("index", None, Scalar(Cells("str")), series.cells.unique)
    return None


# Groups


@MODELS.method(
    GroupBy, "mean", "sum", "median", "std", "min", "max", "count", "first", "last", "nunique", "size", "var"
)
def _aggregate(call: Call, group: GroupBy) -> Value:
    name = call.callee
    wanted = group.selected or tuple(k for k in group.frame.columns if k not in group.keys)
    if name in ("mean", "median", "std", "var") and constant(call.kwargs.get("numeric_only"), False) is not True:
        text = next((k for k in wanted if group.frame.columns.get(k, Cells()).kind == "str"), None)
        if text is not None:
            message = f"agg function failed [how->{name},dtype->str]"
            raise shape_fault(message, "TypeError", second="ValueError")
    cells = {k: dataclasses.replace(group.frame.columns.get(k, Cells()), origin=None, missing=None) for k in wanted}
    key = group.keys[0] if len(group.keys) == 1 else None
    if group.single or name == "size":
        made = Series(next(iter(cells.values()), Cells()), None, wanted[0] if wanted and name != "size" else None)
        made.index = (key, group.frame.columns.get(key, Cells())) if key is not None else None
        return made
    complete = group.frame.complete and key is not None
    return Frame(cells, complete=complete, index=key)


@MODELS.method(GroupBy, "transform")
def _transform(call: Call, group: GroupBy) -> Value:
    if group.single and group.selected:
        cells = group.frame.columns.get(group.selected[0], Cells())
        return Series(
            dataclasses.replace(cells, kind="float", missing=None, origin=None), group.frame.rows, group.selected[0]
        )
    return UNKNOWN


@MODELS.method(GroupBy, "ngroup", "cumcount")
def _numbers(call: Call, group: GroupBy) -> Value:
    return Series(Cells("int", missing=False, fractional=False), group.frame.rows, None)
