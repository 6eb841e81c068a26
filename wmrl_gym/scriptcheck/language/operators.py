"""What ``+``, ``<``, ``in`` and the other operators mean, for constants, containers and data."""

from __future__ import annotations

import ast
import dataclasses
import operator
from collections.abc import Callable
from typing import Any

from wmrl_gym.scriptcheck.cells import NUMERIC, Cells, merge_cells
from wmrl_gym.scriptcheck.faults import python_fault, runtime_fault, shape_fault
from wmrl_gym.scriptcheck.limits import (
    MAX_ITEMS,
    percent_too_large,
    too_large,
    too_large_to_add,
    too_large_to_multiply,
)
from wmrl_gym.scriptcheck.models import Evaluator
from wmrl_gym.scriptcheck.scope import scalar_cells
from wmrl_gym.scriptcheck.values.data import Array, Frame, Series
from wmrl_gym.scriptcheck.values.estimators import Estimator
from wmrl_gym.scriptcheck.values.objects import Dict, Function, Instance, Items, Real, constant
from wmrl_gym.scriptcheck.values.scalars import MISSING, NONE, UNKNOWN, Const, Scalar, Text, Unknown, Value

_UNARY: dict[type, Callable[[Any], Any]] = {
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
    ast.Invert: operator.invert,
}

_BINARY: dict[type, tuple[Callable[[Any, Any], Any], str, str]] = {
    ast.Add: (operator.add, "+", "add"),
    ast.Sub: (operator.sub, "-", "sub"),
    ast.Mult: (operator.mul, "*", "mul"),
    ast.Div: (operator.truediv, "/", "truediv"),
    ast.FloorDiv: (operator.floordiv, "//", "floordiv"),
    ast.Mod: (operator.mod, "%", "mod"),
    ast.Pow: (operator.pow, "** or pow()", "pow"),
    ast.BitAnd: (operator.and_, "&", "and_"),
    ast.BitOr: (operator.or_, "|", "or_"),
    ast.BitXor: (operator.xor, "^", "xor"),
    ast.MatMult: (operator.matmul, "@", "matmul"),
    ast.LShift: (operator.lshift, "<<", "lshift"),
    ast.RShift: (operator.rshift, ">>", "rshift"),
}

_COMPARE: dict[type, Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}

DATA = (Frame, Series, Array)
_LARGEST_FOLD = 10_000


def unary(interpreter: Evaluator, op: ast.unaryop, value: Value) -> Value:
    """``not``, ``-``, ``+`` and ``~``."""
    if isinstance(op, ast.Not):
        verdict = interpreter.truth(value)
        return UNKNOWN if verdict is None else Const(not verdict)
    if isinstance(value, Const):
        fold = _UNARY[type(op)]
        with python_fault(TypeError):
            return Const(fold(value.value))
    if isinstance(value, DATA):
        if isinstance(op, ast.USub):
            return _with_cells(value, _cells(value).derived(negative=None))
        return value
    return UNKNOWN


def binary(interpreter: Evaluator, op: ast.operator, left: Value, right: Value) -> Value:
    """``left op right``.

    Raises:
        Fault: TypeError, ZeroDivisionError or ValueError, where Python is certain to raise it.
    """
    fold, symbol, name = _BINARY[type(op)]
    a, b = constant(left), constant(right)
    if a is not MISSING and b is not MISSING:
        return _fold(fold, a, b)
    if isinstance(left, DATA) or isinstance(right, DATA):
        return _elementwise(op, name, left, right)
    if isinstance(left, Text) or isinstance(right, Text):
        return _text(op, left, right)
    if isinstance(left, Items) and isinstance(right, Items) and isinstance(op, ast.Add) and left.kind == right.kind:
        return _concatenate(left, right)
    if isinstance(left, Items) and isinstance(op, ast.Mult):
        return _repeat(left, right)
    if isinstance(left, Items) and isinstance(op, ast.Sub | ast.BitAnd | ast.BitOr) and left.kind in ("set", "index"):
        return _set_algebra(op, left, right)
    if isinstance(left, Dict) and isinstance(right, Dict) and isinstance(op, ast.BitOr):
        known = left.items is not None and right.items is not None
        return Dict({**left.items, **right.items} if known else None)  # type: ignore[dict-item]
    _refuse(symbol, left, right)
    return _scalar_arithmetic(op, left, right)


