"""Python's built-in functions: really called on constants, modelled on the rest."""

from __future__ import annotations

import builtins
from typing import Any

from wmrl_gym.scriptcheck.cells import Cells
from wmrl_gym.scriptcheck.faults import Fault, api_fault, python_fault, runtime_fault, shape_fault
from wmrl_gym.scriptcheck.language.operators import type_name
from wmrl_gym.scriptcheck.language.paths import open_file
from wmrl_gym.scriptcheck.limits import MAX_ITEMS, MAX_WIDTH, too_large
from wmrl_gym.scriptcheck.models import Call, Models
from wmrl_gym.scriptcheck.scope import scalar_cells
from wmrl_gym.scriptcheck.values.data import Array, Frame, Series
from wmrl_gym.scriptcheck.values.estimators import Estimator
from wmrl_gym.scriptcheck.values.objects import Bound, Dict, Instance, Items, Real, constant
from wmrl_gym.scriptcheck.values.scalars import MISSING, NONE, UNKNOWN, Const, Scalar, Text, Unknown, Value

MODELS = Models()

_LONGEST_RANGE = 10_000


@MODELS.function("builtins.print")
def _print(call: Call) -> Value:
    for keyword in call.kwargs:
        if keyword not in ("sep", "end", "file", "flush"):
            raise api_fault(f"print() got an unexpected keyword argument '{keyword}'")
    return NONE


@MODELS.function("builtins.len")
def _len(call: Call) -> Value:
    if len(call.args) != 1:
        raise api_fault(f"len() takes exactly one argument ({len(call.args)} given)")
    value = call.args[0]
    size = call.interpreter.length(value)
    if size is not None:
        return Const(size)
    if isinstance(value, Const) and isinstance(value.value, int | float | None):
        raise runtime_fault(f"object of type '{type(value.value).__name__}' has no len()", "TypeError")
    if isinstance(value, Scalar) and value.cells.kind in ("int", "float", "bool") and value.cells.origin is not None:
        raise shape_fault(f"object of type '{value.cells.kind}' has no len()", "TypeError")
    if isinstance(value, Estimator) and not hasattr(value.cls, "__len__"):
        raise runtime_fault(f"object of type '{value.cls.__name__}' has no len()", "TypeError")
    if isinstance(value, Items) and value.kind == "generator":
        raise runtime_fault("object of type 'generator' has no len()", "TypeError")
    if isinstance(value, Array) and value.sparse:
        raise runtime_fault("sparse array length is ambiguous; use getnnz() or shape[0]", "TypeError")
    return Scalar(Cells("int", missing=False, negative=False, fractional=False))


@MODELS.function("builtins.range")
def _range(call: Call) -> Value:
    bounds = [constant(arg) for arg in call.args]
    if any(isinstance(bound, float | str) for bound in bounds):
        name = next(type(b).__name__ for b in bounds if isinstance(b, float | str))
        raise runtime_fault(f"'{name}' object cannot be interpreted as an integer", "TypeError")
    if MISSING in bounds or not bounds or not all(isinstance(b, int) for b in bounds):
        return Items("range", None, Scalar(Cells("int", missing=False, fractional=False)))
    with python_fault(TypeError, ValueError):
        numbers = range(*bounds)
    if len(numbers) > _LONGEST_RANGE:
        return Items("range", None, Scalar(Cells("int", missing=False, fractional=False)), len(numbers))
    return Items("range", [Const(number) for number in numbers])


@MODELS.function("builtins.enumerate")
def _enumerate(call: Call) -> Value:
    if not call.args:
        raise api_fault("enumerate() missing required argument 'iterable' (pos 1)")
    start = constant(call.args[1]) if len(call.args) > 1 else 0
    items = call.interpreter.elements(call.args[0])
    number = Scalar(Cells("int", missing=False, negative=False, fractional=False))
    if items is not None and isinstance(start, int):
        return Items("generator", [Items("tuple", [Const(start + i), item]) for i, item in enumerate(items)])
    element = Items("tuple", [number, call.interpreter.element(call.args[0])])
    return Items("generator", None, element, call.interpreter.length(call.args[0]))


@MODELS.function("builtins.zip")
def _zip(call: Call) -> Value:
    columns = [call.interpreter.elements(arg) for arg in call.args]
    cells = len(columns) * min((len(column) for column in columns if column is not None), default=0)
    if all(column is not None for column in columns) and cells <= 10 * MAX_ITEMS:
        return Items("generator", [Items("tuple", list(row)) for row in zip(*columns, strict=False)])  # type: ignore[arg-type]
    sizes = [call.interpreter.length(arg) for arg in call.args]
    element = Items("tuple", [call.interpreter.element(arg) for arg in call.args])
    known = [size for size in sizes if size is not None]
    return Items("generator", None, element, min(known) if len(known) == len(sizes) else None)


