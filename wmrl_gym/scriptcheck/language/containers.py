"""Python's own containers and strings: lists, tuples, sets, dictionaries, text."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from wmrl_gym.scriptcheck.cells import Cells
from wmrl_gym.scriptcheck.faults import python_fault, runtime_fault
from wmrl_gym.scriptcheck.language.names import ENVIRONMENT
from wmrl_gym.scriptcheck.language.operators import binary
from wmrl_gym.scriptcheck.limits import MAX_ITEMS
from wmrl_gym.scriptcheck.models import Call, Evaluator, Models
from wmrl_gym.scriptcheck.scope import join_values
from wmrl_gym.scriptcheck.values.data import Array, Frame, Series
from wmrl_gym.scriptcheck.values.estimators import Estimator
from wmrl_gym.scriptcheck.values.objects import Bound, Dict, Function, Items, Real, constant
from wmrl_gym.scriptcheck.values.scalars import MISSING, NONE, UNKNOWN, Const, Scalar, Text, Value

MODELS = Models()

_PYTHON_TYPES: dict[str, type] = {"list": list, "tuple": tuple, "set": set}
_FEW = 16


def elements(interpreter: Evaluator, value: Value) -> list[Value] | None:
    """The elements that iterating over a value yields, None if they are not known one by one.

    Raises:
        Fault: TypeError if it cannot be iterated over.
    """
    if isinstance(value, Items):
        return value.items
    if isinstance(value, Dict):
        return None if value.items is None else [key_value(key) for key in value.items]
    if isinstance(value, Frame):
        return [Const(name) for name in value.columns] if value.complete else None
    if isinstance(value, Array) and value.shape and value.shape[0] is not None and value.shape[0] <= _FEW:
        return [element(interpreter, value)] * value.shape[0]
    if isinstance(value, Const):
        if isinstance(value.value, str | bytes | tuple) and len(value.value) > MAX_ITEMS:
            return None
        if isinstance(value.value, str | bytes | tuple):
            return [Const(part) for part in value.value]
        if isinstance(value.value, int | float | None):
            raise runtime_fault(f"'{type(value.value).__name__}' object is not iterable", "TypeError")
    if isinstance(value, Estimator) and not hasattr(value.cls, "__iter__") and not hasattr(value.cls, "__getitem__"):
        raise runtime_fault(f"'{value.cls.__name__}' object is not iterable", "TypeError")
    if isinstance(value, Function):
        raise runtime_fault("'function' object is not iterable", "TypeError")
    return None


def key_value(key: Any) -> Value:
    """A dictionary's key as a value."""
    return Items("tuple", [Const(part) for part in key]) if isinstance(key, tuple) else Const(key)


def element(interpreter: Evaluator, value: Value) -> Value:
    """A value that stands for every element of an iterable."""
    if isinstance(value, Items):
        return value.representative() if value.items is None else joined_element(value.items)
    if isinstance(value, Series):
        return Scalar(value.cells)
    if isinstance(value, Array) and value.shape:
        return Scalar(value.cells) if len(value.shape) == 1 else dataclasses.replace(value, shape=value.shape[1:])
    if isinstance(value, Frame | Text):
        return Scalar(Cells("str", missing=False))
    return UNKNOWN


def joined_element(items: list[Value]) -> Value:
    """A value that is one of these."""
    found = items[0] if items else UNKNOWN
    for item in items[1:]:
        found = join_values(found, item)
    return found


def length(value: Value) -> int | None:
    """``len(value)``, None if unknown."""
    if isinstance(value, Items):
        return value.size
    if isinstance(value, Dict):
        return None if value.items is None else len(value.items)
    if isinstance(value, Frame | Series | Array):
        return value.rows
    if isinstance(value, Const) and isinstance(value.value, str | bytes | tuple):
        return len(value.value)
    return None


def rounds_since(interpreter: Evaluator, value: Items) -> int | None:
    """How often a statement that is walked once runs, counted since the container was made."""
    inner = interpreter.loops[value.born :]
    return None if None in inner else math.prod(inner)  # type: ignore[arg-type]