def _fold(fold: Callable[[Any, Any], Any], a: Any, b: Any) -> Value:
    sizes = [len(v) for v in (a, b) if isinstance(v, str | bytes | tuple)]
    numbers = [abs(v) for v in (a, b) if isinstance(v, int | float) and not isinstance(v, bool)]
    repeated = sizes and numbers and max(sizes) * max(numbers) > _LARGEST_FOLD
    if repeated or (fold is operator.pow and numbers and max(numbers) > 1000) or fold is operator.lshift:
        return UNKNOWN
    if fold is operator.add and too_large_to_add(a, b):
        return _unknown_like(a)
    if fold is operator.mul and too_large_to_multiply(a, b):
        return UNKNOWN
    if fold is operator.mod and isinstance(a, str | bytes) and percent_too_large(a, b):
        return _unknown_like(a)
    with python_fault(ArithmeticError, TypeError, ValueError):
        result = fold(a, b)
    if too_large(result):
        return _unknown_like(result)
    if isinstance(result, tuple):
        return Items("tuple", [Const(item) for item in result])
    return Const(result)


def _unknown_like(value: Any) -> Value:
    """What is left of a constant that is too large to be computed."""
    if isinstance(value, str):
        return Scalar(Cells("str", missing=False))
    return Items("tuple", None) if isinstance(value, tuple) else UNKNOWN


def _text(op: ast.operator, left: Value, right: Value) -> Value:
    """Strings and paths with unknown parts."""
    is_path = any(isinstance(v, Text) and v.is_path for v in (left, right))
    if is_path and isinstance(op, ast.Div):
        return Text((*pieces(left), "/", *pieces(right)), is_path=True)
    if isinstance(op, ast.Add):
        if is_path:
            raise runtime_fault("unsupported operand type(s) for +: 'PosixPath' and 'str'", "TypeError")
        for side in (left, right):
            if isinstance(side, Const) and not isinstance(side.value, str):
                name = type(side.value).__name__
                raise runtime_fault(f'can only concatenate str (not "{name}") to str', "TypeError")
        return Text((*pieces(left), *pieces(right)))
    if isinstance(op, ast.Mod):
        return Scalar(Cells("str", missing=False))
    return UNKNOWN


def pieces(value: Value) -> tuple[str | Cells, ...]:
    """The pieces of a string or path; one hole if it is unknown."""
    if isinstance(value, Text):
        return value.parts
    if isinstance(value, Const) and isinstance(value.value, str):
        return (value.value,)
    return (scalar_cells(value) or Cells(),)


def _concatenate(left: Items, right: Items) -> Value:
    if left.items is not None and right.items is not None and len(left.items) + len(right.items) <= MAX_ITEMS:
        return Items(left.kind, left.items + right.items)
    size = None if left.size is None or right.size is None else left.size + right.size
    return Items(left.kind, None, left.representative(), size)


def _repeat(items: Items, times: Value) -> Value:
    count = constant(times)
    if items.kind not in ("list", "tuple") or not isinstance(count, int):
        return Items(items.kind, None, items.representative())
    size = None if items.size is None else items.size * max(count, 0)
    if items.items is not None and size is not None and size <= _LARGEST_FOLD // 20:
        return Items(items.kind, items.items * count)
    return Items(items.kind, None, items.representative(), size)


def _set_algebra(op: ast.operator, left: Items, right: Value) -> Value:
    known = left.items is not None and isinstance(right, Items) and right.items is not None
    if left.kind == "index" or not known:
        return Items(left.kind, None, left.representative())
    ours = {constant(v): v for v in left.items or []}
    theirs = {constant(v): v for v in right.items or []}  # type: ignore[attr-defined]
    if MISSING in ours or MISSING in theirs:
        return Items("set", None, left.representative())
    if isinstance(op, ast.Sub):
        return Items("set", [v for k, v in ours.items() if k not in theirs])
    if isinstance(op, ast.BitAnd):
        return Items("set", [v for k, v in ours.items() if k in theirs])
    return Items("set", [*ours.values(), *(v for k, v in theirs.items() if k not in ours)])


def type_name(value: Value) -> str | None:
    """The name of a value's Python type, None if unknown."""
    if isinstance(value, Const):
        return type(value.value).__name__
    if isinstance(value, Items):
        return {"index": "Index"}.get(value.kind, value.kind)
    if isinstance(value, Text):
        return "PosixPath" if value.is_path else "str"
    if isinstance(value, Estimator | Instance):
        return value.cls.__name__
    if isinstance(value, Real):
        return type(value.obj).__name__
    names = {Dict: "dict", Frame: "DataFrame", Series: "Series", Array: "ndarray", Function: "function"}
    return names.get(type(value))


_SCALAR_TYPES = {"int", "float", "bool", "NoneType", "str"}


