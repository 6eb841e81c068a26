"""Names and everything else that a branch of the script may change, so that two branches can be run and joined."""

from __future__ import annotations

import dataclasses
from typing import Any

from wmrl_gym.scriptcheck.cells import Cells
from wmrl_gym.scriptcheck.limits import tick
from wmrl_gym.scriptcheck.values.data import Array, Frame, Series
from wmrl_gym.scriptcheck.values.estimators import Estimator
from wmrl_gym.scriptcheck.values.objects import Dict, Items
from wmrl_gym.scriptcheck.values.scalars import UNKNOWN, Const, Scalar, Text, Value


class Scope:
    """The names of one module or function call."""

    def __init__(self, name: str, parent: Scope | None = None, local_names: frozenset[str] = frozenset()) -> None:
        self.name = name
        self.parent = parent
        self.local_names = local_names
        """Names that are local to the function by the compiler's rule, bound yet or not."""
        self.names: dict[str, Value] = {}
        self.maybe: set[str] = set()
        """Names that are bound on some paths only."""
        self.outer_names: dict[str, str] = {}
        """Names declared ``global`` or ``nonlocal``."""
        self.returned: list[Value] = []
        """What paths that may or may not be taken would return."""
        self.open_ended = False
        """Whether an unknown ``import *`` may have bound anything."""


@dataclasses.dataclass
class Write:
    """One file that the script writes."""

    path: str | None
    """Absolute path, None if unknown."""
    line: int
    value: Value
    """The frame that was written, `UNKNOWN` if it was written by other means."""
    index: bool | None = True
    header: bool | None = True
    certain: bool = True
    columns: tuple[str, ...] | None = None
    separator: str | None = ","


@dataclasses.dataclass
class State:
    """All that changes while the script runs."""

    scopes: list[Scope]
    writes: list[Write] = dataclasses.field(default_factory=list)
    seconds: float = 0.0
    """Estimated wall-clock time so far."""
    memory_mb: float = 0.0
    """Largest single allocation so far."""

    @property
    def scope(self) -> Scope:
        """The innermost scope."""
        return self.scopes[-1]


def join_states(left: State, right: State) -> State:
    """What is known after an ``if`` whose condition is unknown."""
    for a, b in zip(left.scopes, right.scopes, strict=True):
        join_scopes(a, b)
    known = {id(w) for w in left.writes}
    common = min(len(left.writes), len(right.writes))
    for write in left.writes[common:]:
        write.certain = False
    for write in right.writes[common:]:
        if id(write) not in known:
            write.certain = False
            left.writes.append(write)
    left.seconds = max(left.seconds, right.seconds)
    left.memory_mb = max(left.memory_mb, right.memory_mb)
    return left


def join_scopes(a: Scope, b: Scope) -> None:
    """Fold scope `b` into scope `a`."""
    for name in set(a.names) | set(b.names):
        if name in a.names and name in b.names:
            a.names[name] = join_values(a.names[name], b.names[name])
        else:
            a.names[name] = a.names.get(name) or b.names[name]
            a.maybe.add(name)
    a.maybe |= b.maybe
    a.returned += [v for v in b.returned if v not in a.returned]
    a.open_ended |= b.open_ended


def join_values(a: Value, b: Value) -> Value:
    """A value that is one of the two."""
    tick()
    if a is b or a == b:
        return a
    if type(a) is not type(b):
        kind_a, kind_b = scalar_cells(a), scalar_cells(b)
        return Scalar(join_cells(kind_a, kind_b)) if kind_a is not None and kind_b is not None else UNKNOWN
    joiner = _JOINERS.get(type(a))
    return joiner(a, b) if joiner is not None else UNKNOWN


