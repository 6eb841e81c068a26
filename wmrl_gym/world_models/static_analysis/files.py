"""Files: paths as the script builds them, checked against the inventory, and the tables it reads from them."""

from __future__ import annotations

import functools
import posixpath
from typing import TYPE_CHECKING, Any

from wmrl_gym.envs.mle_dojo.inventory import Column, DataFile
from wmrl_gym.world_models.static_analysis import cost
from wmrl_gym.world_models.static_analysis.calls import Call, methods, models
from wmrl_gym.world_models.static_analysis.faults import Fault, data_fault, runtime_fault
from wmrl_gym.world_models.static_analysis.names import DATA_DIR, ENVIRONMENT, SUBMISSION_PATH, WORKING_DIRECTORY
from wmrl_gym.world_models.static_analysis.operators import pieces
from wmrl_gym.world_models.static_analysis.scope import Write
from wmrl_gym.world_models.static_analysis.values import (
    MISSING,
    NONE,
    UNKNOWN,
    Cells,
    Const,
    Frame,
    Instance,
    Items,
    Scalar,
    Text,
    Value,
    constant,
    constant_list,
    strings,
)

if TYPE_CHECKING:
    from wmrl_gym.world_models.static_analysis.expressions import Expressions

# Paths


@models("os.path.join", "pathlib.Path", "pathlib.PurePath", "pathlib.PosixPath")
def _join(call: Call) -> Value:
    is_path = call.callee != "join"
    parts: list[str | Cells] = []
    for argument in call.args:
        if isinstance(argument, Const) and not isinstance(argument.value, str):
            name = type(argument.value).__name__
            raise runtime_fault(f"expected str, bytes or os.PathLike object, not {name}", "TypeError")
        new = pieces(argument)
        if parts and not (isinstance(parts[-1], str) and parts[-1].endswith("/")):
            parts.append("/")
        absolute = isinstance(new[0], str) and new[0].startswith("/")
        parts = list(new) if absolute else parts + list(new)
    if not is_path and all(isinstance(part, str) for part in parts):
        return Const("".join(parts))  # type: ignore[arg-type]
    return Text(tuple(parts), is_path=is_path)


def path_text(value: Value | None) -> str | None:
    """The path as the script wrote it, None if parts of it are unknown."""
    if isinstance(value, Text):
        return value.literal
    if isinstance(value, Const) and isinstance(value.value, str):
        return value.value
    return None


def absolute(path: str) -> str:
    """The path as the sandbox resolves it."""
    return posixpath.normpath(posixpath.join(WORKING_DIRECTORY, path))


def inventory_entry(interpreter: Expressions, path: str) -> DataFile | str | None:
    """The inventory's entry for a path; "inside" for a file of a known folder; None if it does not exist."""
    full = absolute(path)
    if interpreter.overview is None:
        return "inside"
    inventory = interpreter.overview.inventory
    if full == DATA_DIR:
        return "inside"
    if not full.startswith(DATA_DIR + "/"):
        return None
    relative = full.removeprefix(DATA_DIR + "/")
    found = inventory.file(relative)
    if found is not None:
        return found
    for entry in inventory.files:
        if entry.path.startswith(relative + "/"):
            return "inside"
        if entry.kind == "folder" and relative.startswith(entry.path + "/"):
            return "inside"
    return None


def missing_file(path: str) -> Fault:
    """The FileNotFoundError of a path."""
    return data_fault(f"[Errno 2] No such file or directory: '{path}'", "FileNotFoundError", second="KeyError")


def written(interpreter: Expressions, path: str) -> bool:
    """Whether the script may have written this file itself."""
    full = absolute(path)
    return any(write.path is None or write.path == full for write in interpreter.state.writes)


def require_file(interpreter: Expressions, value: Value | None) -> DataFile | None:
    """The inventory's entry that a path names; None if it cannot be told.

    Raises:
        Fault: FileNotFoundError if there is certainly no such file.
    """
    path = path_text(value)
    if path is None:
        if isinstance(value, Text):
            _require_pattern(interpreter, value)
        return None
    entry = inventory_entry(interpreter, path)
    if entry is None and not written(interpreter, path) and not path.startswith(("http", "/tmp", "/proc", "/usr")):
        raise missing_file(path)
    return entry if isinstance(entry, DataFile) else None


