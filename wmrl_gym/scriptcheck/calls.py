"""A call in the script, bound to the real signature of what it calls, and the table of calls the analysis models."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable
from typing import Any

from wmrl_gym.scriptcheck import installed
from wmrl_gym.scriptcheck.evaluator import Evaluator
from wmrl_gym.scriptcheck.faults import api_fault
from wmrl_gym.scriptcheck.values import MISSING, Value, constant


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
            self.bound = bind_arguments(self, parameters, name, implicit)
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


def callable_name(target: Any) -> str:
    """The name Python prints in a TypeError about arguments."""
    if inspect.isclass(target):
        owner = next((base for base in target.__mro__ if "__init__" in base.__dict__), target)
        initializer = owner.__dict__.get("__init__")
        return f"{getattr(initializer, '__qualname__', owner.__qualname__ + '.__init__')}() "
    if hasattr(target, "_skl_parameter_constraints"):
        return ""
    return f"{getattr(target, '__qualname__', getattr(target, '__name__', 'function'))}() "


def bind_arguments(call: Call, parameters: list[inspect.Parameter], name: str, implicit: int = 0) -> dict[str, Value]:
    """Name the arguments as Python would.

    Args:
        call: the call.
        parameters: the callee's parameters without ``self``.
        name: printed in front of the message, for example "read_csv() ".
        implicit: number of positional arguments that Python counts although the script does not write them.

    Raises:
        Fault: TypeError for unexpected, superfluous, doubled or missing arguments.
    """
    kinds = inspect.Parameter
    positional = [p for p in parameters if p.kind in (kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD)]
    by_keyword = {p.name for p in parameters if p.kind in (kinds.KEYWORD_ONLY, kinds.POSITIONAL_OR_KEYWORD)}
    takes_any = any(p.kind is kinds.VAR_POSITIONAL for p in parameters)
    takes_any_keyword = any(p.kind is kinds.VAR_KEYWORD for p in parameters)
    if len(call.args) > len(positional) and not takes_any:
        raise api_fault(_too_many(name, positional, len(call.args), implicit), second="ValueError")
    bound: dict[str, Value] = {p.name: v for p, v in zip(positional, call.args, strict=False)}
    for keyword, value in call.kwargs.items():
        if keyword in by_keyword:
            if keyword in bound:
                raise api_fault(f"{name}got multiple values for argument '{keyword}'")
        elif not takes_any_keyword:
            raise api_fault(f"{name}got an unexpected keyword argument '{keyword}'", second="ValueError")
        bound[keyword] = value
    if not call.open_ended:
        _require(name, parameters, bound)
    return bound


def _too_many(name: str, positional: list[inspect.Parameter], given: int, implicit: int) -> str:
    most = len(positional) + implicit
    least = sum(p.default is inspect.Parameter.empty for p in positional) + implicit
    takes = f"from {least} to {most}" if least != most else f"{most}"
    were = "was" if given + implicit == 1 else "were"
    plural = "" if takes == "1" else "s"
    return f"{name}takes {takes} positional argument{plural} but {given + implicit} {were} given"


def _require(name: str, parameters: list[inspect.Parameter], bound: dict[str, Value]) -> None:
    empty, kinds = inspect.Parameter.empty, inspect.Parameter
    for kind_name, wanted in (
        ("positional", (kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD)),
        ("keyword-only", (kinds.KEYWORD_ONLY,)),
    ):
        lacking = [p.name for p in parameters if p.kind in wanted and p.default is empty and p.name not in bound]
        if lacking:
            quoted = [f"'{item}'" for item in lacking]
            listed = quoted[0] if len(quoted) == 1 else ", ".join(quoted[:-1]) + f" and {quoted[-1]}"
            if len(quoted) > 2:
                listed = ", ".join(quoted[:-1]) + f", and {quoted[-1]}"
            plural = "" if len(lacking) == 1 else "s"
            raise api_fault(f"{name}missing {len(lacking)} required {kind_name} argument{plural}: {listed}")


FunctionModel = Callable[[Call], Value]
MethodModel = Callable[[Call, Any], Value]

FUNCTIONS: dict[str, FunctionModel] = {}
"""Models of functions and classes, by the dotted name a script reaches them under."""

METHODS: dict[tuple[type, str], MethodModel] = {}
"""Models of methods, by the receiver's abstract type and the method's name."""


def models(*names: str) -> Callable[[FunctionModel], FunctionModel]:
    """Register a function as the abstract meaning of these dotted names."""

    def register(model: FunctionModel) -> FunctionModel:
        for name in names:
            FUNCTIONS[name] = model
        return model

    return register


def methods(receiver: type, *names: str) -> Callable[[MethodModel], MethodModel]:
    """Register a function as the abstract meaning of these methods of a receiver."""

    def register(model: MethodModel) -> MethodModel:
        for name in names:
            METHODS[receiver, name] = model
        return model

    return register


AttributeModel = Callable[[Evaluator, Any, str], Value]
SubscriptModel = Callable[[Evaluator, Any, Value], Value]
StoreModel = Callable[[Evaluator, Any, Value, Value], None]

ATTRIBUTES: dict[type, AttributeModel] = {}
"""What ``value.name`` is, by abstract type."""

SUBSCRIPTS: dict[type, SubscriptModel] = {}
"""What ``value[key]`` is, by abstract type."""

STORES: dict[type, StoreModel] = {}
"""What ``value[key] = item`` does, by abstract type."""