@MODELS.function("list", "tuple", "set", "sorted", "reversed", "frozenset", of="builtins")
def _sequence(call: Call) -> Value:
    name = call.callee
    kind = {"tuple": "tuple", "set": "set", "frozenset": "set", "reversed": "generator"}.get(name, "list")
    if not call.args:
        return Items(kind, [], born=len(call.interpreter.loops))
    source = call.args[0]
    items = call.interpreter.elements(source)
    if items is None:
        size = call.interpreter.length(source) if kind != "set" else None
        return Items(kind, None, call.interpreter.element(source), size)
    if name == "sorted":
        items = _sorted(items, bool(call.kwargs))
    elif kind == "set":
        items = _distinct(items)
    elif name == "reversed":
        items = items[::-1]
    return Items(kind, None if items is None else list(items), born=len(call.interpreter.loops))


def _sorted(items: list[Value], has_options: bool) -> list[Value] | None:
    keys = [constant(item) for item in items]
    if has_options or MISSING in keys:
        return None
    with python_fault(TypeError):
        return [item for _, item in sorted(zip(keys, items, strict=True), key=lambda pair: pair[0])]


def _distinct(items: list[Value]) -> list[Value] | None:
    keys = [constant(item) for item in items]
    return None if MISSING in keys else list(dict(zip(keys, items, strict=True)).values())


@MODELS.function("builtins.dict")
def _dict(call: Call) -> Value:
    items: dict[Any, Value] = {}
    if call.args:
        source = call.args[0]
        pairs = call.interpreter.elements(source)
        if isinstance(source, Dict) and source.items is not None:
            items |= source.items
        elif pairs is not None and all(
            isinstance(p, Items) and p.items is not None and len(p.items) == 2 for p in pairs
        ):
            items |= {call.interpreter.hashable(p.items[0]): p.items[1] for p in pairs}  # type: ignore[attr-defined]
        else:
            return Dict(None)
    return Dict(items | dict(call.kwargs.items()))


@MODELS.function("int", "float", "str", "bool", "abs", "round", of="builtins")
def _conversion(call: Call) -> Value:
    name = call.callee
    args = [constant(arg) for arg in call.args]
    plain = all(isinstance(arg, bool | int | float | str | None) for arg in args)
    if name == "round" and any(isinstance(arg, int) and abs(arg) > MAX_WIDTH for arg in args[1:]):
        # Rounding an integer to -n digits computes 10**n.
        return UNKNOWN
    if args and MISSING not in args and plain and not call.kwargs and hasattr(builtins, name):
        with python_fault(TypeError, ValueError, OverflowError):
            result = getattr(builtins, name)(*args)
            return UNKNOWN if too_large(result) else Const(result)
    source = call.first(0)
    if isinstance(source, Text) and name == "str":
        return Text(source.parts) if source.literal is None else Const(source.literal)
    _refuse_conversion(name, source)
    if name in ("abs", "round"):
        if isinstance(source, Frame | Series | Array):
            return source
        cells = scalar_cells(source) if source is not None else None
        return Scalar(cells.derived(negative=None)) if cells is not None else UNKNOWN
    if name == "str" and isinstance(source, Scalar):
        return Text((source.cells,))
    return Scalar(Cells(name, missing=False))


def _refuse_conversion(name: str, source: Value | None) -> None:
    if name in ("int", "float"):
        if isinstance(source, Items | Dict | Frame | Estimator) and not (
            isinstance(source, Items) and source.kind == "index"
        ):
            kind = type_name(source)
            message = f"{name}() argument must be a string, a bytes-like object or a real number, not '{kind}'"
            if name == "float":
                message = f"float() argument must be a string or a real number, not '{kind}'"
            raise runtime_fault(message, "TypeError")
        if isinstance(source, Series) and source.rows is not None and source.rows != 1:
            raise runtime_fault(f"cannot convert the series to <class '{name}'>", "TypeError")
        if isinstance(source, Array) and source.rows is not None and source.rows > 1:
            raise runtime_fault("only 0-dimensional arrays can be converted to Python scalars", "TypeError")