def _refuse(symbol: str, left: Value, right: Value) -> None:
    """Raise the TypeError of operands that never go together."""
    names = type_name(left), type_name(right)
    if isinstance(left, Scalar) or isinstance(right, Scalar) or None in names:
        return
    plain = _SCALAR_TYPES | {"list", "dict", "tuple", "set", "function"}
    estimators = isinstance(left, Estimator) or isinstance(right, Estimator)
    if estimators or (names[0] in plain and names[1] in plain and names[0] != names[1]):
        if names[0] == "list" and symbol == "+":
            raise runtime_fault(f'can only concatenate list (not "{names[1]}") to list', "TypeError")
        if (symbol == "*" and "int" in names) or (symbol == "%" and names[0] == "str"):
            return
        raise runtime_fault(f"unsupported operand type(s) for {symbol}: '{names[0]}' and '{names[1]}'", "TypeError")


def _scalar_arithmetic(op: ast.operator, left: Value, right: Value) -> Value:
    a, b = scalar_cells(left), scalar_cells(right)
    if a is None or b is None or not (a.kind in NUMERIC and b.kind in NUMERIC):
        return UNKNOWN
    return Scalar(_numeric_result(op, a, b))


def _numeric_result(op: ast.operator, a: Cells, b: Cells) -> Cells:
    merged = merge_cells([a, b])
    floating = "float" in (a.kind, b.kind) or isinstance(op, ast.Div)
    kind = "float" if floating else "int"
    if isinstance(op, ast.BitAnd | ast.BitOr | ast.BitXor) and a.kind == b.kind == "bool":
        kind = "bool"
    keeps_sign = isinstance(op, ast.Add | ast.Mult | ast.Div | ast.FloorDiv | ast.Mod)
    negative = False if keeps_sign and a.negative is False and b.negative is False else None
    fractional: bool | None = merged.fractional if isinstance(op, ast.Add | ast.Sub) else None
    if kind != "float":
        fractional = False
    missing = (
        merged.missing if not isinstance(op, ast.Div | ast.Mod | ast.FloorDiv | ast.Pow) else merged.missing or None
    )
    return merged.derived(
        kind=kind, negative=negative, fractional=fractional, missing=missing, unique=None, role=_role(a, b)
    )


def _role(a: Cells, b: Cells) -> str | None:
    """Averages of probabilities are probabilities, a shifted prediction is a prediction."""
    if a.role and b.role:
        return a.role if a.role == b.role else None
    return a.role or b.role


def _cells(value: Value) -> Cells:
    if isinstance(value, Frame):
        return value.cells()
    if isinstance(value, Series | Array):
        return value.cells
    return scalar_cells(value) or Cells()


def _with_cells(value: Value, cells: Cells) -> Value:
    if isinstance(value, Frame):
        return value.with_columns(dict.fromkeys(value.columns, cells))
    if isinstance(value, Series):
        return dataclasses.replace(value, cells=cells, mask=False)
    if isinstance(value, Array):
        return dataclasses.replace(value, cells=cells)
    return value


def _elementwise(op: ast.operator, name: str, left: Value, right: Value) -> Value:
    a, b = _cells(left), _cells(right)
    if isinstance(left, Unknown | Items) or isinstance(right, Unknown | Items):
        return _container(left, right, Cells(sources=a.sources | b.sources, tags=a.tags | b.tags))
    _refuse_text(name, left, right, a, b)
    _refuse_shapes(left, right)
    if a.kind in NUMERIC and b.kind in NUMERIC:
        cells = _numeric_result(op, a, b)
    elif a.kind == b.kind == "str" and isinstance(op, ast.Add):
        cells = merge_cells([a, b]).derived(kind="str", unique=None)
    else:
        cells = merge_cells([a, b]).derived(kind="unknown" if a.kind != "str" else "str", unique=None)
    container = _container(left, right, cells)
    both_masks = all(isinstance(v, Series) and v.mask for v in (left, right))
    if isinstance(container, Series) and both_masks:
        container.mask = True
    return container


def _refuse_text(name: str, left: Value, right: Value, a: Cells, b: Cells) -> None:
    """Pandas has no arithmetic between text and numbers."""
    for text_side, other, cells in ((left, right, b), (right, left, a)):
        if not isinstance(text_side, Series | Frame) or _cells(text_side).kind != "str" or cells.kind not in NUMERIC:
            continue
        if name in ("mul",) and cells.kind == "int":
            continue
        if isinstance(text_side, Frame) and not text_side.complete:
            continue
        kind = type_name(other) or cells.kind
        message = f"operation '{name}' not supported for dtype 'str' with object of type <class '{kind}'>"
        raise shape_fault(message, "TypeError", second="ValueError")


