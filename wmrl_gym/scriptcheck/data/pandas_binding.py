"""Calls of pandas methods, bound to pandas' own signatures, and arguments that name columns."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from typing import Any

from wmrl_gym.scriptcheck.calls import METHODS, Call, MethodModel
from wmrl_gym.scriptcheck.values import MISSING, NONE, Frame, Value, constant, constant_list


def frame_method(*names: str, checked: bool = True) -> Any:
    """Register a model of DataFrame methods; the call's arguments are bound to pandas' own signature."""

    def register(model: MethodModel) -> MethodModel:
        for name in names:

            def bound(call: Call, frame: Any, name: str = name) -> Value:
                if checked:
                    bind_pandas(call, "DataFrame", name)
                return model(call, frame)

            METHODS[Frame, name] = bound
        return model

    return register


@functools.lru_cache(maxsize=2048)
def _method(class_name: str, name: str) -> Any:
    import pandas as pd

    return inspect.getattr_static(getattr(pd, class_name), name)


def bind_pandas(call: Call, class_name: str, name: str) -> None:
    """Bind a call to pandas' own signature of a method."""
    target = _method(class_name, name)
    if inspect.isfunction(target):
        call.bind(target, method=True)


def in_place(call: Call, frame: Frame, new: Frame) -> Value:
    """Hand back the new frame, or turn the old one into it where ``inplace=True``."""
    if call.constant("inplace", False) is not True:
        return new
    for field in dataclasses.fields(Frame):
        setattr(frame, field.name, getattr(new, field.name))
    return NONE


def names_of(value: Value | None) -> list[Any] | None:
    """One label or several, as a list; None if unknown."""
    single = constant(value)
    if single is not MISSING and not isinstance(single, tuple):
        return [single]
    return constant_list(value)
