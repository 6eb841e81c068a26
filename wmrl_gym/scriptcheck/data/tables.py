"""Tables that scripts read: the data frame the inventory promises."""

from __future__ import annotations

import functools
from typing import Any

from wmrl_gym.scriptcheck import cost
from wmrl_gym.scriptcheck.cells import Cells
from wmrl_gym.scriptcheck.faults import data_fault
from wmrl_gym.scriptcheck.inventory import Column, DataFile
from wmrl_gym.scriptcheck.language.paths import absolute, path_text, require_file
from wmrl_gym.scriptcheck.models import Call, Models
from wmrl_gym.scriptcheck.values.data import Frame
from wmrl_gym.scriptcheck.values.objects import constant, constant_list
from wmrl_gym.scriptcheck.values.scalars import Value

MODELS = Models()


def column_cells(column: Column, file: DataFile) -> Cells:
    """What the inventory tells of one column."""
    kinds = {"int64": "int", "float64": "float", "bool": "bool", "str": "str"}
    kind = kinds.get(column.dtype, "unknown")
    numbers = [number for number in map(_number, column.examples) if number is not None]
    fractional = any(not number.is_integer() for number in numbers) or (None if kind == "float" else False)
    if kind == "float" and fractional is None and column.missing > 0 and column.unique <= 50:
        fractional = False  # whole numbers that are floats only because some are missing
    return Cells(
        kind=kind,
        missing=column.missing > 0,
        unique=column.unique,
        negative=True if any(number < 0 for number in numbers) else (False if kind == "bool" else None),
        fractional=fractional if kind in ("int", "float", "bool") else None,
        examples=column.examples,
        origin=(file.path, column.name),
        sources=frozenset({column.name}),
        tags=frozenset({"raw"}),
        length=getattr(column, "mean_length", 0.0) or None,
    )


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


@functools.lru_cache(maxsize=256)
def _table(file: DataFile) -> dict[str, Cells]:
    return {column.name: column_cells(column, file) for column in file.columns}


def frame_of(file: DataFile) -> Frame:
    """The data frame that reading a table gives."""
    return Frame(dict(_table(file)), rows=file.rows, origin=file.path)


@MODELS.function("read_csv", "read_table", "read_parquet", of="pandas")
def _read_csv(call: Call) -> Value:
    import pandas as pd

    name = call.callee
    call.bind(getattr(pd, name, pd.read_csv))
    source = call.get("filepath_or_buffer") or call.get("path")
    file = require_file(call.interpreter, source)
    if file is None:
        return _own_table(call, source)
    if file.kind != "table":
        if file.kind == "folder":
            raise data_fault(f"[Errno 21] Is a directory: '{path_text(source)}'", "IsADirectoryError")
        return Frame({}, complete=False, rows=None)
    cost.spend(call, cost.read_table_seconds(file))
    frame = frame_of(file)
    return frame if name == "read_parquet" else _with_options(call, frame)


def _own_table(call: Call, source: Value | None) -> Value:
    """A table that the script wrote before, or that is not known."""
    path = path_text(source)
    for write in reversed(call.interpreter.state.writes):
        if path is not None and write.path == absolute(path) and isinstance(write.value, Frame) and not write.index:
            return write.value.copy()
    return Frame({}, complete=False)


_HARMLESS = {
    "filepath_or_buffer",
    "encoding",
    "engine",
    "low_memory",
    "memory_map",
    "encoding_errors",
    "keep_default_na",
}


def _with_options(call: Call, frame: Frame) -> Value:
    """Follow ``usecols``, ``index_col``, ``nrows`` and the like."""
    separator = call.constant("sep", call.constant("delimiter", None))
    if isinstance(separator, str) and separator != "," and (frame.origin or "").endswith(".csv"):
        joined = separator.join(frame.columns)
        return Frame({",".join(frame.columns): Cells("str")} if joined else {}, rows=frame.rows)
    for option in set(call.bound) - _HARMLESS - {"sep", "delimiter"}:
        value = call.bound[option]
        if option == "usecols":
            frame = _use_columns(frame, value)
        elif option == "index_col":
            frame = _index_column(frame, value)
        elif option == "nrows":
            limit = constant(value)
            known = isinstance(limit, int) and frame.rows is not None
            frame.rows = min(frame.rows, limit) if known else None  # type: ignore[type-var]
        elif option == "parse_dates":
            frame = _parse_dates(frame, value)
        elif option in ("dtype", "na_values"):
            frame = Frame(frame.blurred(), rows=frame.rows, origin=frame.origin)
        elif option in ("header", "names", "skiprows", "squeeze", "converters", "chunksize"):
            return Frame({}, complete=False)
    return frame


def _use_columns(frame: Frame, value: Value) -> Frame:
    names = constant_list(value)
    if names is None:
        return Frame(frame.columns, complete=False, rows=frame.rows, origin=frame.origin)
    if all(isinstance(name, int) for name in names):
        known = list(frame.columns)
        names = [known[name] for name in names if name < len(known)]
    lost = [name for name in names if name not in frame.columns]
    if lost:
        message = f"Usecols do not match columns, columns expected but not found: {lost}"
        raise data_fault(message, "ValueError", second="KeyError")
    return frame.with_columns({k: c for k, c in frame.columns.items() if k in names})


def _index_column(frame: Frame, value: Value) -> Frame:
    key: Any = constant(value)
    if isinstance(key, int) and not isinstance(key, bool) and 0 <= key < len(frame.columns):
        key = list(frame.columns)[key]
    if isinstance(key, str):
        if key not in frame.columns:
            raise data_fault(f"Index {key} invalid", "ValueError", second="KeyError")
        return frame.with_columns({k: c for k, c in frame.columns.items() if k != key}, index=key)
    return frame if key in (None, False) else Frame({}, complete=False, rows=frame.rows)


def _parse_dates(frame: Frame, value: Value) -> Frame:
    names = constant_list(value)
    if names is None:
        return frame
    lost = [name for name in names if isinstance(name, str) and name not in frame.columns]
    if lost:
        message = f"Missing column provided to 'parse_dates': '{', '.join(lost)}'"
        raise data_fault(message, "ValueError", second="KeyError")
    columns = {k: c.derived(kind="datetime") if k in names else c for k, c in frame.columns.items()}
    return frame.with_columns(columns)