def extend(interpreter: Evaluator, target: Items, addition: Value) -> None:
    """``target.extend(addition)``, in place."""
    new = elements(interpreter, addition)
    rounds = rounds_since(interpreter, target)
    few = target.items is not None and new is not None and len(target.items) + len(new) <= MAX_ITEMS
    if rounds == 1 and few:
        target.items = target.items + new  # type: ignore[operator]
        return
    size, added = target.size, length(addition)
    known = None not in (size, added, rounds)
    new_element = element(interpreter, addition)
    target.element = new_element if size == 0 else join_values(element(interpreter, target), new_element)
    target.items = None
    target.length = size + added * rounds if known else None  # type: ignore[operator]


@MODELS.method(Items, "append")
def _append(call: Call, target: Items) -> Value:
    if target.kind == "list" and call.args:
        extend(call.interpreter, target, Items("list", [call.args[0]]))
    return NONE


@MODELS.method(Items, "add")
def _add(call: Call, target: Items) -> Value:
    target.items, target.length = None, None
    return NONE


@MODELS.method(Items, "extend")
def _extend(call: Call, target: Items) -> Value:
    if call.args:
        extend(call.interpreter, target, call.args[0])
    return NONE


@MODELS.method(Items, "insert")
def _insert(call: Call, target: Items) -> Value:
    position = constant(call.first(0))
    if target.kind == "index":
        return Items("index", None)
    if target.items is not None and isinstance(position, int) and len(call.args) > 1:
        target.items.insert(position, call.args[1])
    else:
        target.items, target.length = None, None
    return NONE


@MODELS.method(Items, "remove")
def _remove(call: Call, target: Items) -> Value:
    wanted = constant(call.first(0))
    known = [constant(item) for item in target.items] if target.items is not None else [MISSING]
    if MISSING in known or wanted is MISSING:
        target.items, target.length = None, None
        return NONE
    if wanted not in known:
        if target.kind == "set":
            raise runtime_fault(repr(wanted), "KeyError")
        raise runtime_fault("list.remove(x): x not in list", "ValueError", second="KeyError")
    del target.items[known.index(wanted)]  # type: ignore[union-attr]
    return NONE


@MODELS.method(Items, "pop")
def _pop(call: Call, target: Items) -> Value:
    position = constant(call.first(0), -1)
    if target.items is None or not isinstance(position, int):
        return target.representative()
    if not -len(target.items) <= position < len(target.items):
        message = "pop index out of range" if target.items else "pop from empty list"
        raise runtime_fault(message, "IndexError")
    return target.items.pop(position)


@MODELS.method(Items, "index")
def _index(call: Call, target: Items) -> Value:
    wanted = constant(call.first(0))
    known = [constant(item) for item in target.items] if target.items is not None else [MISSING]
    if MISSING in known or wanted is MISSING:
        return Scalar(Cells("int", missing=False))
    if wanted not in known:
        raise runtime_fault(f"{wanted!r} is not in list", "ValueError")
    return Const(known.index(wanted))


@MODELS.method(Items, "copy", "tolist", "to_list")
def _copy(call: Call, target: Items) -> Value:
    kind = "list" if target.kind == "index" else target.kind
    items = None if target.items is None else list(target.items)
    return Items(kind, items, target.element, target.length, frame=target.frame)


@MODELS.method(Items, "clear")
def _clear(call: Call, target: Items) -> Value:
    target.items = []
    return NONE


@MODELS.method(Items, "sort", "reverse")
def _sort(call: Call, target: Items) -> Value:
    if target.items is not None:
        known = all(constant(item) is not MISSING for item in target.items)
        with python_fault(TypeError):
            target.items = sorted(target.items, key=constant) if known else None
    return NONE


@MODELS.method(Items, "drop")
def _index_drop(call: Call, target: Items) -> Value:
    dropped = constant(call.first(0))
    names = (
        [dropped] if isinstance(dropped, str) else [constant(v) for v in getattr(call.first(0), "items", None) or [0]]
    )
    if target.items is None or MISSING in names or call.first(0) is None:
        return Items("index", None, target.element)
    known = [constant(item) for item in target.items]
    lost = [name for name in names if name not in known]
    if lost and MISSING not in known:
        raise runtime_fault(f'"{lost} not found in axis"', "KeyError")
    return Items("index", [item for item, name in zip(target.items, known, strict=True) if name not in names])