@MODELS.function("min", "max", "sum", of="builtins")
def _reduction(call: Call) -> Value:
    name = call.callee
    parts = (
        call.args
        if len(call.args) > 1 and name != "sum"
        else call.interpreter.elements(call.args[0])
        if call.args
        else []
    )
    known = [constant(part) for part in parts] if parts is not None else [MISSING]
    if MISSING not in known and not call.kwargs and (name != "sum" or len(call.args) == 1):
        with python_fault(TypeError, ValueError):
            return Const(getattr(builtins, name)(known))
    cells = scalar_cells(call.interpreter.element(call.args[0])) if len(call.args) == 1 else None
    if cells is not None and cells.kind == "str" and name == "sum":
        raise runtime_fault("unsupported operand type(s) for +: 'int' and 'str'", "TypeError")
    if parts is not None and name == "sum" and parts and isinstance(parts[0], Series | Array):
        return parts[0]
    return Scalar(Cells(cells.kind, missing=None)) if cells is not None else UNKNOWN


@MODELS.function("builtins.isinstance")
def _isinstance(call: Call) -> Value:
    if len(call.args) != 2:
        raise api_fault(f"isinstance expected 2 arguments, got {len(call.args)}")
    value, wanted = call.args
    if isinstance(value, Const) and isinstance(wanted, Real) and isinstance(wanted.obj, type):
        return Const(isinstance(value.value, wanted.obj))
    if isinstance(value, Estimator) and isinstance(wanted, Real) and isinstance(wanted.obj, type):
        return Const(issubclass(value.cls, wanted.obj))
    if isinstance(value, Frame | Series) and isinstance(wanted, Real) and isinstance(wanted.obj, type):
        return Const(wanted.obj.__name__ == type_name(value))
    return UNKNOWN


@MODELS.function("hasattr", "getattr", of="builtins")
def _attribute(call: Call) -> Value:
    name = constant(call.first(1))
    getter = call.callee == "getattr"
    if not call.args or not isinstance(name, str) or isinstance(call.args[0], Unknown):
        return UNKNOWN
    try:
        found = call.interpreter.attribute(call.args[0], name)
    except Fault:
        if not getter:
            return Const(False)
        if len(call.args) > 2:
            return call.args[2]
        raise
    if getter:
        return found
    return Const(True) if isinstance(found, Bound) else UNKNOWN


@MODELS.function("any", "all", of="builtins")
def _any_all(call: Call) -> Value:
    items = call.interpreter.elements(call.args[0]) if call.args else []
    verdicts = [call.interpreter.truth(item) for item in items] if items is not None else [None]
    name = call.callee
    if None in verdicts:
        return UNKNOWN
    return Const(any(verdicts) if name == "any" else all(verdicts))


@MODELS.function("map", "filter", of="builtins")
def _map(call: Call) -> Value:
    name = call.callee
    if len(call.args) != 2 or name == "filter":
        return Items("generator", None, call.interpreter.element(call.args[1]) if len(call.args) > 1 else UNKNOWN)
    function, source = call.args
    items = call.interpreter.elements(source, at_most=100)
    if items is not None:
        return Items("generator", [apply(call, function, item) for item in items])
    size = call.interpreter.length(source)
    with call.interpreter.repeated(size):
        return Items("generator", None, apply(call, function, call.interpreter.element(source)), size)


def apply(call: Call, function: Value, *args: Value) -> Value:
    """Call a value that was handed over as an argument."""
    return call.interpreter.call(function, Call(call.interpreter, call.node, list(args), {}))


@MODELS.function("builtins.type")
def _type(call: Call) -> Value:
    value = call.first(0)
    if isinstance(value, Estimator | Instance):
        return Real(value.cls, value.cls.__name__)
    return Real(type(value.value), type(value.value).__name__) if isinstance(value, Const) else UNKNOWN


@MODELS.function("builtins.exit", "builtins.quit", "sys.exit", "os._exit")
def _exit(call: Call) -> Value:
    raise ScriptExit(constant(call.first(0), None))


class ScriptExit(Fault):
    """``sys.exit``: with code 0 the script ends in peace, with any other it fails."""

    def __init__(self, code: Any) -> None:
        from wmrl_gym.scriptcheck.verdicts import Check

        super().__init__(Check.OTHER_RUNTIME, "SystemExit", str(code), reason="the script leaves by itself")
        self.peaceful = code is None or code == 0


@MODELS.function("builtins.input")
def _input(call: Call) -> Value:
    raise runtime_fault("EOF when reading a line", "EOFError")


@MODELS.function("builtins.open")
def _open(call: Call) -> Value:
    return open_file(call)
