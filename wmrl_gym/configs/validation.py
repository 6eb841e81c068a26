"""From nested plain data to typed objects, with an error that names the nearest right key.

Two shapes occur in a configuration: a section, which is a dataclass of ours, and a component, which names its class in
``_target_`` and gives its arguments. The arguments of a component are checked against the signature of that class, so
a user's own class is checked as ours are, without a schema beside it.
"""

from __future__ import annotations

import dataclasses
import difflib
import importlib
import inspect
import sys
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

T = TypeVar("T")


class ConfigError(ValueError):
    """A configuration that cannot be right: which key, what is wrong with it, and what was probably meant."""


def unknown_key(where: str, key: str, known: Iterable[str]) -> ConfigError:
    """The error for a key that does not exist, with the nearest one that does."""
    choices = sorted(known)
    full = f"{where}.{key}" if where else key
    close = difflib.get_close_matches(key, choices, n=1, cutoff=0.5)
    hint = f"did you mean '{where}.{close[0]}'?" if where and close else f"did you mean '{close[0]}'?" if close else ""
    lines = [f"unknown configuration key '{full}'" + (f": {hint}" if hint else "")]
    lines.append(f"  known here: {', '.join(choices) if choices else 'nothing'}")
    return ConfigError("\n".join(lines))


@dataclasses.dataclass(frozen=True)
class Component:
    """A class named in ``_target_`` with checked arguments, not built yet.

    Raises:
        ConfigError: if the target cannot be imported, does not take an argument, or takes it with another type.
    """

    target: str
    arguments: Mapping[str, Any]
    where: str = ""

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, Any], where: str = "") -> Component:
        """Read ``{"_target_": "module.Class", argument: value, ...}``."""
        if "_target_" not in mapping:
            raise ConfigError(f"'{where or 'configuration'}' has no _target_: name the class to build, 'module.Class'")
        target = str(mapping["_target_"])
        function = import_target(target, where)
        hints, open_ended = argument_types(function), _takes_any_keyword(function)
        arguments: dict[str, Any] = {}
        for key, value in mapping.items():
            if key == "_target_":
                continue
            path = f"{where}.{key}" if where else str(key)
            if key not in hints and not open_ended:
                raise unknown_key(where, key, hints)
            arguments[key] = _convert(value, hints.get(key, Any), path)
        return cls(target, arguments, where)

    def build(self, **extra: Any) -> Any:
        """Build nested components, then call the target; `extra` fills in what a file cannot hold."""
        function = import_target(self.target, self.where)
        arguments = {key: build(value) for key, value in self.arguments.items()}
        return function(**arguments, **extra)

    def require_trainable(self) -> None:
        """Refuse a policy that says of itself that it can only act.

        Raises:
            ConfigError: if the target has an attribute ``trainable`` that is False.
        """
        if getattr(import_target(self.target, self.where), "trainable", True) is False:
            raise ConfigError(
                f"'{self.where}._target_' is '{self.target}', which acts and cannot be trained\n"
                "  evaluate it with `wmrl evaluate`; to train, choose policy=causal_lm, policy=smollm2 or policy=nano."
            )

    def check(self, *, training: bool = False) -> None:
        """Ask the target whether it can be built with these arguments here, without building it.

        A target that knows carries a function in its attribute ``check_arguments``, which takes them all by name, and
        ``training``, and raises ValueError.

        Args:
            training: whether what is built is to be trained.

        Raises:
            ConfigError: if the target refuses.
        """
        check = getattr(import_target(self.target, self.where), "check_arguments", None)
        if check is None:
            return
        try:
            check(training=training, **self.arguments)
        except ValueError as error:
            raise ConfigError(f"'{self.where}' was refused: {error}") from error

    def takes(self, argument: str) -> bool:
        """Whether the target has an argument of this name."""
        return argument in argument_types(import_target(self.target, self.where))


def build(value: Any) -> Any:
    """Build every component inside plain data."""
    if isinstance(value, Component):
        return value.build()
    if isinstance(value, list):
        return [build(item) for item in value]
    return value


def import_target(target: str, where: str = "") -> Callable[..., Any]:
    """The class or function behind ``module.name`` or ``module:name``.

    Raises:
        ConfigError: if there is no such module or name.
    """
    module_name, _, name = target.replace(":", ".").rpartition(".")
    if not module_name or not name:
        raise ConfigError(f"'{where}' names '{target}': give a class or function as 'module.name'")
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        raise ConfigError(f"'{where}._target_' is '{target}', which cannot be imported: {error}") from error
    if not hasattr(module, name):
        public = [item for item in vars(module) if not item.startswith("_")]
        close = difflib.get_close_matches(name, public, n=1)
        raise ConfigError(
            f"'{where}._target_' is '{target}', but '{module_name}' has no '{name}'"
            + (f": did you mean '{module_name}.{close[0]}'?" if close else "")
        )
    return typing.cast("Callable[..., Any]", getattr(module, name))


