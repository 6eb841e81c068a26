"""What a model of a function, method or operator is given, and the object that holds all models.

The interpreter does all that an `Evaluator` is asked for. The models know this much of it and no more, so that they
stand below it: what ``+`` or ``read_csv`` means does not depend on how statements are walked.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeVar

from wmrl_gym.scriptcheck import installed
from wmrl_gym.scriptcheck.arguments import bind_arguments, callable_name
from wmrl_gym.scriptcheck.faults import Fault
from wmrl_gym.scriptcheck.overview import Overview
from wmrl_gym.scriptcheck.scope import State
from wmrl_gym.scriptcheck.values.estimators import Estimator
from wmrl_gym.scriptcheck.values.objects import Function, constant
from wmrl_gym.scriptcheck.values.scalars import MISSING, Value


class Evaluator(Protocol):
    """Evaluates expressions, and holds the state of the walk."""

    models: Models
    """What functions, methods and classes mean."""
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

    def block(self, statements: Sequence[ast.stmt]) -> None:
        """Walk statements in order."""

    def attribute(self, value: Value, name: str) -> Value:
        """``value.name``."""

    def subscript(self, value: Value, key: Value) -> Value:
        """``value[key]``."""

    def store(self, value: Value, key: Value, item: Value) -> None:
        """``value[key] = item``."""

    def binary(self, operator: ast.operator, left: Value, right: Value) -> Value:
        """``left operator right``."""

    def call(self, function: Value, call: Call) -> Value:
        """Call a value."""

    def call_function(self, function: Function, args: list[Value], kwargs: dict[str, Value], open_ended: bool) -> Value:
        """Walk a function of the script."""

    def outside(self, call: Call) -> Value:
        """A call into code that is not followed."""

    def repeated(self, times: int | None) -> AbstractContextManager[None]:
        """Code walked once on behalf of many rounds costs many rounds."""

    def elements(self, value: Value, at_most: int | None = None) -> list[Value] | None:
        """The elements that iterating yields, None if they are not known one by one (or too many)."""

    def element(self, value: Value) -> Value:
        """A value that stands for every element."""

    def length(self, value: Value) -> int | None:
        """``len(value)``, None if unknown."""

    def truth(self, value: Value) -> bool | None:
        """``bool(value)``, None if unknown."""

    def hashable(self, value: Value) -> Any:
        """A dictionary key for a constant, None if the value is not one."""

    def wrap(self, obj: Any, name: str) -> Value:
        """Abstract value of a real object."""

    def endless(self, reason: str) -> Fault:
        """The timeout that a loop without an end runs into."""


class Call:
    """The arguments of one call; `bind` names them after the callee's parameters."""

    def __init__(
        self,
        interpreter: Evaluator,
        node: ast.AST,
        args: list[Value],
        kwargs: dict[str, Value],
        *,
        open_ended: bool = False,
    ) -> None:
        self.interpreter = interpreter
        self.node = node
        self.args = args
        self.kwargs = kwargs
        self.open_ended = open_ended
        """Whether ``*args`` or ``**kwargs`` of unknown content take part, so that nothing can be missing."""
        self.callee = ""
        """Plain name of what is called."""
        self.module = ""
        """Dotted name of the module or class that it was reached through."""
        self.bound: dict[str, Value] = dict(kwargs)

    def bind(self, target: Callable[..., Any], *, method: bool = False, quote: str | None = None) -> Call:
        """Check the arguments against the real signature and name them.

        Args:
            target: function, class, or (with `method`) a function whose first parameter is ``self``.
            method: whether the first parameter is filled by the receiver.
            quote: how Python's message calls it; its qualified name if not given.

        Raises:
            Fault: the TypeError that Python would raise.
        """
        signature = installed.signature(target)
        if signature is not None:
            parameters = list(signature.parameters.values())
            if method:
                parameters = parameters[1:]
            name = quote if quote is not None else callable_name(target)
            implicit = 1 if method or inspect.isclass(target) else 0
            self.bound = bind_arguments(
                self.args, self.kwargs, parameters, name, implicit=implicit, open_ended=self.open_ended
            )
        return self

    def get(self, name: str, default: Value | None = None) -> Value | None:
        """The value of a parameter; `default` if it was not given."""
        return self.bound.get(name, default)

    def constant(self, name: str, default: Any = None) -> Any:
        """The constant value of a parameter, `default` if not given, `MISSING` if given but not constant."""
        value = self.bound.get(name)
        return default if value is None else constant(value, MISSING)

    def first(self, index: int = 0) -> Value | None:
        """A positional argument, None if there are fewer."""
        return self.args[index] if index < len(self.args) else None


