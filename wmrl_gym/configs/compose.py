"""Composing Hydra's YAML groups without Hydra's own application around it.

The compose API is used rather than ``@hydra.main``, so that the run directory, the logging and the process's working
directory stay ours. Overrides are checked against the composed groups first, because a near miss should be answered
with the right name.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml
from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import InterpolationKeyError, OmegaConfBaseException

from wmrl_gym.configs.schema import TasksConfig
from wmrl_gym.configs.validation import ConfigError, argument_types, import_target, unknown_key

CONFIG_DIR = Path(__file__).parent


def group_choices(config_dir: Path | None = None) -> dict[str, list[str]]:
    """The members of each configuration group, a user's own directory included."""
    choices: dict[str, set[str]] = {}
    for root in filter(None, (CONFIG_DIR, config_dir)):
        for file in sorted(root.glob("*/*.yaml")):
            choices.setdefault(file.parent.name, set()).add(file.stem)
    return {group: sorted(members) for group, members in sorted(choices.items())}


def compose_config(name: str, overrides: Sequence[str] = (), config_dir: Path | None = None) -> dict[str, Any]:
    """Compose one of our primary configurations with overrides in Hydra's syntax.

    Args:
        name: "train", "sft", "evaluate", "export", "compare", "corpus", "fidelity", "plan" or "serve".
        overrides: for example ``["experiment=quickstart", "algorithm.learning_rate=1e-4"]``.
        config_dir: another directory with groups in it, searched beside ours.

    Returns:
        The resolved configuration as plain data.

    Raises:
        ConfigError: for an unknown key, group or group member (the nearest right one is named), or bad syntax.
    """
    if config_dir is not None and not config_dir.is_dir():
        raise ConfigError(f"configuration directory '{config_dir}' does not exist")
    parsed = parse_overrides(overrides)
    choices = group_choices(config_dir)
    group_overrides = [item for item in parsed if _is_group(item, choices)]
    for item in group_overrides:
        _check_choice(item, choices)
    search_path = [f"hydra.searchpath=[{config_dir.resolve().as_uri()}]"] if config_dir is not None else []
    lines = [_group_line(item) for item in group_overrides]
    emptied = [item.key_or_group for item in group_overrides if item.value() is None]
    base = _without(_compose(name, search_path + lines), emptied)
    keys = {item.key_or_group: item.value() for item in parsed}
    targets = {key.removesuffix("._target_"): str(keys[key]) for key in keys if key.endswith("._target_")}
    for item in parsed:
        if item in group_overrides:
            continue
        _check_not_emptied(item, emptied)
        if item.is_add() or item.is_force_add() or item.is_delete():
            lines.append(str(item.input_line))
            continue
        _check_path(item.key_or_group, base, choices, targets)
        lines += _cleared(item, base)
        # Forced, because an argument that the class takes is right even where no file mentions it.
        lines.append(f"++{item.input_line}")
    config = _without(_compose(name, search_path + lines), emptied)
    _drop_arguments(config, base, targets)
    try:
        plain = OmegaConf.to_container(config, resolve=True, throw_on_missing=True)
    except InterpolationKeyError as error:
        missing = str(error).partition("'")[2].partition("'")[0]
        group, source = (str(key).partition(".")[0] for key in (error.full_key, missing))
        raise ConfigError(
            f"'{error.full_key}' is taken from '{missing}', which this configuration does not have\n"
            f"  the chosen member of '{group}' does not go with that of '{source}': choose another, or set "
            f"{error.full_key} yourself."
        ) from error
    except OmegaConfBaseException as error:
        raise ConfigError(f"the configuration cannot be resolved: {error}") from error
    assert isinstance(plain, dict)
    return {str(key): _scientific_numbers(value) for key, value in plain.items()}


def to_yaml(config: dict[str, Any]) -> str:
    """The configuration as YAML, keys in their order."""
    return yaml.safe_dump(config, sort_keys=False, allow_unicode=True, width=120)


def parse_overrides(overrides: Sequence[str]) -> list[Override]:
    """Overrides as Hydra reads them.

    Raises:
        ConfigError: for bad syntax.
    """
    try:
        return OverridesParser.create().parse_overrides(list(overrides))
    except HydraException as error:
        first = str(error).splitlines()[0]
        hint = "an override reads key=value, for example algorithm.learning_rate=1e-4"
        raise ConfigError(f"{first}\n  {hint}") from error