def _require_pattern(interpreter: Expressions, value: Text) -> DataFile | None:
    """A path with unknown parts, for example ``train/{id}.png``: its folder, extension and split are checked."""
    parts = value.parts
    head = parts[0] if parts and isinstance(parts[0], str) else ""
    tail = parts[-1] if isinstance(parts[-1], str) else ""
    if interpreter.overview is None or "/" in tail or not head:
        return None
    if not head.startswith("/"):
        _refuse_relative(interpreter, value, head)
        return None
    if not head.startswith(DATA_DIR + "/"):
        return None
    folder, _, prefix = head.removeprefix(DATA_DIR + "/").rpartition("/")
    entry = interpreter.overview.inventory.file(folder)
    hole = next((part for part in parts if isinstance(part, Cells)), Cells())
    shown = "".join(part if isinstance(part, str) else _example(part) for part in parts)
    if entry is None:
        known = any(f.path == folder or f.path.startswith(folder + "/") for f in interpreter.overview.inventory.files)
        if folder and not known and len(parts) <= 3:
            raise missing_file(shown)
        return None
    if not entry.examples or entry.entries is None or len(parts) > 3:
        return entry
    fits = [name for name in entry.examples if name.endswith(tail) and name.startswith(prefix)]
    if not tail and hole.examples and all("." in name for name in entry.examples):
        fits = [] if not any("." in example for example in hole.examples) else fits
    double = tail and hole.examples and any(example.endswith(tail) for example in hole.examples)
    if not fits or double:
        raise missing_file(shown)
    if hole.origin is not None and _other_split(interpreter, folder, hole):
        raise missing_file(shown)
    return entry


def _refuse_relative(interpreter: Expressions, value: Text, head: str) -> None:
    """The working directory is empty at first, so a relative path into a folder that nobody made leads nowhere."""
    folder = head.split("/")[0] if "/" in head else ""
    made = any(write.path is None or f"/{folder}/" in write.path for write in interpreter.state.writes)
    if folder and folder not in (".", "..", "~") and not made and not interpreter.changed_directory:
        raise missing_file("".join(part if isinstance(part, str) else _example(part) for part in value.parts))


def _example(cells: Cells) -> str:
    return cells.examples[0] if cells.examples else "0"


def _other_split(interpreter: Expressions, folder: str, hole: Cells) -> bool:
    """Whether the ids are those of one split and the folder is the other split's."""
    assert interpreter.overview is not None and hole.origin is not None
    file, column = hole.origin
    if column != interpreter.overview.contract.id_column:
        return False
    stem = file.rsplit(".", 1)[0].replace("sample_submission", "test")
    splits = {"train", "test"}
    return (
        folder in splits and stem in splits and folder != stem and interpreter.overview.inventory.file(stem) is not None
    )


@models("os.path.exists", "os.path.isfile", "os.path.isdir")
def _exists(call: Call) -> Value:
    return _known_existence(call, call.first(0))


@methods(Text, "exists", "is_file", "is_dir")
def _path_exists(call: Call, value: Text) -> Value:
    return _known_existence(call, value)


def _known_existence(call: Call, value: Value | None) -> Value:
    path = path_text(value)
    if (
        path is None
        or call.interpreter.overview is None
        or not absolute(path).startswith((DATA_DIR, WORKING_DIRECTORY))
    ):
        return UNKNOWN
    if absolute(path) == WORKING_DIRECTORY:
        return Const(True)
    entry = inventory_entry(call.interpreter, path)
    return UNKNOWN if written(call.interpreter, path) else Const(entry is not None)


@models("os.listdir", "glob.glob", "os.scandir", "os.walk")
def _listing(call: Call) -> Value:
    name = call.callee
    path = path_text(call.first(0))
    if name == "listdir" and path is not None and call.interpreter.overview is not None:
        full, inventory = absolute(path), call.interpreter.overview.inventory
        if full == DATA_DIR:
            return strings(sorted({file.path.split("/")[0] for file in inventory.files}))
        entry = require_file(call.interpreter, call.first(0))
        if entry is not None and entry.kind == "folder":
            return Items("list", None, Scalar(Cells("str", missing=False)), entry.entries)
        if entry is not None:
            raise data_fault(f"[Errno 20] Not a directory: '{path}'", "NotADirectoryError")
    return Items("list", None, Scalar(Cells("str", missing=False)))


