"""Modules, classes and objects: real ones of installed packages, and those the script defines itself."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import math
from typing import Any

from wmrl_gym.scriptcheck import installed
from wmrl_gym.scriptcheck.arguments import callable_name
from wmrl_gym.scriptcheck.cells import Cells
from wmrl_gym.scriptcheck.data.series_methods import accessor_attribute
from wmrl_gym.scriptcheck.estimators.estimators import construct, is_estimator
from wmrl_gym.scriptcheck.faults import Fault, api_fault, name_fault, python_fault, runtime_fault
from wmrl_gym.scriptcheck.language.constants import call_constant_method
from wmrl_gym.scriptcheck.language.operators import type_name
from wmrl_gym.scriptcheck.limits import function_too_large, too_large
from wmrl_gym.scriptcheck.models import Call, Evaluator, Models
from wmrl_gym.scriptcheck.scope import Scope
from wmrl_gym.scriptcheck.values.data import Array, Frame, Series
from wmrl_gym.scriptcheck.values.estimators import Estimator
from wmrl_gym.scriptcheck.values.objects import Bound, Dict, Function, Instance, Items, Real, constant
from wmrl_gym.scriptcheck.values.scalars import MISSING, UNKNOWN, Const, Scalar, Text, Unknown, Value
from wmrl_gym.scriptcheck.verdicts import Check

MODELS = Models()


@dataclasses.dataclass(eq=False)
class ScriptClass(Value):
    """A class that the script defines."""

    node: ast.ClassDef
    scope: Scope
    plain: bool
    """Whether it inherits from nothing but ``object``, so that all its attributes are in the script."""


@dataclasses.dataclass(eq=False)
class ScriptObject(Value):
    """An object of such a class."""

    cls: ScriptClass
    attributes: dict[str, Value] = dataclasses.field(default_factory=dict)


def script_class(interpreter: Evaluator, node: ast.ClassDef) -> Value:
    """Evaluate a class body."""
    for base in node.bases:
        interpreter.eval(base)
    scope = Scope(node.name, interpreter.state.scope)
    interpreter.state.scopes.append(scope)
    depth = len(interpreter.state.scopes)
    try:
        interpreter.block(node.body)  # type: ignore[attr-defined]
    finally:
        del interpreter.state.scopes[depth - 1 :]
    if node.decorator_list or node.keywords:
        return UNKNOWN
    return ScriptClass(node, scope, plain=not node.bases)


def store_attribute(interpreter: Evaluator, value: Value, name: str, item: Value) -> None:
    """``value.name = item``."""
    if isinstance(value, ScriptObject):
        value.attributes[name] = item
    elif isinstance(value, Frame) and name == "columns":
        _rename_columns(interpreter, value, item)
    elif isinstance(value, Frame) and name in value.columns:
        interpreter.store(value, Const(name), item)
    elif isinstance(value, Estimator):
        value.known = False
    elif isinstance(value, Const | Items | Dict):
        kind = type_name(value)
        raise runtime_fault(f"'{kind}' object has no attribute '{name}'", "AttributeError")


def _rename_columns(interpreter: Evaluator, frame: Frame, names: Value) -> None:
    new = interpreter.elements(names)
    constants = [constant(n) for n in new] if new is not None else [MISSING]
    if not frame.complete or MISSING in constants:
        frame.columns, frame.complete = {}, False
        return
    if len(constants) != len(frame.columns):
        message = (
            f"Length mismatch: Expected axis has {len(frame.columns)} elements, new values have "
            f"{len(constants)} elements"
        )
        raise Fault(Check.FILES_AND_COLUMNS, "ValueError", message)
    frame.columns = dict(zip(constants, frame.columns.values(), strict=True))


# Attributes


@MODELS.attribute(Real)
def _real_attribute(interpreter: Evaluator, value: Real, name: str) -> Value:
    dotted = f"{value.name}.{name}"
    if isinstance(value.obj, installed.Opaque):
        return UNKNOWN
    if inspect.ismodule(value.obj):
        return interpreter.wrap(_module_member(value.obj, value.name, name), dotted)
    try:
        return interpreter.wrap(getattr(value.obj, name), dotted)
    except AttributeError as error:
        raise api_fault(str(error), "AttributeError", second="TypeError") from None
    except Exception:
        return UNKNOWN


def _module_member(owner: Any, owner_name: str, name: str) -> Any:
    try:
        return getattr(owner, name)
    except AttributeError as error:
        raise name_fault(str(error), "AttributeError", second="ImportError") from None
    except ImportError as error:
        raise name_fault(str(error), "ImportError") from None


@MODELS.attribute(Instance)
def _instance_attribute(interpreter: Evaluator, value: Instance, name: str) -> Value:
    if name in value.facts and isinstance(value.facts[name], Value):
        return value.facts[name]
    known = installed.class_attribute(value.cls, name)
    if not known and not _dynamic(value.cls):
        own = installed.instance_attributes(value.cls)
        if own and "*" not in own and name not in own:
            message = f"'{value.cls.__name__}' object has no attribute '{name}'"
            raise api_fault(message, "AttributeError", second="TypeError")
    return Bound(value, name) if known else UNKNOWN


def _dynamic(cls: type) -> bool:
    return "__getattr__" in dir(cls) or not cls.__module__.startswith(("sklearn", "numpy", "pandas", "PIL.Image"))


@MODELS.attribute(Bound)
def _bound_attribute(interpreter: Evaluator, value: Bound, name: str) -> Value:
    """``df["a"].str.lower``: a method of an accessor, or of a method that was not called."""
    if isinstance(value.receiver, Series) and value.name in ("str", "dt", "cat"):
        return _accessor_member(value.receiver, value.name, name)
    if isinstance(value.receiver, Frame) and value.name in ("loc", "iloc", "at", "iat", "plot", "style"):
        return UNKNOWN
    known = interpreter.models.methods.get((type(value.receiver), value.name))
    if known is not None and isinstance(value.receiver, Frame | Series | Estimator) and not name.startswith("__"):
        raise runtime_fault(f"'function' object has no attribute '{name}'", "AttributeError", confidence=0.85)
    return UNKNOWN


def _accessor_member(series: Series, accessor: str, name: str) -> Value:
    import pandas as pd

    if accessor != "dt" and not hasattr(getattr(pd.Series, accessor), name):
        shown = {"str": "StringMethods", "cat": "CategoricalAccessor"}[accessor]
        raise api_fault(f"'{shown}' object has no attribute '{name}'", "AttributeError", second="TypeError")
    found = accessor_attribute(series, f"{accessor}.{name}")
    return Bound(series, f"{accessor}.{name}") if found is None else found


@MODELS.attribute(Function)
def _function_attribute(interpreter: Evaluator, value: Function, name: str) -> Value:
    if not name.startswith("__"):
        raise runtime_fault(f"'function' object has no attribute '{name}'", "AttributeError")
    return UNKNOWN


@MODELS.attribute(ScriptObject)
def _script_object_attribute(interpreter: Evaluator, value: ScriptObject, name: str) -> Value:
    if name in value.attributes:
        return value.attributes[name]
    found = value.cls.scope.names.get(name)
    if found is not None:
        return Bound(value, name) if isinstance(found, Function) else found
    if value.cls.plain and "__getattr__" not in value.cls.scope.names and not name.startswith("__"):
        raise runtime_fault(f"'{value.cls.node.name}' object has no attribute '{name}'", "AttributeError")
    return UNKNOWN


@MODELS.attribute(ScriptClass)
def _script_class_attribute(interpreter: Evaluator, value: ScriptClass, name: str) -> Value:
    return value.scope.names.get(name, UNKNOWN)


# Calls


def call_object(interpreter: Evaluator, function: Value, call: Call) -> Value:
    """Call something that is neither a function nor a real callable.

    Raises:
        Fault: TypeError if it is certainly not callable.
    """
    if isinstance(function, ScriptClass):
        made = ScriptObject(function)
        initializer = function.scope.names.get("__init__")
        if isinstance(initializer, Function):
            interpreter.call_function(initializer, [made, *call.args], call.kwargs, call.open_ended)
        elif function.plain and (call.args or call.kwargs):
            raise api_fault(f"{function.node.name}() takes no arguments")
        return made
    if isinstance(function, Unknown | Instance | ScriptObject):
        return interpreter.outside(call)
    if isinstance(function, Scalar) and function.cells.kind == "unknown":
        return UNKNOWN
    raise runtime_fault(f"'{type_name(function) or 'object'}' object is not callable", "TypeError")


def call_unmodelled_method(call: Call, method: Bound) -> Value:
    """A method without a model of its own: its signature is checked, its result is unknown."""
    receiver = method.receiver
    if isinstance(receiver, ScriptObject):
        function = receiver.cls.scope.names.get(method.name)
        if isinstance(function, Function):
            return call.interpreter.call_function(function, [receiver, *call.args], call.kwargs, call.open_ended)
        return UNKNOWN
    if isinstance(receiver, Const):
        return call_constant_method(call, receiver, method.name)
    real_class = _class_of(receiver)
    target = inspect.getattr_static(real_class, method.name, None) if real_class is not None else None
    if inspect.isfunction(target):
        call.bind(target, method=True)
    call.interpreter.outside(call)
    return _plausible_result(receiver, method.name)


def _class_of(receiver: Value) -> type | None:
    if isinstance(receiver, Frame | Series | Array):
        import numpy as np
        import pandas as pd

        if isinstance(receiver, Array):
            return None if receiver.sparse is not False else np.ndarray
        return pd.DataFrame if isinstance(receiver, Frame) else pd.Series
    return receiver.cls if isinstance(receiver, Instance | Estimator) else None


def _plausible_result(receiver: Value, name: str) -> Value:
    if isinstance(receiver, Scalar) and receiver.cells.kind == "str":
        text = {"lower", "upper", "strip", "replace", "title", "lstrip", "rstrip", "zfill", "join"}
        return Scalar(Cells("str", missing=False)) if name in text else UNKNOWN
    if isinstance(receiver, Text) and not receiver.is_path:
        return Scalar(Cells("str", missing=False))
    if isinstance(receiver, Instance) and name in ("convert", "resize", "rotate", "crop", "copy"):
        return receiver
    return UNKNOWN


_PURE_MODULES = ("math.",)


def call_unmodelled(call: Call, function: Real) -> Value:
    """A real function or class without a model of its own."""
    target = function.obj
    if inspect.isclass(target):
        return _make(call, target, function.name)
    if function.name.startswith(_PURE_MODULES):
        return _really_call(call, target)
    if getattr(target, "__module__", None) and not inspect.isbuiltin(target):
        call.bind(target)
    return call.interpreter.outside(call)


def _make(call: Call, cls: type, name: str) -> Value:
    if is_estimator(cls):
        return construct(call, cls)
    if issubclass(cls, BaseException):
        message = constant(call.first(0), "")
        return Instance(cls, {"message": message if isinstance(message, str | int | float) else ""})
    if inspect.isfunction(cls.__dict__.get("__init__")):
        call.bind(cls, quote=callable_name(cls))
    call.interpreter.outside(call)
    return Instance(cls, dict(call.bound))


def _really_call(call: Call, target: Any) -> Value:
    args = [constant(arg) for arg in call.args]
    if MISSING in args or call.kwargs or call.open_ended or any(isinstance(a, int) and abs(a) > 10**6 for a in args):
        return Scalar(Cells("float", missing=None)) if not call.open_ended else UNKNOWN
    if function_too_large(target, args):
        return UNKNOWN
    with python_fault(ArithmeticError, TypeError, ValueError):
        result = target(*args)
    if isinstance(result, int):
        return UNKNOWN if too_large(result) else Const(result)
    return Const(result) if isinstance(result, float) and math.isfinite(result) else UNKNOWN
