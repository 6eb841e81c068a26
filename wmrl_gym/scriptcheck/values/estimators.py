"""Estimators, and what they learned from."""

from __future__ import annotations

import dataclasses
from typing import Any

from wmrl_gym.scriptcheck.cells import Cells
from wmrl_gym.scriptcheck.limits import tick
from wmrl_gym.scriptcheck.values.objects import Items
from wmrl_gym.scriptcheck.values.scalars import Const, Value


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
