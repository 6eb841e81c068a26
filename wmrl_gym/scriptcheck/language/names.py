"""Names: where they are bound, where they are looked up, and what a misspelt one was meant to be."""

from __future__ import annotations

import ast
import builtins
import difflib
import functools
from abc import ABC, abstractmethod
from inspect import Parameter
from typing import Any

from wmrl_gym.scriptcheck.arguments import bind_arguments
from wmrl_gym.scriptcheck.faults import name_fault
from wmrl_gym.scriptcheck.scope import Scope, State
from wmrl_gym.scriptcheck.values.objects import Dict, Function, Items, Real
from wmrl_gym.scriptcheck.values.scalars import UNKNOWN, Const, Value

DATA_DIR = "/data"
SUBMISSION_PATH = "/scratch/submission.csv"
WORKING_DIRECTORY = "/scratch"

ENVIRONMENT: dict[str, str] = {"DATA_DIR": DATA_DIR, "SUBMISSION_PATH": SUBMISSION_PATH}
"""Environment variables that a script may rely on."""

PREDEFINED: dict[str, Value] = {
    "DATA_DIR": Const(DATA_DIR),
    "SUBMISSION_PATH": Const(SUBMISSION_PATH),
    "__name__": Const("__main__"),
    "__doc__": Const(None),
    "__file__": UNKNOWN,
    "__builtins__": UNKNOWN,
    "__spec__": UNKNOWN,
    "__package__": UNKNOWN,
    "__loader__": UNKNOWN,
}
"""What the sandbox binds before the script's first line."""


class Names(ABC):
    """Scopes of the script and the functions it defines."""

    state: State

    def bind_name(self, name: str, value: Value) -> None:
        """Bind a name where Python would."""
        scope = self._owner(name)
        scope.names[name] = value
        scope.maybe.discard(name)

    def unbind_name(self, name: str) -> None:
        """``del name``."""
        scope = self._owner(name)
        scope.names.pop(name, None)
        scope.maybe.discard(name)

    def _owner(self, name: str) -> Scope:
        scope = self.state.scope
        declared = scope.outer_names.get(name)
        if declared == "global":
            return self.state.scopes[0]
        if declared == "nonlocal":
            outer = scope.parent
            while outer is not None and name not in outer.names:
                outer = outer.parent
            return outer or scope
        return scope

    def look_up(self, name: str) -> Value:
        """The value of a name.

        Raises:
            Fault: NameError or UnboundLocalError.
        """
        scope: Scope | None = self.state.scope
        if name in self.state.scope.outer_names:
            scope = self._owner(name)
        elif scope is not None and name in scope.local_names and name not in scope.names:
            message = f"cannot access local variable '{name}' where it is not associated with a value"
            raise name_fault(message, "UnboundLocalError", second="NameError")
        while scope is not None:
            if name in scope.names:
                return UNKNOWN if name in scope.maybe else scope.names[name]
            if scope.open_ended:
                return UNKNOWN
            scope = scope.parent
        main = self.state.scopes[0]
        if name in main.names:
            return UNKNOWN if name in main.maybe else main.names[name]
        if name in PREDEFINED:
            return PREDEFINED[name]
        if hasattr(builtins, name):
            return Real(getattr(builtins, name), f"builtins.{name}")
        if main.open_ended:
            return UNKNOWN
        raise name_fault(f"name '{name}' is not defined{self._suggestion(name)}", second="AttributeError")

    def _suggestion(self, name: str) -> str:
        visible: list[str] = []
        for scope in self.state.scopes:
            visible += scope.names
        close = difflib.get_close_matches(name, [*visible, *dir(builtins)], n=1, cutoff=0.75)
        return f". Did you mean: '{close[0]}'?" if close else ""

    def function_value(self, node: ast.FunctionDef | ast.Lambda) -> Function:
        """The function that a ``def`` or ``lambda`` makes, its defaults evaluated now."""
        spec = node.args
        defaults: dict[str, Value] = {}
        positional = [*spec.posonlyargs, *spec.args]
        for argument, default in zip(positional[len(positional) - len(spec.defaults) :], spec.defaults, strict=True):
            defaults[argument.arg] = self.eval(default)
        for argument, keyword_default in zip(spec.kwonlyargs, spec.kw_defaults, strict=True):
            if keyword_default is not None:
                defaults[argument.arg] = self.eval(keyword_default)
        return Function(node, self.state.scope, defaults)

    @abstractmethod
    def eval(self, node: ast.expr) -> Value:
        """Evaluate an expression (see `Expressions`)."""

    def bind_parameters(
        self, function: Function, scope: Scope, args: list[Value], kwargs: dict[str, Value], open_ended: bool
    ) -> None:
        """Bind a call's arguments to the parameters of a function of the script."""
        spec = function.node.args
        parameters = parameters_of(function.node)
        bound = bind_arguments(args, kwargs, parameters, f"{function.name}() ", open_ended=open_ended)
        for parameter in parameters:
            scope.names[parameter.name] = bound.get(parameter.name, function.defaults.get(parameter.name, UNKNOWN))
        if spec.vararg is not None:
            positional = len(spec.posonlyargs) + len(spec.args)
            scope.names[spec.vararg.arg] = Items("tuple", None if open_ended else list(args[positional:]))
        if spec.kwarg is not None:
            named = {p.name for p in parameters}
            rest: dict[Any, Value] = {k: v for k, v in kwargs.items() if k not in named}
            scope.names[spec.kwarg.arg] = Dict(None if open_ended else rest)

    def local_names(self, node: ast.FunctionDef | ast.Lambda) -> frozenset[str]:
        """Names that Python's compiler makes local to the function."""
        return _local_names(node)