FunctionModel = Callable[[Call], Value]
MethodModel = Callable[[Call, Any], Value]
AttributeModel = Callable[[Evaluator, Any, str], Value]
SubscriptModel = Callable[[Evaluator, Any, Value], Value]
StoreModel = Callable[[Evaluator, Any, Value, Value], None]
Fitter = Callable[[Call, Estimator, "Value | None", "Value | None"], None]
Transformer = Callable[[Call, Estimator, "Value | None", bool], Value]
PredictorModel = Callable[[Call, Estimator, "Value | None", str], Value]

Key = TypeVar("Key")
Model = TypeVar("Model")


class Models:
    """What functions, methods and classes mean. Each file of models offers its own; `join` puts them together."""

    def __init__(self) -> None:
        self.functions: dict[str, FunctionModel] = {}
        """Of functions and classes, by the dotted name a script reaches them under."""
        self.methods: dict[tuple[type, str], MethodModel] = {}
        """By the receiver's abstract type and the method's name."""
        self.attributes: dict[type, AttributeModel] = {}
        """What ``value.name`` is, by abstract type."""
        self.subscripts: dict[type, SubscriptModel] = {}
        """What ``value[key]`` is, by abstract type."""
        self.stores: dict[type, StoreModel] = {}
        """What ``value[key] = item`` does, by abstract type."""
        self.fitters: dict[str, Fitter] = {}
        """How composite estimators and those with a fit of their own are fitted, by class name."""
        self.transformers: dict[str, Transformer] = {}
        """What ``transform`` returns, by class name."""
        self.predictors: dict[str, PredictorModel] = {}
        """What ``predict`` and its kin return, where it is not the common case, by class name."""

    def join(self, other: Models) -> None:
        """Take over what another one offers.

        Raises:
            ValueError: if both have a model of the same thing.
        """
        for mine, theirs in zip(vars(self).values(), vars(other).values(), strict=True):
            for key, model in theirs.items():
                _enter(mine, [key])(model)

    def function(self, *names: str, of: str = "") -> Callable[[FunctionModel], FunctionModel]:
        """Offer what follows as the meaning of these functions or classes.

        Args:
            *names: dotted names, or plain ones of a module's own.
            of: dotted name of that module.
        """
        return _enter(self.functions, [f"{of}.{name}" if of else name for name in names])

    def method(
        self, receiver: type, *names: str, bind: Callable[[Call, Any], None] | None = None
    ) -> Callable[[MethodModel], MethodModel]:
        """Offer what follows as the meaning of these methods of a receiver.

        Args:
            receiver: the abstract type.
            *names: of the methods.
            bind: names the arguments after the method's real parameters, before the model sees the call.
        """

        def register(model: MethodModel) -> MethodModel:
            _enter(self.methods, [(receiver, name) for name in names])(model if bind is None else _bound(model, bind))
            return model

        return register

    def attribute(self, kind: type) -> Callable[[AttributeModel], AttributeModel]:
        """Offer what follows as the meaning of ``value.name``."""
        return _enter(self.attributes, [kind])

    def subscript(self, kind: type) -> Callable[[SubscriptModel], SubscriptModel]:
        """Offer what follows as the meaning of ``value[key]``."""
        return _enter(self.subscripts, [kind])

    def store(self, kind: type) -> Callable[[StoreModel], StoreModel]:
        """Offer what follows as the meaning of ``value[key] = item``."""
        return _enter(self.stores, [kind])

    def fitter(self, *names: str) -> Callable[[Fitter], Fitter]:
        """Offer what follows as the way these classes are fitted."""
        return _enter(self.fitters, names)

    def transformer(self, *names: str) -> Callable[[Transformer], Transformer]:
        """Offer what follows as what these classes' ``transform`` returns."""
        return _enter(self.transformers, names)

    def predictor(self, *names: str) -> Callable[[PredictorModel], PredictorModel]:
        """Offer what follows as what these classes' ``predict`` and its kin return."""
        return _enter(self.predictors, names)


def _bound(model: MethodModel, bind: Callable[[Call, Any], None]) -> MethodModel:
    def bound(call: Call, receiver: Any) -> Value:
        bind(call, receiver)
        return model(call, receiver)

    return bound


def _enter(table: dict[Key, Model], keys: Iterable[Key]) -> Callable[[Model], Model]:
    def register(model: Model) -> Model:
        for key in keys:
            if key in table:
                raise ValueError(f"two models of {key}: {table[key]} and {model}; take one of them out")
            table[key] = model
        return model

    return register
