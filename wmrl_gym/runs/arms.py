"""What `wmrl compare` is asked to run: arms out of overrides and sweeps, and the configuration of each run."""

from __future__ import annotations

import dataclasses
import itertools
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hydra.core.override_parser.types import Override, OverrideType

from wmrl_gym.configs.compose import compose_config, group_choices, parse_overrides
from wmrl_gym.configs.schema import CompareConfig, TrainConfig
from wmrl_gym.configs.validation import ConfigError, to_dataclass, unknown_key

SWEEP = "sweep."


@dataclass(frozen=True)
class Plan:
    """All runs of a comparison."""

    settings: CompareConfig
    folder: Path
    runs: Mapping[tuple[str, int], Mapping[str, Any]]
    """(arm, seed) -> resolved configuration of the run, as plain data."""
    overrides: Mapping[str, Sequence[str]]
    """Arm -> what makes it."""
    reference: str | None
    """The arm whose final score the others are to reach; None if there is none in which everything is executed."""

    @property
    def arms(self) -> list[str]:
        """Names of the arms, in their order."""
        return list(self.overrides)

    def config(self, arm: str, seed: int) -> TrainConfig:
        """The checked configuration of a run."""
        return TrainConfig.from_mapping(self.runs[arm, seed])


def plan_comparison(overrides: Sequence[str], config_dir: Path | None = None) -> Plan:
    """Sort a command line into what is the comparison's, what is swept, and what every run gets.

    Raises:
        ConfigError: for anything that cannot be right in any of it, or in a run that would come of it.
    """
    own, swept, common = _sorted(overrides, config_dir)
    settings = to_dataclass(CompareConfig, compose_config("compare", own))
    arms = _arms(settings, swept)
    runs: dict[tuple[str, int], dict[str, Any]] = {}
    for arm, seed in itertools.product(arms, settings.seeds):
        runs[arm, seed] = _run(arm, [*_besides(common, arms[arm]), *arms[arm], f"seed={seed}"], settings, config_dir)
    (first, _), plain = next(iter(runs.items()))
    experiment = str(plain["experiment_name"]).removesuffix(f"-{first}")
    folder = settings.folder or Path(plain["runs"]) / f"compare-{experiment}"
    return Plan(settings, folder.expanduser(), runs, arms, _reference(settings, runs, list(arms)))


def show_plan(plan: Plan) -> dict[str, Any]:
    """What would be run, as plain data."""
    config = plan.config(plan.arms[0], plan.settings.seeds[0])
    return {
        "folder": str(plan.folder),
        "seeds": list(plan.settings.seeds),
        "reference": plan.reference,
        "steps": config.algorithm.build().steps,
        "evaluation_every": config.evaluation.every,
        "arms": {arm: list(overrides) for arm, overrides in plan.overrides.items()},
    }


def _sorted(overrides: Sequence[str], config_dir: Path | None) -> tuple[list[str], dict[str, list[Any]], list[str]]:
    own_keys = {field.name for field in dataclasses.fields(CompareConfig)}
    run_keys = {field.name for field in dataclasses.fields(TrainConfig)} | set(group_choices(config_dir))
    own: list[str] = []
    swept: dict[str, list[Any]] = {}
    common: list[str] = []
    for item in parse_overrides(overrides):
        key, first = item.key_or_group, item.key_or_group.split(".")[0]
        if key.startswith(SWEEP):
            swept[key.removeprefix(SWEEP)] = _sweep_values(key, item)
        elif first in own_keys:
            # A new arm is as welcome as a changed one.
            own.append(f"++{item.input_line}" if key.startswith("arms.") and item.type is OverrideType.CHANGE else
                       str(item.input_line))  # fmt: skip
        elif key == "seed":
            raise ConfigError("a comparison has seeds, not a seed: give seeds=[0,1,2]")
        elif first not in run_keys:
            raise unknown_key("", key, {*own_keys, *run_keys, "sweep"})
        else:
            common.append(str(item.input_line))
    return own, swept, common