def _refuse_shapes(left: Value, right: Value) -> None:
    """NumPy's broadcasting rule."""
    shapes = [shape_of(v) for v in (left, right)]
    if not all(isinstance(v, Array | Series) for v in (left, right)) or None in shapes:
        return
    if isinstance(left, Series) and isinstance(right, Series):
        return
    first, second = shapes
    for m, n in zip(reversed(first or ()), reversed(second or ()), strict=False):
        if m is not None and n is not None and m != n and 1 not in (m, n):
            shown = " ".join(
                "(" + ",".join(str(k) for k in s or ()) + ("," if len(s or ()) == 1 else "") + ")" for s in shapes
            )
            raise shape_fault(f"operands could not be broadcast together with shapes {shown} ")


def shape_of(value: Value) -> tuple[int | None, ...] | None:
    """Shape of data, None if even the number of axes is unknown."""
    if isinstance(value, Array):
        return value.shape
    if isinstance(value, Series):
        return (value.rows,)
    if isinstance(value, Frame):
        return (value.rows, value.width)
    return None


def _container(left: Value, right: Value, cells: Cells) -> Value:
    """Which of the two operands the result looks like."""
    for kind in (Frame, Series):
        for side in (left, right):
            if isinstance(side, kind):
                return _with_cells(side, cells)
    arrays = [v for v in (left, right) if isinstance(v, Array)]
    biggest = max(arrays, key=lambda v: v.ndim or 0)
    unknown = any(v.shape is None for v in arrays)
    return dataclasses.replace(biggest, cells=cells, shape=None if unknown else biggest.shape)


def compare(interpreter: Evaluator, op: ast.cmpop, left: Value, right: Value) -> Value:
    """``left op right`` for comparisons, membership and identity.

    Raises:
        Fault: TypeError for an order between text and numbers.
    """
    if isinstance(op, ast.Is | ast.IsNot):
        verdict = _identical(left, right)
        return UNKNOWN if verdict is None else Const(verdict is isinstance(op, ast.Is))
    if isinstance(op, ast.In | ast.NotIn):
        verdict = contains(interpreter, right, left)
        return UNKNOWN if verdict is None else Const(verdict is isinstance(op, ast.In))
    ordered = not isinstance(op, ast.Eq | ast.NotEq)
    if isinstance(left, DATA) or isinstance(right, DATA):
        return _compare_data(ordered, left, right)
    a = _comparable(left)
    b = _comparable(right)
    if a is MISSING or b is MISSING:
        return Scalar(Cells("bool", missing=False)) if a is not MISSING or b is not MISSING else UNKNOWN
    try:
        return Const(bool(_COMPARE[type(op)](a, b)))
    except (TypeError, ValueError) as error:
        if ordered:
            raise runtime_fault(str(error), type(error).__name__) from None
        return Const(isinstance(op, ast.NotEq))


def _comparable(value: Value) -> Any:
    found = constant(value)
    if found is MISSING and isinstance(value, Real):
        return value.obj
    if found is MISSING and isinstance(value, Items) and value.items is not None:
        parts = [constant(item) for item in value.items]
        return MISSING if MISSING in parts else (set(parts) if value.kind == "set" else parts)
    return found


def _identical(left: Value, right: Value) -> bool | None:
    if right is NONE or right == NONE:
        if isinstance(left, Const):
            return left.value is None
        return None if isinstance(left, Unknown) else False
    if isinstance(left, Const) and isinstance(right, Const):
        return left.value is right.value
    if isinstance(left, Real) and isinstance(right, Real):
        return left.obj is right.obj
    return None


def contains(interpreter: Evaluator, container: Value, item: Value) -> bool | None:
    """``item in container``, None if unknown."""
    wanted = constant(item)
    if wanted is MISSING:
        return None
    if isinstance(container, Frame):
        return True if wanted in container.columns else (False if container.lacks(wanted) else None)
    if isinstance(container, Dict):
        return None if container.items is None else wanted in container.items
    text = constant(container)
    if isinstance(text, str):
        if not isinstance(wanted, str):
            name = type(wanted).__name__
            raise runtime_fault(f"'in <string>' requires string as left operand, not {name}", "TypeError")
        return wanted in text
    parts = interpreter.elements(container)
    if parts is None:
        return None
    known = [constant(part) for part in parts]
    if wanted in [k for k in known if k is not MISSING]:
        return True
    return None if MISSING in known else False


def _compare_data(ordered: bool, left: Value, right: Value) -> Value:
    a, b = _cells(left), _cells(right)
    if ordered and not isinstance(left, Frame) and not isinstance(right, Frame):
        kinds = {a.kind, b.kind}
        if "str" in kinds and kinds & NUMERIC:
            number = b if a.kind == "str" else a
            message = f"Invalid comparison between dtype=str and {number.kind}"
            raise shape_fault(message, "TypeError", second="ValueError")
    cells = Cells("bool", missing=False, negative=False, fractional=False, sources=a.sources | b.sources)
    result = _container(left, right, cells)
    if isinstance(result, Series):
        result.mask = True
    return result