def _is_group(item: Override, choices: dict[str, list[str]]) -> bool:
    # "proxy=grpo" chooses a member; "proxy.anchors.fraction=1" and "world_model={...}" change values.
    return item.key_or_group in choices and (item.is_delete() or item.value() is None or isinstance(item.value(), str))


def _group_line(item: Override) -> str:
    # "world_model=null" reads as it should; Hydra wants a deletion.
    return f"~{item.key_or_group}" if item.value() is None and not item.is_delete() else str(item.input_line)


def _without(config: DictConfig, groups: Sequence[str]) -> DictConfig:
    """Take away what an experiment says of a group of which there is to be no member."""
    OmegaConf.set_struct(config, False)
    for group in groups:
        config.pop(group, None)
    OmegaConf.set_struct(config, True)
    return config


def _check_not_emptied(item: Override, emptied: Sequence[str]) -> None:
    group = item.key_or_group.split(".")[0]
    if group in emptied:
        raise ConfigError(
            f"'{item.key_or_group}' cannot be set: {group}=null takes '{group}' away\n  leave one of the two out."
        )


def _check_choice(item: Override, choices: dict[str, list[str]]) -> None:
    value = item.value()
    if isinstance(value, str) and value not in choices[item.key_or_group]:
        message = str(unknown_key("", value, choices[item.key_or_group]))
        raise ConfigError(message.replace("unknown configuration key", f"group '{item.key_or_group}' has no member", 1))


def _cleared(item: Override, base: DictConfig) -> list[str]:
    """Deletion of a component for which another one is given: Hydra would merge the arguments of the two."""
    value = item.value()
    another = isinstance(value, dict) and "_target_" in {str(key) for key in value}
    there = OmegaConf.select(base, item.key_or_group, throw_on_missing=False) is not None
    return [f"~{item.key_or_group}"] if another and there else []


def _drop_arguments(config: DictConfig, base: DictConfig, targets: dict[str, str]) -> None:
    """Where only a ``_target_`` was changed, take away what the old class had and the new one does not take."""
    OmegaConf.set_struct(config, False)
    for path, target in targets.items():
        node, old = OmegaConf.select(config, path), OmegaConf.select(base, path)
        if not isinstance(node, DictConfig) or not isinstance(old, DictConfig) or old.get("_target_") == target:
            continue
        taken = argument_types(import_target(target, path))
        for name in [name for name in old if name != "_target_" and name not in taken]:
            del node[name]


def _check_path(path: str, base: DictConfig, choices: dict[str, list[str]], targets: dict[str, str]) -> None:
    node: Any = base
    where = ""
    for key in path.split("."):
        if not isinstance(node, DictConfig):
            return  # below a list or a scalar: the typed dataclass says what is wrong
        if key not in node:
            known = {str(name) for name in node if name != "_target_"}
            if not where:
                known |= set(choices)
            if where in targets:
                known = set(argument_types(import_target(targets[where], where)))
            elif "_target_" in node:
                known |= set(argument_types(import_target(node["_target_"], where)))
            elif where == "tasks":  # a domain's file names only those that differ from the usual
                known |= set(argument_types(TasksConfig))
            if key not in known:
                raise unknown_key(where, key, known)
            return
        where = f"{where}.{key}" if where else key
        node = node._get_node(key)
        if node is None:
            return


def _compose(name: str, overrides: Sequence[str]) -> DictConfig:
    return copy.deepcopy(_composed(name, tuple(overrides)))


@lru_cache(maxsize=64)  # a comparison composes the same many times, and each takes a fifth of a second
def _composed(name: str, overrides: tuple[str, ...]) -> DictConfig:
    GlobalHydra.instance().clear()
    try:
        with initialize_config_dir(str(CONFIG_DIR), version_base="1.3", job_name="wmrl"):
            return compose(name, overrides=list(overrides))
    except (HydraException, OmegaConfBaseException) as error:
        raise ConfigError(f"the configuration cannot be composed: {error}") from error


# YAML 1.1 wants a dot in a float, so "1e-4" in a file is text; nobody who writes it means text.
_SCIENTIFIC = re.compile(r"[+-]?\d+(\.\d*)?[eE][+-]?\d+")


def _scientific_numbers(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _scientific_numbers(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_scientific_numbers(item) for item in value]
    return float(value) if isinstance(value, str) and _SCIENTIFIC.fullmatch(value) else value