def _sweep_values(key: str, item: Override) -> list[Any]:
    value = item.value()
    if not isinstance(value, list) or not value:
        given = str(item.input_line).partition("=")[2]
        raise ConfigError(f"'{key}' is {given}: give a list of values, for example {key}=[0.1,0.2]")
    return value


def _arms(settings: CompareConfig, swept: Mapping[str, Sequence[Any]]) -> dict[str, list[str]]:
    """The chosen arms, then one for each combination of swept values."""
    chosen = settings.only if settings.only is not None else [] if swept else list(settings.arms)
    for name in chosen:
        if name not in settings.arms:
            raise unknown_key("arms", name, settings.arms)
    arms = {name: list(settings.arms[name]) for name in chosen}
    if swept:
        last = [key.rsplit(".", 1)[-1] for key in swept]
        labels = [key if last.count(name) > 1 else name for key, name in zip(swept, last, strict=True)]
        for values in itertools.product(*swept.values()):
            texts = [_text(value) for value in values]
            name = ",".join(f"{label}={_label(text)}" for label, text in zip(labels, texts, strict=True))
            if name in arms:
                raise ConfigError(f"two arms of the sweep would be called '{name}': give each value once, or own arms")
            arms[name] = [f"{key}={text}" for key, text in zip(swept, texts, strict=True)]
    for name in arms:
        if not re.fullmatch(r"[\w=.,+-][\w=.,+ -]*", name) or name.startswith("."):
            raise ConfigError(f"arm '{name}' cannot name a folder: use letters, digits and = . , + - _")
    if not arms:
        raise ConfigError("there is no arm to run: only=[] names none, and nothing is swept")
    return arms


def _text(value: Any) -> str:
    """A swept value as an override's right side; words stay bare, because a group's member must."""
    if isinstance(value, str):
        return value if re.fullmatch(r"[\w.+-]+", value) else json.dumps(value)
    return json.dumps(value)


def _label(text: str) -> str:
    """A swept value as a part of a folder's name: a path by what it may hold of it."""
    return text if re.fullmatch(r"[\w.+-]+", text) else re.sub(r"[^\w.+-]+", "_", text).strip("_")


def _besides(common: Sequence[str], own: Sequence[str]) -> list[str]:
    """What every run gets, without what the arm says otherwise: another value, or that there is no such group."""
    parsed = parse_overrides(own)
    keys = {item.key_or_group for item in parsed}
    emptied = tuple(f"{item.key_or_group}." for item in parsed if item.value() is None)
    return [
        str(item.input_line)
        for item in parse_overrides(common)
        if item.key_or_group not in keys and not item.key_or_group.startswith(emptied)
    ]


def _run(arm: str, overrides: Sequence[str], settings: CompareConfig, config_dir: Path | None) -> dict[str, Any]:
    try:
        plain = compose_config("train", overrides, config_dir)
        evaluation = plain["evaluation"]
        if evaluation.get("every") is None:
            evaluation["every"] = max(1, round(int(plain["algorithm"]["steps"]) / (settings.evaluations + 1)))
        # By its experiment's name `wmrl report` knows which runs to average.
        plain["experiment_name"] = f"{plain['experiment_name']}-{arm}"
        config = TrainConfig.from_mapping(plain)
    except ConfigError as error:
        raise ConfigError(f"arm '{arm}': {error}") from error
    if not (config.evaluation.before and config.evaluation.after):
        raise ConfigError(f"arm '{arm}' is not evaluated before and after: leave out evaluation.before and .after")
    return plain


def _reference(
    settings: CompareConfig, runs: Mapping[tuple[str, int], Mapping[str, Any]], arms: Sequence[str]
) -> str | None:
    if settings.reference is not None:
        if settings.reference not in arms:
            raise ConfigError(f"reference is '{settings.reference}', which is no arm here: choose of {', '.join(arms)}")
        return settings.reference
    for arm in arms:
        anchors = runs[arm, settings.seeds[0]]["proxy"].get("anchors") or {}
        if anchors.get("fraction") == 1:
            return arm
    return None