@functools.lru_cache(maxsize=512)
def parameters_of(node: ast.FunctionDef | ast.Lambda) -> tuple[Parameter, ...]:
    """Parameters of a function of the script, in the standard library's own type."""
    spec, found = node.args, []
    positional = [*spec.posonlyargs, *spec.args]
    first_default = len(positional) - len(spec.defaults)
    for position, argument in enumerate(positional):
        kind = Parameter.POSITIONAL_ONLY if position < len(spec.posonlyargs) else Parameter.POSITIONAL_OR_KEYWORD
        default: Any = Parameter.empty if position < first_default else None
        found.append(Parameter(argument.arg, kind, default=default))
    if spec.vararg is not None:
        found.append(Parameter(spec.vararg.arg, Parameter.VAR_POSITIONAL))
    for argument, keyword_default in zip(spec.kwonlyargs, spec.kw_defaults, strict=True):
        default = Parameter.empty if keyword_default is None else None
        found.append(Parameter(argument.arg, Parameter.KEYWORD_ONLY, default=default))
    if spec.kwarg is not None:
        found.append(Parameter(spec.kwarg.arg, Parameter.VAR_KEYWORD))
    return tuple(found)


@functools.lru_cache(maxsize=512)
def _local_names(node: ast.FunctionDef | ast.Lambda) -> frozenset[str]:
    if isinstance(node, ast.Lambda):
        return frozenset()
    found: set[str] = set()
    outer: set[str] = set()
    stack: list[ast.AST] = list(node.body)
    while stack:
        inner = stack.pop()
        if isinstance(inner, ast.FunctionDef | ast.ClassDef):
            found.add(inner.name)
            continue
        if isinstance(inner, ast.Lambda | ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
            continue
        if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store):
            found.add(inner.id)
        elif isinstance(inner, ast.Global | ast.Nonlocal):
            outer |= set(inner.names)
        elif isinstance(inner, ast.Import | ast.ImportFrom):
            found |= {(a.asname or a.name).partition(".")[0] for a in inner.names}
        elif isinstance(inner, ast.ExceptHandler) and inner.name:
            found.add(inner.name)
        stack.extend(ast.iter_child_nodes(inner))
    return frozenset(found - outer)
