"""Python's containers, functions and objects, and the constants among them."""

from __future__ import annotations

import ast
import copy
import dataclasses
from collections.abc import Hashable, Iterable
from typing import Any

from wmrl_gym.scriptcheck.limits import MAX_ITEMS
from wmrl_gym.scriptcheck.values.data import Frame
from wmrl_gym.scriptcheck.values.scalars import MISSING, UNKNOWN, Const, Text, Value


@dataclasses.dataclass(eq=False)
class Items(Value):
    """A list, tuple, set, pandas Index or lazy sequence."""

    kind: str
    items: list[Value] | None
    """The elements, None if they are not known one by one."""
    element: Value = UNKNOWN
    """What each element looks like, where `items` is None."""
    length: int | None = None
    born: int = 0
    """Number of loops, walked once for many rounds, that it was made inside."""
    frame: Frame | None = None
    """The frame whose columns these are."""

    @property
    def size(self) -> int | None:
        """Number of elements, None if unknown."""
        return self.length if self.items is None else len(self.items)

    def representative(self) -> Value:
        """A value that stands for every element."""
        if self.items is None:
            return self.element
        return self.items[0] if self.items else UNKNOWN


@dataclasses.dataclass(eq=False)
class Dict(Value):
    """A dictionary; `items` is None if its keys are not known."""

    items: dict[Hashable, Value] | None
    element: Value = UNKNOWN


@dataclasses.dataclass(frozen=True, eq=False)
class Real(Value):
    """A real object of an installed module: the module itself, a class, a function, a constant."""

    obj: Any
    name: str

    def __deepcopy__(self, memo: dict[int, Any]) -> Real:
        return self


@dataclasses.dataclass(eq=False)
class Instance(Value):
    """An object of a real class of which only the class (and perhaps a few facts) is known."""

    cls: type
    facts: dict[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(eq=False)
class Function(Value):
    """A function or lambda that the script defines."""

    node: ast.FunctionDef | ast.Lambda
    scope: Any
    """The scope it closes over."""
    defaults: dict[str, Value] = dataclasses.field(default_factory=dict)

    @property
    def name(self) -> str:
        """Its name, as a traceback prints it."""
        return self.node.name if isinstance(self.node, ast.FunctionDef) else "<lambda>"

    def __deepcopy__(self, memo: dict[int, Any]) -> Function:
        twin = Function(self.node, copy.deepcopy(self.scope, memo), copy.deepcopy(self.defaults, memo))
        memo[id(self)] = twin
        return twin


@dataclasses.dataclass(eq=False)
class Bound(Value):
    """A method looked up on a value, or an accessor such as ``.loc`` and ``.str``."""

    receiver: Value
    name: str


def strings(names: Iterable[Any], kind: str = "list") -> Items:
    """A sequence of constants, for example of column names."""
    return Items(kind, [Const(name) for name in names])


def constant_list(value: Value | None) -> list[Any] | None:
    """The Python values of a sequence of constants, None if any is not constant."""
    if isinstance(value, Items) and value.items is not None:
        found = [constant(item) for item in value.items]
        return None if MISSING in found else found
    return None


def constant(value: Value | None, default: Any = MISSING) -> Any:
    """The Python value of a constant, tuple of constants or literal text; `default` if it is none of these."""
    if isinstance(value, Const):
        return value.value
    if isinstance(value, Text) and not value.is_path and value.literal is not None:
        return value.literal
    if isinstance(value, Items) and value.kind == "tuple" and value.items is not None:
        found = _tuple_constant(value.items, [MAX_ITEMS])
        return default if found is MISSING else found
    return default


def _tuple_constant(items: list[Value], left: list[int]) -> Any:
    """The tuple of these constants; `MISSING` also if it has more parts, at all depths, than there are `left`."""
    left[0] -= len(items)
    if left[0] < 0:  # tuples of tuples of themselves double at each depth
        return MISSING
    found: list[Any] = []
    for item in items:
        nested = isinstance(item, Items) and item.kind == "tuple" and item.items is not None
        part = _tuple_constant(item.items, left) if nested else constant(item)  # type: ignore[attr-defined]
        if part is MISSING:
            return MISSING
        found.append(part)
    return tuple(found)
