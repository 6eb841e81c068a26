"""The reference of settings, made from the code: names, types and defaults by inspection, meanings from docstrings."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
import itertools
import re
import textwrap
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from wmrl_gym.configs.validation import Component, argument_types

MARK = "<!-- settings -->"
COMMANDS = (
    ("wmrl train", "wmrl_gym.configs.schema.TrainConfig"),
    ("wmrl evaluate", "wmrl_gym.configs.schema.EvaluateConfig"),
    ("wmrl export", "wmrl_gym.configs.schema.ExportConfig"),
    ("wmrl compare", "wmrl_gym.configs.schema.CompareConfig"),
    ("wmrl sft", "wmrl_gym.configs.schema.SupervisedConfig"),
    ("wmrl corpus", "wmrl_gym.configs.fidelity_schema.CorpusConfig"),
    ("wmrl fidelity", "wmrl_gym.configs.fidelity_schema.FidelityConfig"),
    ("wmrl plan", "wmrl_gym.configs.capacity_schema.PlanConfig"),
    ("wmrl serve", "wmrl_gym.configs.serve_schema.ServeConfig"),
)
"""Each command, and the type of its configuration."""
UNCHOSEN = (
    ("world_model.engine", "wmrl_gym.engines.openai_engine.OpenAIEngine"),
    ("world_model.engine", "wmrl_gym.engines.vllm_engine.VLLMEngine"),
    ("world_model.transport", "wmrl_gym.world_models.robometer.LeRobotTransport"),
)
"""What no shipped file chooses, but `_target_` on a command line can."""


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Put the tables where the mark is."""
    return markdown.replace(MARK, reference()) if MARK in markdown else markdown


def reference() -> str:
    """All sections as Markdown."""
    parts = []
    for target, heading in sections().items():
        rows = [f"| `{key}` | {default} | {meaning} |" for key, default, meaning in settings_of(target)]
        table = ["| key | default | meaning |", "| --- | --- | --- |", *rows, ""]
        parts += [f"## {heading}", "", f"`{target.__module__}.{target.__qualname__}`", "", *table]
    return "\n".join(parts)


def sections() -> dict[Any, str]:
    """Classes and functions whose arguments are settings; the heading of each says where it stands."""
    found: dict[Any, str] = {}
    for command, target in COMMANDS:
        _add(found, command, "", _import(target))
    for where, target in (*_shipped(), *UNCHOSEN):
        made = _import(target)
        _add(found, f"{where}: {made.__name__}", f"{where}.", made)
    return found


def _add(found: dict[Any, str], heading: str, prefix: str, target: Any) -> None:
    """Add a section, and those of the settings inside it."""
    if target in found:
        return
    found[target] = heading
    for name, annotation in argument_types(target).items():
        for kind in (annotation, *typing.get_args(annotation)):
            if dataclasses.is_dataclass(kind) and kind is not Component:
                _add(found, f"{prefix}{name}", f"{prefix}{name}.", kind)


def _shipped() -> Iterator[tuple[str, str]]:
    """Where the shipped configurations name a class or function, and which."""
    root = Path(importlib.import_module("wmrl_gym.configs").__file__ or "").parent
    files = [root / "sft.yaml"]
    for group in ("env", "policy", "world_model", "proxy", "algorithm", "execution"):
        files += sorted((root / group).glob("*.yaml"))
    for file in files:
        is_global = file.parent == root or "@package _global_" in file.read_text(encoding="utf-8")
        yield from _targets(yaml.safe_load(file.read_text(encoding="utf-8")), "" if is_global else file.parent.name)


def _targets(node: Any, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(node, dict):
        if "_target_" in node:
            yield path, node["_target_"]
        for key, value in node.items():
            yield from _targets(value, f"{path}.{key}" if path else key)


def _import(target: str) -> Any:
    module, _, name = target.rpartition(".")
    return getattr(importlib.import_module(module), name)


def settings_of(target: Any) -> Iterator[tuple[str, str, str]]:
    """Name, default and meaning of each argument; a default of nothing must be given."""
    meanings: dict[str, str] = {}
    # A subclass says only what differs from its bases.
    for owner in reversed(inspect.getmro(target)) if inspect.isclass(target) else (target,):
        meanings |= _attribute_docs(owner) | _argument_docs(inspect.cleandoc(owner.__doc__ or ""))
    for parameter in inspect.signature(target).parameters.values():
        if parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL):
            continue
        yield parameter.name, _default(target, parameter), _cell(meanings.get(parameter.name, ""))


def _default(target: Any, parameter: inspect.Parameter) -> str:
    if parameter.default is parameter.empty:
        return "*required*"
    field = getattr(target, "__dataclass_fields__", {}).get(parameter.name)
    if field is not None and field.default_factory is not dataclasses.MISSING:
        made = field.default_factory()
        return "see below" if dataclasses.is_dataclass(made) else _code(str(made))
    if parameter.default is None:
        return "`null`"
    if dataclasses.is_dataclass(parameter.default):
        return "see below"
    return _code(str(parameter.default).lower() if isinstance(parameter.default, bool) else str(parameter.default))


def _code(text: str) -> str:
    """As a span of code; an empty text is shown as one."""
    fence = "````" if "`" in text else "`"
    words = " ".join(text.split()).replace("|", "\\|") or '""'
    return f"{fence}{words}{fence}"


def _attribute_docs(target: Any) -> dict[str, str]:
    """The strings below a dataclass's fields."""
    if not dataclasses.is_dataclass(target):
        return {}
    body = ast.parse(textwrap.dedent(inspect.getsource(target))).body[0].body  # type: ignore[attr-defined, arg-type]
    pairs = itertools.pairwise(body)
    return {
        field.target.id: text.value.value
        for field, text in pairs
        if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant)
    }


def _argument_docs(docstring: str) -> dict[str, str]:
    """The section "Args" of a Google docstring."""
    section = re.search(r"^Args:\n((?:[ ]{4}.*\n?|\n)+)", docstring, re.MULTILINE)
    found: dict[str, str] = {}
    for entry in re.split(r"\n(?=\*{0,2}\w)", textwrap.dedent(section.group(1))) if section else ():
        name, colon, meaning = entry.partition(":")
        if colon:
            found[name.strip()] = meaning
    return found


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("``", "`")
