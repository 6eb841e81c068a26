"""What operators, attributes, elements and calls do, handed on to whoever models that kind of value."""

from __future__ import annotations

import ast
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from wmrl_gym.scriptcheck import installed
from wmrl_gym.scriptcheck.cells import Cells
from wmrl_gym.scriptcheck.faults import AnalysisLimit, Fault, api_fault, runtime_fault
from wmrl_gym.scriptcheck.language.containers import element, elements, length
from wmrl_gym.scriptcheck.language.names import SUBMISSION_PATH, Names
from wmrl_gym.scriptcheck.limits import tick
from wmrl_gym.scriptcheck.models import Call, Models
from wmrl_gym.scriptcheck.overview import Overview
from wmrl_gym.scriptcheck.scope import Scope, State, scalar_cells
from wmrl_gym.scriptcheck.values.data import Array, Frame, Series
from wmrl_gym.scriptcheck.values.estimators import Estimator
from wmrl_gym.scriptcheck.values.objects import Bound, Dict, Function, Items, Real, constant
from wmrl_gym.scriptcheck.values.scalars import MISSING, UNKNOWN, Const, Scalar, Text, Value
from wmrl_gym.scriptcheck.verdicts import Check
from wmrl_gym.scriptcheck.walk.objects import (
    call_object,
    call_unmodelled,
    call_unmodelled_method,
)

MAX_STEPS = 40_000