@MODELS.method(Items, "difference", "intersection", "union")
def _index_algebra(call: Call, target: Items) -> Value:
    import ast

    from_set = Items("set", target.items, target.element)
    other = elements(call.interpreter, call.args[0]) if call.args else None
    name = call.callee
    op = {"difference": ast.Sub(), "intersection": ast.BitAnd(), "union": ast.BitOr()}.get(name, ast.Sub())
    result = binary(call.interpreter, op, from_set, Items("set", other))
    return Items(target.kind, result.items if isinstance(result, Items) else None, target.element)


_LIST_ATTRIBUTES = {"shape", "size", "values", "str", "ndim", "dtype", "T", "name", "names", "empty", "nlevels"}


@MODELS.attribute(Items)
def _items_attribute(interpreter: Evaluator, value: Items, name: str) -> Value:
    python_type = _PYTHON_TYPES.get(value.kind)
    if python_type is not None and not hasattr(python_type, name):
        message = f"'{value.kind}' object has no attribute '{name}'"
        raise runtime_fault(message, "AttributeError", second="TypeError")
    if value.kind == "index":
        import pandas as pd

        if not hasattr(pd.Index, name):
            raise runtime_fault(f"'Index' object has no attribute '{name}'", "AttributeError")
        if name == "values":
            return value
        if name in ("size",):
            return Scalar(Cells("int", missing=False)) if value.size is None else Const(value.size)
        if name in _LIST_ATTRIBUTES:
            return UNKNOWN
    return Bound(value, name)


@MODELS.subscript(Items)
def _items_subscript(interpreter: Evaluator, value: Items, key: Value) -> Value:
    position = constant(key)
    if value.kind == "set":
        raise runtime_fault("'set' object is not subscriptable", "TypeError")
    if value.kind == "generator":
        return UNKNOWN
    if isinstance(position, slice):
        if value.items is None:
            return Items(value.kind, None, value.element)
        return Items(value.kind, value.items[position])
    if isinstance(position, int):
        if value.items is None:
            return value.element
        if not -len(value.items) <= position < len(value.items):
            kind = "tuple" if value.kind == "tuple" else "list"
            raise runtime_fault(f"{kind} index out of range", "IndexError")
        return value.items[position]
    if isinstance(position, str) and value.kind in ("list", "tuple"):
        message = f"{value.kind} indices must be integers or slices, not str"
        raise runtime_fault(message, "TypeError", second="KeyError")
    if value.kind == "index" and isinstance(key, Items | Series | Array):
        return Items("index", None, value.representative())
    return value.representative() if value.items is None else joined_element(value.items)


@MODELS.store(Items)
def _items_store(interpreter: Evaluator, value: Items, key: Value, item: Value) -> None:
    position = constant(key)
    if value.kind == "tuple":
        raise runtime_fault("'tuple' object does not support item assignment", "TypeError")
    if value.items is None:
        value.element = join_values(value.element, item)
    elif isinstance(position, int) and -len(value.items) <= position < len(value.items):
        value.items[position] = item
    elif isinstance(position, int) and value.kind == "list":
        raise runtime_fault("list assignment index out of range", "IndexError")
    else:
        value.element, value.length, value.items = UNKNOWN, len(value.items), None


@MODELS.subscript(Function)
def _function_subscript(interpreter: Evaluator, value: Value, key: Value) -> Value:
    raise runtime_fault("'function' object is not subscriptable", "TypeError")


@MODELS.subscript(Real)
def _real_subscript(interpreter: Evaluator, value: Real, key: Value) -> Value:
    import inspect

    if inspect.ismodule(value.obj):
        raise runtime_fault("'module' object is not subscriptable", "TypeError")
    if value.name == "os.environ":
        name = constant(key)
        if name in ENVIRONMENT:
            return Const(ENVIRONMENT[name])
    return UNKNOWN
