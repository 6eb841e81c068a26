"""What the models of functions, methods and operators may ask of whoever walks the script.

The interpreter does all of it. The models know this much of it and no more, so that they stand below it: what ``+`` or
``read_csv`` means does not depend on how statements are walked.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from wmrl_gym.scriptcheck.faults import Fault
from wmrl_gym.scriptcheck.overview import Overview
from wmrl_gym.scriptcheck.scope import State
from wmrl_gym.scriptcheck.values import Function, Value


class Evaluator(Protocol):
    """Evaluates expressions, and holds the state of the walk."""

    overview: Overview | None
    """The competition's brief."""
    state: State
    budget_seconds: float
    memory_limit_mb: float
    multiplicity: float
    """How often the code being walked is executed."""
    loops: list[int | None]
    """Rounds of each loop around it that is walked once, from the outermost inwards."""
    changed_directory: bool
    """Whether files may have appeared, or the working directory changed, by means that are not followed."""
    escaped: bool
    """Whether the submission's path was handed to code that is not followed."""

    def eval(self, node: ast.expr) -> Value:
        """Abstract value of an expression."""
        ...

    def block(self, statements: Sequence[ast.stmt]) -> None:
        """Walk statements in order."""
        ...

    def attribute(self, value: Value, name: str) -> Value:
        """``value.name``."""
        ...

    def subscript(self, value: Value, key: Value) -> Value:
        """``value[key]``."""
        ...

    def store(self, value: Value, key: Value, item: Value) -> None:
        """``value[key] = item``."""
        ...

    def binary(self, operator: ast.operator, left: Value, right: Value) -> Value:
        """``left operator right``."""
        ...

    def call(self, function: Value, call: Any) -> Value:
        """Call a value."""
        ...

    def call_function(self, function: Function, args: list[Value], kwargs: dict[str, Value], open_ended: bool) -> Value:
        """Walk a function of the script."""
        ...

    def outside(self, call: Any) -> Value:
        """A call into code that is not followed."""
        ...

    def repeated(self, times: int | None) -> AbstractContextManager[None]:
        """Code walked once on behalf of many rounds costs many rounds."""
        ...

    def elements(self, value: Value, at_most: int | None = None) -> list[Value] | None:
        """The elements that iterating yields, None if they are not known one by one (or too many)."""
        ...

    def element(self, value: Value) -> Value:
        """A value that stands for every element."""
        ...

    def length(self, value: Value) -> int | None:
        """``len(value)``, None if unknown."""
        ...

    def truth(self, value: Value) -> bool | None:
        """``bool(value)``, None if unknown."""
        ...

    def hashable(self, value: Value) -> Any:
        """A dictionary key for a constant, None if the value is not one."""
        ...

    def wrap(self, obj: Any, name: str) -> Value:
        """Abstract value of a real object."""
        ...

    def endless(self, reason: str) -> Fault:
        """The timeout that a loop without an end runs into."""
        ...