class Dispatch(Names):
    """State of the walk, and the hand-over to the models of values, functions and methods."""

    deepest = 8
    """Calls nested deeper than this are not followed."""

    def __init__(
        self, models: Models, overview: Overview | None, budget_seconds: float = 20.0, memory_mb: float = 2048.0
    ) -> None:
        self.models = models
        """What functions, methods and classes mean."""
        self.overview = overview
        self.budget_seconds = budget_seconds
        self.memory_limit_mb = memory_mb
        self.state = State([Scope("<module>")])
        self.steps = 0
        self.multiplicity = 1.0
        """How often the code being walked is executed, inside loops that are walked once."""
        self.loops: list[int | None] = []
        """Rounds of each such loop, from the outermost inwards."""
        self.handling: list[Fault] = []
        self.active: list[ast.AST] = []
        self.experimental = False
        self.changed_directory = False
        """Whether files may have appeared, or the working directory changed, by means that are not followed."""
        self.escaped = False
        """Whether the submission's path was handed to code that is not followed."""

    @property
    def depth(self) -> int:
        """Number of nested calls."""
        return len(self.state.scopes) - 1

    def count_step(self) -> None:
        """Give up on a script that would take too long to walk."""
        self.steps += 1
        tick()
        if self.steps > MAX_STEPS:
            raise AnalysisLimit(f"more than {MAX_STEPS} steps")

    def mark(self, fault: Fault, node: ast.AST) -> None:
        """Note on a passing fault which line of the current scope it comes from."""
        scope = self.state.scope
        if not any(scope is seen for seen in fault.marked):
            fault.marked.append(scope)
            fault.frames.append((getattr(node, "lineno", 0), scope.name))

    @contextmanager
    def repeated(self, times: int | None) -> Iterator[None]:
        """Code walked once on behalf of many rounds costs many rounds."""
        before = self.multiplicity
        self.multiplicity = before * (times if times is not None else 10)
        self.loops.append(times)
        try:
            yield
        finally:
            self.multiplicity = before
            self.loops.pop()

    # Attributes, elements, calls

    def attribute(self, value: Value, name: str) -> Value:
        """``value.name``."""
        model = self.models.attributes.get(type(value))
        return UNKNOWN if model is None else model(self, value, name)  # type: ignore[arg-type]

    def subscript(self, value: Value, key: Value) -> Value:
        """``value[key]``."""
        model = self.models.subscripts.get(type(value))
        return UNKNOWN if model is None else model(self, value, key)  # type: ignore[arg-type]

    def store(self, value: Value, key: Value, item: Value) -> None:
        """``value[key] = item``."""
        model = self.models.stores.get(type(value))
        if model is not None:
            model(self, value, key, item)  # type: ignore[arg-type]
        elif isinstance(value, Const) and isinstance(value.value, str | int | float | None | tuple):
            name = type(value.value).__name__
            raise runtime_fault(f"'{name}' object does not support item assignment", "TypeError")

    def delete_item(self, value: Value, key: Value) -> None:
        """``del value[key]``."""
        name = key.value if isinstance(key, Const) else None
        if isinstance(value, Frame) and isinstance(name, str):
            if value.lacks(name):
                raise Fault(Check.FILES_AND_COLUMNS, "KeyError", repr(name))
            value.columns.pop(name, None)
        elif isinstance(value, Dict) and value.items is not None:
            if name not in value.items:
                raise runtime_fault(repr(name), "KeyError")
            value.items.pop(name)

    def call(self, function: Value, call: Call) -> Value:
        """Call a value."""
        if isinstance(function, Function):
            return self.call_function(function, call.args, call.kwargs, call.open_ended)
        if isinstance(function, Bound):
            return self._call_method(function, call)
        if isinstance(function, Real):
            return self._call_real(function, call)

        return call_object(self, function, call)

    @abstractmethod
    def block(self, statements: Sequence[ast.stmt]) -> None:
        """Walk statements in order (see `Interpreter`)."""

    @abstractmethod
    def binary(self, operator: ast.operator, left: Value, right: Value) -> Value:
        """``left operator right`` (see `Expressions`)."""

    @abstractmethod
    def call_function(self, function: Function, args: list[Value], kwargs: dict[str, Value], open_ended: bool) -> Value:
        """Walk a function of the script (see `Interpreter`)."""

    def _call_method(self, method: Bound, call: Call) -> Value:
        call.callee = method.name.rpartition(".")[2]
        model = self.models.methods.get((type(method.receiver), method.name))
        if model is not None:
            return model(call, method.receiver)

        return call_unmodelled_method(call, method)

    def _call_real(self, function: Real, call: Call) -> Value:
        if isinstance(function.obj, installed.Opaque):
            return self.outside(call)
        if not callable(function.obj):
            raise api_fault(f"'{type(function.obj).__name__}' object is not callable")
        call.module, _, call.callee = function.name.rpartition(".")
        model = self.models.functions.get(function.name)
        if model is not None:
            return model(call)

        return call_unmodelled(call, function)

    def outside(self, call: Call) -> Value:
        """A call into code that is not followed: it may have written the submission if it was told where."""
        for value in [*call.args, *call.kwargs.values()]:
            text = value.value if isinstance(value, Const) else value.literal if isinstance(value, Text) else None
            if isinstance(text, str) and SUBMISSION_PATH.endswith(text.rsplit("/", 1)[-1] or " "):
                self.escaped = True
        return UNKNOWN

    def weaken(self, value: Value) -> Value:
        """A value of the same kind of which nothing else is known."""
        cells = scalar_cells(value)
        return UNKNOWN if cells is None else Scalar(Cells(cells.kind, missing=False))

    # Containers

    def elements(self, value: Value, at_most: int | None = None) -> list[Value] | None:
        """The elements that iterating yields, None if they are not known one by one (or too many)."""
        found = elements(self, value)
        return None if found is None or (at_most is not None and len(found) > at_most) else found

    def element(self, value: Value) -> Value:
        """A value that stands for every element."""
        return element(self, value)

    def length(self, value: Value) -> int | None:
        """``len(value)``, None if unknown."""
        return length(value)

    def truth(self, value: Value) -> bool | None:
        """``bool(value)``, None if unknown.

        Raises:
            Fault: for data frames and series, which have no truth value.
        """
        if isinstance(value, Const):
            return bool(value.value)
        if isinstance(value, Frame | Series) and not (isinstance(value, Series) and value.rows == 1):
            name = type(value).__name__.replace("Frame", "DataFrame")
            message = f"The truth value of a {name} is ambiguous. Use a.empty, a.bool(), a.item(), a.any() or a.all()."
            raise runtime_fault(message, "ValueError")
        if isinstance(value, Items | Dict):
            size = self.length(value)
            return None if size is None else size > 0
        if isinstance(value, Estimator | Function | Real | Bound):
            return True
        if isinstance(value, Text):
            return True if any(isinstance(part, str) and part for part in value.parts) else None
        if isinstance(value, Array) and value.shape is not None:
            many = value.rows is not None and value.rows > 1
            if many:
                message = "The truth value of an array with more than one element is ambiguous. Use a.any() or a.all()"
                raise runtime_fault(message, "ValueError")
        return None

    def hashable(self, value: Value) -> Any:
        """A dictionary key for a constant, None if the value is not one."""
        found = constant(value)
        if found is MISSING:
            return value.obj if isinstance(value, Real) else None
        return found

    def wrap(self, obj: Any, name: str) -> Value:
        """Abstract value of a real object."""
        if isinstance(obj, bool | int | float | str | bytes | None):
            return Const(obj)
        return Real(obj, name)

    def endless(self, reason: str) -> Fault:
        """The timeout that a loop without an end runs into."""
        message = f"execution timed out after {self.budget_seconds:g} s"
        return Fault(Check.COMPUTE_BUDGET, "TimeoutError", message, reason=reason)
