"""The arguments of a call, named after the real parameters of what it calls, as Python would."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from wmrl_gym.scriptcheck.faults import api_fault
from wmrl_gym.scriptcheck.values.scalars import Value


def callable_name(target: Any) -> str:
    """The name Python prints in a TypeError about arguments."""
    if inspect.isclass(target):
        owner = next((base for base in target.__mro__ if "__init__" in base.__dict__), target)
        initializer = owner.__dict__.get("__init__")
        return f"{getattr(initializer, '__qualname__', owner.__qualname__ + '.__init__')}() "
    if hasattr(target, "_skl_parameter_constraints"):
        return ""
    return f"{getattr(target, '__qualname__', getattr(target, '__name__', 'function'))}() "


def bind_arguments(
    args: Sequence[Value],
    kwargs: Mapping[str, Value],
    parameters: Sequence[inspect.Parameter],
    name: str,
    *,
    implicit: int = 0,
    open_ended: bool = False,
) -> dict[str, Value]:
    """Name the arguments as Python would.

    Args:
        args: positional arguments of the call.
        kwargs: its keyword arguments.
        parameters: the callee's parameters without ``self``.
        name: printed in front of the message, for example "read_csv() ".
        implicit: number of positional arguments that Python counts although the script does not write them.
        open_ended: whether ``*args`` or ``**kwargs`` of unknown content take part, so that nothing can be missing.

    Raises:
        Fault: TypeError for unexpected, superfluous, doubled or missing arguments.
    """
    kinds = inspect.Parameter
    positional = [p for p in parameters if p.kind in (kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD)]
    by_keyword = {p.name for p in parameters if p.kind in (kinds.KEYWORD_ONLY, kinds.POSITIONAL_OR_KEYWORD)}
    takes_any = any(p.kind is kinds.VAR_POSITIONAL for p in parameters)
    takes_any_keyword = any(p.kind is kinds.VAR_KEYWORD for p in parameters)
    if len(args) > len(positional) and not takes_any:
        raise api_fault(_too_many(name, positional, len(args), implicit), second="ValueError")
    bound: dict[str, Value] = {p.name: v for p, v in zip(positional, args, strict=False)}
    for keyword, value in kwargs.items():
        if keyword in by_keyword:
            if keyword in bound:
                raise api_fault(f"{name}got multiple values for argument '{keyword}'")
        elif not takes_any_keyword:
            raise api_fault(f"{name}got an unexpected keyword argument '{keyword}'", second="ValueError")
        bound[keyword] = value
    if not open_ended:
        _require(name, parameters, bound)
    return bound


def _too_many(name: str, positional: list[inspect.Parameter], given: int, implicit: int) -> str:
    most = len(positional) + implicit
    least = sum(p.default is inspect.Parameter.empty for p in positional) + implicit
    takes = f"from {least} to {most}" if least != most else f"{most}"
    were = "was" if given + implicit == 1 else "were"
    plural = "" if takes == "1" else "s"
    return f"{name}takes {takes} positional argument{plural} but {given + implicit} {were} given"


def _require(name: str, parameters: Sequence[inspect.Parameter], bound: dict[str, Value]) -> None:
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
