"""Strings, numbers and paths: attributes, elements, and methods that are really called on constants."""

from __future__ import annotations

from wmrl_gym.scriptcheck.cells import Cells
from wmrl_gym.scriptcheck.faults import python_fault, runtime_fault
from wmrl_gym.scriptcheck.language.operators import pieces
from wmrl_gym.scriptcheck.limits import TooLarge, bounded_format, method_too_large, too_large
from wmrl_gym.scriptcheck.models import Call, Evaluator, Models
from wmrl_gym.scriptcheck.values.objects import Bound, constant, strings
from wmrl_gym.scriptcheck.values.scalars import MISSING, UNKNOWN, Const, Scalar, Text, Value

MODELS = Models()


@MODELS.attribute(Const)
def _const_attribute(interpreter: Evaluator, value: Const, name: str) -> Value:
    try:
        found = getattr(value.value, name)
    except AttributeError as error:
        raise runtime_fault(str(error), "AttributeError", second="TypeError") from None
    except Exception:
        return UNKNOWN
    if callable(found) and not isinstance(found, type):
        return Bound(value, name)
    return interpreter.wrap(found, name)


@MODELS.subscript(Const)
def _const_subscript(interpreter: Evaluator, value: Const, key: Value) -> Value:
    if value.value is None or isinstance(value.value, bool | int | float):
        raise runtime_fault(f"'{type(value.value).__name__}' object is not subscriptable", "TypeError")
    position = constant(key)
    if isinstance(value.value, str | bytes | tuple) and position is not MISSING:
        with python_fault(IndexError, TypeError):
            return Const(value.value[position])
    return UNKNOWN


def call_constant_method(call: Call, value: Const, name: str) -> Value:
    """A method of a string or number, really called where all arguments are constants too."""
    args = [constant(arg) for arg in call.args]
    kwargs = {key: constant(arg) for key, arg in call.kwargs.items()}
    if name == "join" and isinstance(value.value, str):
        return Scalar(Cells("str", missing=False)) if MISSING in args else UNKNOWN
    if name == "format" and isinstance(value.value, str):
        return _format(call, value.value)
    if MISSING in args or MISSING in kwargs.values() or call.open_ended:
        return Scalar(Cells("str", missing=False)) if isinstance(value.value, str) and name != "split" else UNKNOWN
    if not isinstance(value.value, str | bytes | int | float | tuple):
        return UNKNOWN
    if method_too_large(value.value, name, args, kwargs):
        return UNKNOWN
    with python_fault(Exception):
        result = getattr(value.value, name)(*args, **kwargs)
    if too_large(result):
        return UNKNOWN
    if isinstance(result, list):
        return strings(result)
    if isinstance(result, tuple):
        return strings(result, "tuple")
    return Const(result) if isinstance(result, bool | int | float | str | bytes | None) else UNKNOWN


def _format(call: Call, template: str) -> Value:
    """``template.format(...)``: simple ``{}`` holes are followed, anything else is an unknown string."""
    args = [constant(arg) for arg in call.args]
    if MISSING not in args and not call.kwargs and not call.open_ended:
        try:
            with python_fault(AttributeError, IndexError, KeyError, TypeError, ValueError):
                return Const(bounded_format(template, args, {}))
        except TooLarge:
            return Scalar(Cells("str", missing=False))
    chunks = template.split("{}")
    if call.kwargs or len(chunks) != len(call.args) + 1 or any("{" in chunk for chunk in chunks):
        return Scalar(Cells("str", missing=False))

    parts: list[str | Cells] = [chunks[0]]
    for arg, chunk in zip(call.args, chunks[1:], strict=True):
        found = constant(arg)
        parts += [str(found)] if found is not MISSING else list(pieces(arg))
        parts.append(chunk)
    return Text(tuple(parts))


@MODELS.attribute(Text)
def _text_attribute(interpreter: Evaluator, value: Text, name: str) -> Value:
    from pathlib import PosixPath

    python_type: type = PosixPath if value.is_path else str
    if not hasattr(python_type, name):
        raise runtime_fault(f"'{python_type.__name__}' object has no attribute '{name}'", "AttributeError")
    if value.is_path and name in ("name", "stem", "suffix", "parent", "parts", "parents"):
        return _path_part(value, name)
    return Bound(value, name)


def _path_part(value: Text, name: str) -> Value:
    from pathlib import PurePosixPath

    if value.literal is None:
        return Scalar(Cells("str", missing=False)) if name in ("name", "stem", "suffix") else UNKNOWN
    found = getattr(PurePosixPath(value.literal), name)
    if isinstance(found, str):
        return Const(found)
    return Text((str(found),), is_path=True) if name == "parent" else UNKNOWN


@MODELS.attribute(Scalar)
def _scalar_attribute(interpreter: Evaluator, value: Scalar, name: str) -> Value:
    python_type = {"int": int, "float": float, "str": str, "bool": bool}.get(value.cells.kind)
    import numpy as np

    if python_type is str and not hasattr(str, name):
        raise runtime_fault(f"'str' object has no attribute '{name}'", "AttributeError")
    if python_type in (int, float) and not hasattr(python_type, name) and not hasattr(np.float64, name):
        raise runtime_fault(f"'{value.cells.kind}' object has no attribute '{name}'", "AttributeError")
    return Bound(value, name)


@MODELS.subscript(Scalar)
def _scalar_subscript(interpreter: Evaluator, value: Scalar, key: Value) -> Value:
    if value.cells.kind in ("int", "float", "bool"):
        if value.cells.missing is None:
            return UNKNOWN
        raise runtime_fault(f"'{value.cells.kind}' object is not subscriptable", "TypeError", confidence=0.8)
    return Scalar(Cells(value.cells.kind, missing=False)) if value.cells.kind == "str" else UNKNOWN
