"""Abstract values: what the analysis knows of each object a script handles, without ever making the object.

A data frame is its columns, their kinds and its number of rows; an array its shape; an estimator its class, its
parameters and what it was fitted on. Everything else is `Unknown`, which never fails a check.
"""

from __future__ import annotations

import ast
import copy
import dataclasses
from collections.abc import Hashable, Iterable
from typing import Any

from wmrl_gym.scriptcheck.cells import Cells, merge_cells
from wmrl_gym.scriptcheck.limits import MAX_ITEMS, MAX_PARTS, MAX_TEXT, tick


class Value:
    """Base of all abstract values."""


@dataclasses.dataclass(frozen=True)
class Unknown(Value):
    """Anything. No check has an opinion about it."""

    def __deepcopy__(self, memo: dict[int, Any]) -> Unknown:
        return self


UNKNOWN = Unknown()


@dataclasses.dataclass(frozen=True)
class Const(Value):
    """A Python constant: None, bool, number, str, bytes, slice or a NumPy dtype."""

    value: Any

    def __deepcopy__(self, memo: dict[int, Any]) -> Const:
        return self


NONE = Const(None)


@dataclasses.dataclass(frozen=True)
class Scalar(Value):
    """One number or string whose value is unknown but whose kind is not."""

    cells: Cells = dataclasses.field(default_factory=Cells)

    def __deepcopy__(self, memo: dict[int, Any]) -> Scalar:
        return self


@dataclasses.dataclass(frozen=True)
class Text(Value):
    """A string or path, parts of which may be unknown: pieces of text with `Cells` in the holes."""

    parts: tuple[str | Cells, ...]
    is_path: bool = False

    def __post_init__(self) -> None:
        if len(self.parts) > MAX_PARTS or sum(len(p) for p in self.parts if isinstance(p, str)) > MAX_TEXT:
            # A text that doubles in a loop would fill the memory: it becomes one hole.
            object.__setattr__(self, "parts", (Cells("str", missing=False),))
            return
        merged: list[str | Cells] = []
        for part in self.parts:
            if isinstance(part, str) and merged and isinstance(merged[-1], str):
                merged[-1] += part
            elif part != "":
                merged.append(part)
        object.__setattr__(self, "parts", tuple(merged))

    @property
    def literal(self) -> str | None:
        """The whole text, None if it has holes."""
        return "".join(self.parts) if all(isinstance(p, str) for p in self.parts) else None  # type: ignore[arg-type]

    def __deepcopy__(self, memo: dict[int, Any]) -> Text:
        return self


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


@dataclasses.dataclass(eq=False)
class Frame(Value):
    """A pandas DataFrame."""

    columns: dict[str, Cells]
    complete: bool = True
    """Whether `columns` are all there are."""
    rows: int | None = None
    origin: str | None = None
    """The file whose rows these are, one by one and in order."""
    absent: frozenset[str] = frozenset()
    """Columns that are certainly not there, where the frame is not complete."""
    dummies: tuple[tuple[str, str, int | None], ...] = ()
    """(column, file, distinct values) of each column that was spread into indicator columns."""
    index: str | None = None
    """Name of the column that became the index."""
    parts: tuple[tuple[str | None, int | None], ...] = ()
    """(file, rows) of the tables that were stacked to make it, in order."""
    rest: Cells = dataclasses.field(default_factory=Cells)
    """What is known of the columns that are not listed."""
    doubled: tuple[str, ...] = ()
    """Columns that are there more than once, one entry for each further time."""

    def lacks(self, name: Any) -> bool:
        """Whether the column is missing for certain."""
        return name not in self.columns and (self.complete or name in self.absent)

    def copy(self) -> Frame:
        """An independent frame with the same content."""
        return dataclasses.replace(self, columns=dict(self.columns))

    def with_columns(self, columns: dict[str, Cells], **changes: Any) -> Frame:
        """The same rows with other columns."""
        return dataclasses.replace(self, columns=columns, **changes)

    def cells(self) -> Cells:
        """All values put together."""
        return merge_cells([*self.columns.values(), *([] if self.complete else [self.rest])])

    @property
    def width(self) -> int | None:
        """Number of columns, None if unknown."""
        return len(self.columns) + len(self.doubled) if self.complete else None