@models("os.path.basename", "os.path.dirname", "os.path.splitext", "os.path.abspath", "os.path.normpath")
def _path_function(call: Call) -> Value:
    path = path_text(call.first(0))
    name = call.callee
    if path is None or not hasattr(posixpath, name):
        return UNKNOWN
    found = getattr(posixpath, name)(absolute(path) if name == "abspath" else path)
    return strings(found, "tuple") if isinstance(found, tuple) else Const(found)


@models("os.environ.get", "os.getenv")
def _getenv(call: Call) -> Value:
    name = constant(call.first(0))
    if name in ENVIRONMENT:
        return Const(ENVIRONMENT[name])
    return UNKNOWN if name is MISSING or len(call.args) < 2 else call.args[1]


@models("os.chdir", "os.symlink", "os.system", "subprocess.run", "zipfile.ZipFile", "tarfile.open", "shutil.copytree")
def _changes_files(call: Call) -> Value:
    call.interpreter.changed_directory = True
    return UNKNOWN


@models("os.makedirs", "os.mkdir", "os.remove", "shutil.rmtree", "warnings.filterwarnings", "gc.collect")
def _effect(call: Call) -> Value:
    return NONE


# Tables


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


@models("pandas.read_csv", "pandas.read_table", "pandas.read_parquet")
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
    if isinstance(separator, str) and separator not in (",",) and (frame.origin or "").endswith(".csv"):
        joined = separator.join(frame.columns) if separator != "," else None
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
        elif option in ("header", "names", "skiprows", "squeeze", "dtype", "converters", "chunksize", "na_values"):
            if option in ("dtype", "na_values"):
                frame = Frame(
                    {k: Cells(sources=c.sources) for k, c in frame.columns.items()},
                    rows=frame.rows,
                    origin=frame.origin,
                )
            else:
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


# Writing


def open_file(call: Call) -> Value:
    """``open``: a file to write may be the submission, a file to read must exist."""
    mode = constant(call.args[1] if len(call.args) > 1 else call.kwargs.get("mode"), "r")
    path = path_text(call.first(0))
    if isinstance(mode, str) and any(letter in mode for letter in "wax+"):
        target = absolute(path) if path is not None else None
        line = getattr(call.node, "lineno", 0)
        call.interpreter.state.writes.append(Write(target, line, UNKNOWN, index=None))
        return Instance(object)
    require_file(call.interpreter, call.first(0))
    return Instance(object)


@methods(Text, "write_text", "write_bytes", "open", "touch")
def _path_write(call: Call, value: Text) -> Value:
    path = value.literal
    target = absolute(path) if path is not None else None
    call.interpreter.state.writes.append(Write(target, getattr(call.node, "lineno", 0), UNKNOWN, index=None))
    return UNKNOWN


@methods(Text, "joinpath")
def _joinpath(call: Call, value: Text) -> Value:
    parts = list(value.parts)
    for argument in call.args:
        parts += ["/", *pieces(argument)]
    return Text(tuple(parts), is_path=True)


@methods(Text, "iterdir", "glob", "rglob")
def _iterdir(call: Call, value: Text) -> Value:
    return Items("generator", None, UNKNOWN)


@models("numpy.savetxt", "numpy.save", "joblib.dump", "pickle.dump", "shutil.copy", "shutil.copyfile", "os.rename")
def _other_write(call: Call) -> Value:
    for argument in call.args[:2]:
        path = path_text(argument)
        if path is not None and absolute(path) == SUBMISSION_PATH:
            line = getattr(call.node, "lineno", 0)
            call.interpreter.state.writes.append(Write(SUBMISSION_PATH, line, UNKNOWN, index=None))
    return NONE


# Images


@models("PIL.Image.open")
def _open_image(call: Call) -> Value:
    from PIL import Image

    call.bind(Image.open)
    source = call.get("fp")
    entry = _require_pattern(call.interpreter, source) if isinstance(source, Text) and source.literal is None else None
    if isinstance(source, Text | Const) and path_text(source) is not None:
        require_file(call.interpreter, source)
        entry = _folder_of(call.interpreter, path_text(source) or "")
    cost.spend(call, cost.OPEN_IMAGE_SECONDS)
    size, mode = (entry.image_size, entry.image_mode) if entry is not None else (None, None)
    return Instance(Image.Image, {"image_size": size, "image_mode": mode})


def _folder_of(interpreter: Expressions, path: str) -> DataFile | None:
    relative = absolute(path).removeprefix(DATA_DIR + "/")
    return interpreter.overview.inventory.file(posixpath.dirname(relative)) if interpreter.overview else None
