"""Files: paths as the script builds them, checked against the inventory, and the tables it reads from them."""

from __future__ import annotations

import posixpath

from wmrl_gym.scriptcheck.cells import Cells
from wmrl_gym.scriptcheck.faults import Fault, data_fault, runtime_fault
from wmrl_gym.scriptcheck.inventory import DataFile
from wmrl_gym.scriptcheck.language.names import DATA_DIR, ENVIRONMENT, SUBMISSION_PATH, WORKING_DIRECTORY
from wmrl_gym.scriptcheck.language.operators import pieces
from wmrl_gym.scriptcheck.limits import MAX_ITEMS, MAX_TEXT
from wmrl_gym.scriptcheck.models import Call, Evaluator, Models
from wmrl_gym.scriptcheck.scope import Write
from wmrl_gym.scriptcheck.values.objects import Instance, Items, constant, strings
from wmrl_gym.scriptcheck.values.scalars import MISSING, NONE, UNKNOWN, Const, Scalar, Text, Value

MODELS = Models()

# Paths


@MODELS.function("os.path.join", "pathlib.Path", "pathlib.PurePath", "pathlib.PosixPath")
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
        parts = list(new) if absolute else [*parts, *new]
        if len(parts) > MAX_ITEMS or sum(len(part) for part in parts[-3:] if isinstance(part, str)) > MAX_TEXT:
            return Text((Cells("str", missing=False),), is_path=is_path)
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


def inventory_entry(interpreter: Evaluator, path: str) -> DataFile | str | None:
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


def written(interpreter: Evaluator, path: str) -> bool:
    """Whether the script may have written this file itself."""
    full = absolute(path)
    return any(write.path is None or write.path == full for write in interpreter.state.writes)


def require_file(interpreter: Evaluator, value: Value | None) -> DataFile | None:
    """The inventory's entry that a path names; None if it cannot be told.

    Raises:
        Fault: FileNotFoundError if there is certainly no such file.
    """
    path = path_text(value)
    if path is None:
        if isinstance(value, Text):
            require_pattern(interpreter, value)
        return None
    entry = inventory_entry(interpreter, path)
    if entry is None and not written(interpreter, path) and not path.startswith(("http", "/tmp", "/proc", "/usr")):
        raise missing_file(path)
    return entry if isinstance(entry, DataFile) else None


def require_pattern(interpreter: Evaluator, value: Text) -> DataFile | None:
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
    shown = "".join(part if isinstance(part, str) else example_of(part) for part in parts)
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


def _refuse_relative(interpreter: Evaluator, value: Text, head: str) -> None:
    """The working directory is empty at first, so a relative path into a folder that nobody made leads nowhere."""
    folder = head.split("/")[0] if "/" in head else ""
    made = any(write.path is None or f"/{folder}/" in write.path for write in interpreter.state.writes)
    if folder and folder not in (".", "..", "~") and not made and not interpreter.changed_directory:
        raise missing_file("".join(part if isinstance(part, str) else example_of(part) for part in value.parts))


def example_of(cells: Cells) -> str:
    """An example of what a hole in a path is filled with."""
    return cells.examples[0] if cells.examples else "0"


def _other_split(interpreter: Evaluator, folder: str, hole: Cells) -> bool:
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


@MODELS.function("exists", "isfile", "isdir", of="os.path")
def _exists(call: Call) -> Value:
    return _known_existence(call, call.first(0))


@MODELS.method(Text, "exists", "is_file", "is_dir")
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


@MODELS.function("os.listdir", "glob.glob", "os.scandir", "os.walk")
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


@MODELS.function("basename", "dirname", "splitext", "abspath", "normpath", of="os.path")
def _path_function(call: Call) -> Value:
    path = path_text(call.first(0))
    name = call.callee
    if path is None or not hasattr(posixpath, name):
        return UNKNOWN
    found = getattr(posixpath, name)(absolute(path) if name == "abspath" else path)
    return strings(found, "tuple") if isinstance(found, tuple) else Const(found)


@MODELS.function("os.environ.get", "os.getenv")
def _getenv(call: Call) -> Value:
    name = constant(call.first(0))
    if name in ENVIRONMENT:
        return Const(ENVIRONMENT[name])
    return UNKNOWN if name is MISSING or len(call.args) < 2 else call.args[1]


@MODELS.function(
    "os.chdir", "os.symlink", "os.system", "subprocess.run", "zipfile.ZipFile", "tarfile.open", "shutil.copytree"
)
def _changes_files(call: Call) -> Value:
    call.interpreter.changed_directory = True
    return UNKNOWN


@MODELS.function("os.makedirs", "os.mkdir", "os.remove", "shutil.rmtree", "warnings.filterwarnings", "gc.collect")
def _effect(call: Call) -> Value:
    return NONE


# Writing


def open_file(call: Call) -> Value:
    """``open``: a file to write may be the submission, a file to read must exist."""
    mode = constant(call.args[1] if len(call.args) > 1 else call.kwargs.get("mode"), "r")
    path = path_text(call.first(0))
    if isinstance(mode, str) and any(letter in mode for letter in "wax+"):
        _note_write(call, path)
        return Instance(object)
    require_file(call.interpreter, call.first(0))
    return Instance(object)


def _note_write(call: Call, path: str | None) -> None:
    """The script writes a file by other means than pandas."""
    target = absolute(path) if path is not None else None
    call.interpreter.state.writes.append(Write(target, getattr(call.node, "lineno", 0), UNKNOWN, index=None))


@MODELS.method(Text, "write_text", "write_bytes", "open", "touch")
def _path_write(call: Call, value: Text) -> Value:
    _note_write(call, value.literal)
    return UNKNOWN


@MODELS.method(Text, "joinpath")
def _joinpath(call: Call, value: Text) -> Value:
    parts = list(value.parts)
    for argument in call.args:
        parts += ["/", *pieces(argument)]
    return Text(tuple(parts), is_path=True)


@MODELS.method(Text, "iterdir", "glob", "rglob")
def _iterdir(call: Call, value: Text) -> Value:
    return Items("generator", None, UNKNOWN)


@MODELS.function(
    "numpy.savetxt", "numpy.save", "joblib.dump", "pickle.dump", "shutil.copy", "shutil.copyfile", "os.rename"
)
def _other_write(call: Call) -> Value:
    for argument in call.args[:2]:
        path = path_text(argument)
        if path is not None and absolute(path) == SUBMISSION_PATH:
            _note_write(call, path)
    return NONE