@dataclasses.dataclass(eq=False)
class Series(Value):
    """A pandas Series."""

    cells: Cells
    rows: int | None = None
    name: str | None = None
    origin: str | None = None
    mask: bool = False
    """Whether it is a Boolean mask."""
    parts: tuple[tuple[str | None, int | None], ...] = ()
    """(file, rows) of what was stacked to make it."""
    index: tuple[str, Cells] | None = None
    """Name and values of its index, if they are not just numbers from 0."""


@dataclasses.dataclass(eq=False)
class Array(Value):
    """A NumPy array or a SciPy sparse matrix."""

    cells: Cells
    shape: tuple[int | None, ...] | None = None
    sparse: bool | None = False
    origin: str | None = None
    basis: int | None = None
    """Which fitted vocabulary its columns stand for, where their number is unknown."""
    density: float | None = None
    """Expected share of non-zero values of a sparse matrix."""
    likely_width: int | None = None
    """A guess at the number of columns where it is not known: good enough for what things cost."""

    @property
    def rows(self) -> int | None:
        """Length of the first axis."""
        return self.shape[0] if self.shape else None

    @property
    def ndim(self) -> int | None:
        """Number of axes."""
        return None if self.shape is None else len(self.shape)


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
class Fit:
    """What an estimator learned from: enough to judge what it may later be given."""

    names: tuple[str, ...] | None = None
    """Feature names, if it was fitted on a data frame whose columns are known."""
    width: int | None = None
    rows: int | None = None
    features: Cells = dataclasses.field(default_factory=Cells)
    target: Cells = dataclasses.field(default_factory=Cells)
    outputs: int | None = None
    """Columns of a two-dimensional target, None for a one-dimensional one."""
    columns: dict[str, Cells] = dataclasses.field(default_factory=dict)
    dummies: tuple[tuple[str, str, int | None], ...] = ()
    complete: bool = True
    is_frame: bool = False
    basis: int | None = None
    parts: dict[str, Any] = dataclasses.field(default_factory=dict)
    """Fitted parts of a composite estimator, by name."""


@dataclasses.dataclass(eq=False)
class Estimator(Value):
    """A scikit-learn estimator, transformer, pipeline or search."""

    cls: type
    params: dict[str, Value]
    fit: Fit | None = None
    known: bool = True
    """False if it was made with parameters that could not be followed."""

    def parameter(self, name: str, default: Any = None) -> Any:
        """The constant value of a parameter, `default` if it is not a constant."""
        value = self.params.get(name)
        return value.value if isinstance(value, Const) else default

    def clone(self) -> Estimator:
        """The same estimator, unfitted."""
        return Estimator(self.cls, {k: clone_value(v) for k, v in self.params.items()}, None, self.known)


def clone_value(value: Value) -> Value:
    """A parameter as scikit-learn's ``clone`` would copy it."""
    if isinstance(value, Estimator):
        return value.clone()
    if isinstance(value, Items) and value.items is not None:
        tick()
        return Items(value.kind, [clone_value(item) for item in value.items])
    return value


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


@dataclasses.dataclass(eq=False)
class GroupBy(Value):
    """The result of ``groupby``: `selected` is None for all columns."""

    frame: Frame
    keys: tuple[str, ...]
    selected: tuple[str, ...] | None = None
    single: bool = False


def strings(names: Iterable[Any], kind: str = "list") -> Items:
    """A sequence of constants, for example of column names."""
    return Items(kind, [Const(name) for name in names])


def constant_list(value: Value | None) -> list[Any] | None:
    """The Python values of a sequence of constants, None if any is not constant."""
    if isinstance(value, Items) and value.items is not None:
        found = [constant(item) for item in value.items]
        return None if MISSING in found else found
    return None


MISSING: Any = object()


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