def to_dataclass(cls: type[T], mapping: Mapping[str, Any], where: str = "") -> T:
    """Turn plain data into a dataclass, section by section.

    Args:
        cls: the dataclass. A field of type `Component` takes a mapping with ``_target_``.
        mapping: the plain data.
        where: dotted path of `mapping`, for messages.

    Raises:
        ConfigError: for an unknown or missing key, a value of the wrong type, or one that the dataclass refuses.
    """
    hints = typing.get_type_hints(cls)
    fields = {field.name: field for field in dataclasses.fields(cls) if field.init}  # type: ignore[arg-type]
    values: dict[str, Any] = {}
    for key, value in mapping.items():
        if key not in fields:
            raise unknown_key(where, str(key), fields)
        values[key] = _convert(value, hints[key], f"{where}.{key}" if where else str(key))
    for name, field in fields.items():
        if name not in values and field.default is field.default_factory is dataclasses.MISSING:
            raise ConfigError(f"configuration key '{f'{where}.{name}' if where else name}' is missing: give it a value")
    try:
        return cls(**values)
    except ValueError as error:
        raise ConfigError(f"'{where or cls.__name__}' was refused: {error}") from error


def argument_types(function: Callable[..., Any]) -> dict[str, Any]:
    """Name and annotation of each argument that can be given by name; `Any` where the annotation cannot be resolved."""
    if dataclasses.is_dataclass(function):
        hints = typing.get_type_hints(function)
    else:
        owner = function.__init__ if inspect.isclass(function) else function  # type: ignore[misc]
        hints = {name: _resolved(hint, owner) for name, hint in inspect.get_annotations(owner).items()}
    kinds = inspect.Parameter
    return {
        name: hints.get(name, Any)
        for name, parameter in inspect.signature(function).parameters.items()
        if parameter.kind in (kinds.POSITIONAL_OR_KEYWORD, kinds.KEYWORD_ONLY)
    }


def _resolved(hint: Any, owner: Any) -> Any:
    """The type behind a postponed annotation; Any where only a type checker sees the name."""
    if not isinstance(hint, str):
        return hint
    try:
        holder = types.SimpleNamespace(__annotations__={"it": hint})
        return typing.get_type_hints(holder, vars(sys.modules[owner.__module__]))["it"]
    except (NameError, TypeError, KeyError, AttributeError):
        return Any


def _takes_any_keyword(function: Callable[..., Any]) -> bool:
    parameters = inspect.signature(function).parameters.values()
    return any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters)


def _convert(value: Any, hint: Any, where: str) -> Any:
    """The value as the annotation wants it; plain data stays plain where the annotation says nothing we can check."""
    if isinstance(value, Mapping) and "_target_" in value:
        return Component.from_mapping(value, where)
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        return _convert_union(value, get_args(hint), where)
    if origin is Literal:
        if value not in get_args(hint):
            choices = ", ".join(map(str, get_args(hint)))
            close = difflib.get_close_matches(str(value), [str(choice) for choice in get_args(hint)], n=1)
            raise ConfigError(
                f"'{where}' is {value!r}: choose one of {choices}" + (f"; did you mean '{close[0]}'?" if close else "")
            )
        return value
    if isinstance(value, Mapping) and isinstance(hint, type) and _is_section(hint):
        return to_dataclass(hint, value, where)
    if origin is not None:
        return _convert_container(value, origin, get_args(hint), where)
    return _convert_scalar(value, hint, where)


def _is_section(hint: type) -> bool:
    return dataclasses.is_dataclass(hint) and hint is not Component


def _convert_union(value: Any, options: Sequence[Any], where: str) -> Any:
    if value is None and type(None) in options:
        return None
    errors = []
    for option in options:
        if option is type(None):
            continue
        try:
            return _convert(value, option, where)
        except ConfigError as error:
            errors.append(error)
    # A mapping that one dataclass nearly takes deserves that dataclass's message, not the last alternative's.
    raise errors[0]


def _convert_container(value: Any, origin: Any, arguments: Sequence[Any], where: str) -> Any:
    if not (isinstance(origin, type) and issubclass(origin, Sequence) and origin is not str):
        return value
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise ConfigError(f"'{where}' is {value!r}: give a list, for example [1, 2]")
    hint = arguments[0] if arguments and (origin is not tuple or arguments[-1] is Ellipsis) else None
    hints = [hint] * len(value) if hint is not None else list(arguments) or [Any] * len(value)
    if len(hints) != len(value):
        raise ConfigError(f"'{where}' has {len(value)} values: give {len(hints)}")
    items = [_convert(item, item_hint, f"{where}[{i}]") for i, (item, item_hint) in enumerate(zip(value, hints))]  # noqa: B905
    return tuple(items) if origin is tuple else items


def _convert_scalar(value: Any, hint: Any, where: str) -> Any:
    if hint is Path:
        if not isinstance(value, str):
            raise ConfigError(f"'{where}' is {value!r}: give a path")
        return Path(value).expanduser()
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    wanted = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}
    if hint in wanted and (not isinstance(value, hint) or (hint is int and isinstance(value, bool))):
        raise ConfigError(f"'{where}' is {value!r}: give {wanted[hint]}")
    if hint is Component:
        raise ConfigError(f"'{where}' is {value!r}: give a mapping with _target_, or choose a group member")
    return value
