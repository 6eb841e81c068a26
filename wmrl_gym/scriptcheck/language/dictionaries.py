"""Dictionaries."""

from __future__ import annotations

from wmrl_gym.scriptcheck.faults import runtime_fault
from wmrl_gym.scriptcheck.language.containers import elements, joined_element, key_value
from wmrl_gym.scriptcheck.models import Call, Evaluator, Models
from wmrl_gym.scriptcheck.values.objects import Bound, Dict, Items, constant
from wmrl_gym.scriptcheck.values.scalars import MISSING, NONE, UNKNOWN, Const, Value

MODELS = Models()


@MODELS.attribute(Dict)
def _dict_attribute(interpreter: Evaluator, value: Dict, name: str) -> Value:
    if not hasattr(dict, name):
        message = f"'dict' object has no attribute '{name}'"
        raise runtime_fault(message, "AttributeError", second="TypeError")
    return Bound(value, name)


@MODELS.subscript(Dict)
def _dict_subscript(interpreter: Evaluator, value: Dict, key: Value) -> Value:
    wanted = interpreter.hashable(key)
    if value.items is None:
        return value.element
    if wanted is None and not isinstance(key, Const):
        return joined_element(list(value.items.values()))
    if wanted not in value.items:
        raise runtime_fault(repr(wanted), "KeyError")
    return value.items[wanted]


@MODELS.store(Dict)
def _dict_store(interpreter: Evaluator, value: Dict, key: Value, item: Value) -> None:
    wanted = interpreter.hashable(key)
    if value.items is not None and (wanted is not None or isinstance(key, Const)):
        value.items[wanted] = item
        return
    value.element = item if value.items is None or not value.items else UNKNOWN
    value.items = None


@MODELS.method(Dict, "keys")
def _keys(call: Call, value: Dict) -> Value:
    return Items("view", elements(call.interpreter, value))


@MODELS.method(Dict, "values")
def _values(call: Call, value: Dict) -> Value:
    return Items("view", None if value.items is None else list(value.items.values()), value.element)


@MODELS.method(Dict, "items")
def _dict_items(call: Call, value: Dict) -> Value:
    if value.items is None:
        return Items("view", None, Items("tuple", [UNKNOWN, value.element]))
    return Items("view", [Items("tuple", [key_value(k), v]) for k, v in value.items.items()])


@MODELS.method(Dict, "get")
def _get(call: Call, value: Dict) -> Value:
    wanted = constant(call.first(0))
    default = call.args[1] if len(call.args) > 1 else NONE
    if value.items is None or wanted is MISSING:
        return UNKNOWN
    return value.items.get(wanted, default)


@MODELS.method(Dict, "update", "setdefault", "pop", "clear", "popitem")
def _dict_change(call: Call, value: Dict) -> Value:
    other = call.first(0)
    known = isinstance(other, Dict) and other.items is not None and value.items is not None
    if known and call.callee == "update":
        value.items |= other.items  # type: ignore[union-attr, operator]
    else:
        value.items = None
    return UNKNOWN


@MODELS.method(Dict, "copy")
def _dict_copy(call: Call, value: Dict) -> Value:
    return Dict(None if value.items is None else dict(value.items), value.element)
