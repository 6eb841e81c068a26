"""What is installed: modules, names and signatures, read from the very packages the sandbox runs.

Light scientific packages and harmless parts of the standard library are imported into this process, so that names and
signatures are facts and not a list that ages. Of any other installed package only its existence is known.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import inspect
import sys
import warnings
from collections.abc import Callable
from types import ModuleType
from typing import Any

from wmrl_gym.scriptcheck.faults import Fault, name_fault
from wmrl_gym.scriptcheck.limits import clock_stopped

_SCIENTIFIC = frozenset({"numpy", "pandas", "sklearn", "scipy", "PIL", "joblib"})
_STANDARD = frozenset(
    [
        "abc",
        "argparse",
        "array",
        "ast",
        "base64",
        "bisect",
        "builtins",
        "bz2",
        "calendar",
        "cmath",
        "codecs",
        "collections",
        "colorsys",
        "concurrent",
        "contextlib",
        "copy",
        "csv",
        "ctypes",
        "dataclasses",
        "datetime",
        "decimal",
        "difflib",
        "enum",
        "errno",
        "fnmatch",
        "fractions",
        "functools",
        "gc",
        "getpass",
        "glob",
        "gzip",
        "hashlib",
        "heapq",
        "hmac",
        "html",
        "http",
        "inspect",
        "io",
        "itertools",
        "json",
        "keyword",
        "locale",
        "logging",
        "lzma",
        "math",
        "mimetypes",
        "multiprocessing",
        "numbers",
        "operator",
        "os",
        "pathlib",
        "pickle",
        "platform",
        "pprint",
        "queue",
        "random",
        "re",
        "resource",
        "secrets",
        "shelve",
        "shutil",
        "signal",
        "socket",
        "sqlite3",
        "statistics",
        "string",
        "struct",
        "subprocess",
        "sys",
        "tarfile",
        "tempfile",
        "textwrap",
        "threading",
        "time",
        "timeit",
        "token",
        "tokenize",
        "traceback",
        "types",
        "typing",
        "unicodedata",
        "unittest",
        "urllib",
        "uuid",
        "warnings",
        "weakref",
        "xml",
        "zipfile",
        "zlib",
    ]
)
_UNSAFE_TO_IMPORT = ("sklearn.experimental.", "sklearn.conftest", "sklearn.tests", "numpy.tests", "pandas.tests")


class Opaque:
    """An installed module that is not imported here: it exists, and nothing more is known."""

    def __init__(self, name: str) -> None:
        self.name = name


@functools.lru_cache(maxsize=4096)
def _resolve(name: str) -> ModuleType | Opaque | str:
    """The module, an opaque one, or the message of the ModuleNotFoundError."""
    top = name.partition(".")[0]
    if name.startswith(_UNSAFE_TO_IMPORT):
        return Opaque(name)
    if top in _SCIENTIFIC or top in _STANDARD:
        try:
            with warnings.catch_warnings(), clock_stopped():
                warnings.simplefilter("ignore")
                return importlib.import_module(name)
        except ModuleNotFoundError as error:
            return str(error)
        except Exception:
            return Opaque(name)
    if top in sys.stdlib_module_names or _exists(top):
        return Opaque(name)
    return f"No module named '{top}'"


def _exists(top: str) -> bool:
    try:
        return importlib.util.find_spec(top) is not None
    except (ImportError, ValueError):
        return False


def module(name: str) -> ModuleType | Opaque:
    """The module of that dotted name.

    Raises:
        Fault: ModuleNotFoundError, with Python's message.
    """
    found = _resolve(name)
    if isinstance(found, str):
        raise name_fault(found, "ModuleNotFoundError", second="ImportError")
    return found


def member(owner: ModuleType, owner_name: str, name: str) -> Any:
    """What ``from owner import name`` would bind.

    Raises:
        Fault: ImportError, with Python's message.
    """
    found = _member(owner, owner_name, name)
    if isinstance(found, Fault):
        raise Fault(found.check, found.exception, found.message, second=found.second)
    return found


@functools.lru_cache(maxsize=16384)
def _member(owner: ModuleType, owner_name: str, name: str) -> Any:
    try:
        return getattr(owner, name)
    except AttributeError:
        pass
    except ImportError as error:
        return name_fault(str(error), "ImportError")
    if hasattr(owner, "__path__"):
        submodule = _resolve(f"{owner_name}.{name}")
        if not isinstance(submodule, str):
            return submodule
    where = getattr(owner, "__file__", None) or "unknown location"
    return name_fault(f"cannot import name '{name}' from '{owner_name}' ({where})", "ImportError", second="NameError")


@functools.lru_cache(maxsize=16384)
def signature(target: Callable[..., Any]) -> inspect.Signature | None:
    """Signature of a real callable, None if Python cannot tell."""
    try:
        return inspect.signature(target)
    except (TypeError, ValueError):
        return None


@functools.lru_cache(maxsize=16384)
def class_attribute(cls: type, name: str) -> bool:
    """Whether objects of the class have that attribute by their class."""
    return any(name in base.__dict__ for base in cls.__mro__)


@functools.lru_cache(maxsize=4096)
def instance_attributes(cls: type) -> frozenset[str]:
    """Attributes that the class's own code assigns on ``self``, for example those a fit learns.

    Read from the source, because attributes such as ``coef_`` exist on no class.
    """
    import ast
    import textwrap

    found: set[str] = set()
    for base in cls.__mro__[:-1]:
        try:
            tree = ast.parse(textwrap.dedent(inspect.getsource(base)))
        except (OSError, TypeError, SyntaxError):
            return frozenset({"*"})
        found |= {
            node.attr
            for node in ast.walk(tree)
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and _is_self(node.value)
        }
    return frozenset(found)


def _is_self(node: Any) -> bool:
    return getattr(node, "id", None) == "self"
