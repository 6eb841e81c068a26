"""Calls of pandas methods, bound to pandas' own signatures, and arguments that name columns."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from typing import Any

from wmrl_gym.scriptcheck.models import Call
from wmrl_gym.scriptcheck.values.data import Frame, Series
from wmrl_gym.scriptcheck.values.objects import constant, constant_list
from wmrl_gym.scriptcheck.values.scalars import MISSING, NONE, Value


@functools.lru_cache(maxsize=2048)
def _method(class_name: str, name: str) -> Any:
    import pandas as pd

    return inspect.getattr_static(getattr(pd, class_name), name)


def bind_pandas(call: Call, receiver: Frame | Series) -> None:
    """Bind a call of a method to pandas' own signature."""
    target = _method("DataFrame" if isinstance(receiver, Frame) else "Series", call.callee)
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