def scalar_cells(value: Value) -> Cells | None:
    """Kind of a single number or string, None if the value is not one."""
    if isinstance(value, Scalar):
        return value.cells
    if isinstance(value, Text):
        return Cells("str", missing=False)
    if isinstance(value, Const):
        kinds: dict[type, Any] = {bool: "bool", int: "int", float: "float", str: "str"}
        kind = kinds.get(type(value.value))
        if kind is None:
            return None
        number = value.value if kind in ("int", "float") else 0
        fractional = kind == "float" and number == number and not float(number).is_integer()
        return Cells(kind, missing=number != number, negative=bool(number < 0), fractional=fractional)
    return None


def join_cells(a: Cells, b: Cells) -> Cells:
    """What is known of values that are one of the two."""
    if a == b:
        return a
    return Cells(
        kind=a.kind if a.kind == b.kind else "unknown",
        missing=a.missing if a.missing == b.missing else None,
        negative=a.negative if a.negative == b.negative else None,
        fractional=a.fractional if a.fractional == b.fractional else None,
        sources=a.sources | b.sources,
        tags=a.tags | b.tags,
        predictors=a.predictors if a.predictors == b.predictors else (*a.predictors, *b.predictors),
        role=a.role if a.role == b.role else None,
    )


def _same(a: Any, b: Any) -> Any:
    return a if a == b else None


def _join_frames(a: Frame, b: Frame) -> Value:
    shared = {k: join_cells(c, b.columns[k]) for k, c in a.columns.items() if k in b.columns}
    complete = a.complete and b.complete and set(a.columns) == set(b.columns)
    absent = frozenset() if not (a.complete and b.complete) else a.absent & b.absent
    return Frame(
        shared, complete, _same(a.rows, b.rows), _same(a.origin, b.origin), absent, rest=join_cells(a.rest, b.rest)
    )


def _join_series(a: Series, b: Series) -> Value:
    return Series(join_cells(a.cells, b.cells), _same(a.rows, b.rows), _same(a.name, b.name), _same(a.origin, b.origin))


def _join_arrays(a: Array, b: Array) -> Value:
    shape = None
    if a.shape is not None and b.shape is not None and len(a.shape) == len(b.shape):
        shape = tuple(_same(m, n) for m, n in zip(a.shape, b.shape, strict=True))
    return Array(join_cells(a.cells, b.cells), shape, _same(a.sparse, b.sparse), _same(a.origin, b.origin))


def _join_items(a: Items, b: Items) -> Value:
    if a.kind != b.kind:
        return UNKNOWN
    if a.items is not None and b.items is not None and len(a.items) == len(b.items):
        return Items(a.kind, [join_values(m, n) for m, n in zip(a.items, b.items, strict=True)])
    either_element = join_values(a.representative(), b.representative())
    return Items(a.kind, None, either_element, _same(a.size, b.size))


def _join_constants(a: Const, b: Const) -> Value:
    left, right = scalar_cells(a), scalar_cells(b)
    return Scalar(join_cells(left, right)) if left is not None and right is not None else UNKNOWN


def _join_dicts(a: Dict, b: Dict) -> Value:
    if a.items is not None and b.items is not None and a.items.keys() == b.items.keys():
        return Dict({k: join_values(v, b.items[k]) for k, v in a.items.items()})
    return Dict(None)


def _join_estimators(a: Estimator, b: Estimator) -> Value:
    if a.cls is not b.cls:
        return UNKNOWN
    same = a.params.keys() == b.params.keys() and all(a.params[k] == b.params[k] for k in a.params)
    fitted = a.fit if (a.fit is None) == (b.fit is None) else None
    known = a.known and b.known and same and (a.fit is None) == (b.fit is None)
    return Estimator(a.cls, a.params, fitted, known)


_JOINERS: dict[type, Any] = {
    Frame: _join_frames,
    Series: _join_series,
    Array: _join_arrays,
    Items: _join_items,
    Const: _join_constants,
    Dict: _join_dicts,
    Estimator: _join_estimators,
    Scalar: lambda a, b: Scalar(join_cells(a.cells, b.cells)),
    Text: lambda a, b: Scalar(Cells("str", missing=False)),
}
