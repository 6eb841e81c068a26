"""Methods of data frames, as far as they decide which columns there are and what is in them."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

from wmrl_gym.scriptcheck.cells import Cells
from wmrl_gym.scriptcheck.data.dtypes import cast, dtype_kind, dtype_names, dtype_selected, kinds_of_dtype
from wmrl_gym.scriptcheck.data.frame_indexing import cells_to_store
from wmrl_gym.scriptcheck.data.frames import (
    column,
    columns_index,
    missing_column,
    part_of,
    select,
    to_array,
)
from wmrl_gym.scriptcheck.data.missing_values import filler_cells
from wmrl_gym.scriptcheck.data.pandas_binding import bind_pandas, in_place, names_of
from wmrl_gym.scriptcheck.faults import api_fault, data_fault, runtime_fault
from wmrl_gym.scriptcheck.language.builtin_functions import apply
from wmrl_gym.scriptcheck.language.names import WORKING_DIRECTORY
from wmrl_gym.scriptcheck.language.paths import absolute, path_text
from wmrl_gym.scriptcheck.models import Call, Models
from wmrl_gym.scriptcheck.scope import Write
from wmrl_gym.scriptcheck.values.data import Frame
from wmrl_gym.scriptcheck.values.objects import Dict, Function, Items, constant, constant_list
from wmrl_gym.scriptcheck.values.scalars import MISSING, NONE, UNKNOWN, Value

MODELS = Models()
frame_method = functools.partial(MODELS.method, Frame, bind=bind_pandas)


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
        replaces = call.constant("replace", False) is not False
        if wanted > frame.rows and call.callee == "sample" and not replaces:
            raise runtime_fault("Cannot take a larger sample than population when 'replace=False'", "ValueError")
        rows = min(wanted, frame.rows) if wanted >= 0 else max(0, frame.rows + wanted)
    else:
        rows = None
    return part_of(frame, rows)


@frame_method("astype")
def _astype(call: Call, frame: Frame) -> Value:
    wanted = call.get("dtype")
    if isinstance(wanted, Dict):
        if wanted.items is None:
            return frame.with_columns(frame.blurred())
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
    include, exclude = dtype_names(call.get("include")), dtype_names(call.get("exclude"))
    if include is None and exclude is None and not call.open_ended:
        message = "at least one of include or exclude must be nonempty"
        raise api_fault(message, "ValueError")
    for name in [*(include or []), *(exclude or [])]:
        if name is not None and kinds_of_dtype(name) is None:
            raise api_fault(f"data type '{name}' not understood", "TypeError")
    if not frame.complete or None in (include or []) or None in (exclude or []) or _unsure(frame):
        kept = {k: c for k, c in frame.columns.items() if dtype_selected(c.kind, include, exclude)}
        return frame.with_columns(kept, complete=False, absent=frame.absent, rest=_rest_kind(frame, include))
    return frame.with_columns({k: c for k, c in frame.columns.items() if dtype_selected(c.kind, include, exclude)})


def _unsure(frame: Frame) -> bool:
    return any(c.kind == "unknown" for c in frame.columns.values())


def _rest_kind(frame: Frame, include: list[Any] | None) -> Cells:
    if include and all(name in ("number", "int64", "float64", "int", "float") for name in include):
        kind = "float" if frame.rest.kind == "unknown" else frame.rest.kind
        return dataclasses.replace(frame.rest, kind=kind)
    return frame.rest


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


@frame_method("to_numpy")
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
    fill = filler_cells(call.get("fill_value"))
    absent = fill if isinstance(fill, Cells) else Cells("float", missing=True)
    columns = {n: frame.columns.get(n, absent if frame.lacks(n) else frame.rest) for n in names}
    return frame.with_columns(columns, complete=True, dummies=())


@MODELS.method(Frame, "keys")
def _keys(call: Call, frame: Frame) -> Value:
    return columns_index(frame)


@frame_method("get")
def _get(call: Call, frame: Frame) -> Value:
    name = call.constant("key")
    if frame.lacks(name):
        return call.get("default", NONE) or NONE
    return column(frame, name)


@frame_method("squeeze")
def _squeeze(call: Call, frame: Frame) -> Value:
    return column(frame, next(iter(frame.columns))) if frame.width == 1 else UNKNOWN
