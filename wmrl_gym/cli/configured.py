"""The commands that take a configuration: composing it, showing it, and handing it on."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path
from typing import Any

from wmrl_gym.configs.compose import compose_config, group_choices, parse_overrides, to_yaml
from wmrl_gym.configs.schema import EvaluateConfig, SupervisedConfig
from wmrl_gym.configs.validation import ConfigError, to_dataclass

RESUME = ("resume=", "+resume=")


def run_configured(options: argparse.Namespace) -> int:
    """Run a command that takes a configuration: train, sft, evaluate, compare, corpus or fidelity."""
    if options.list:
        for group, members in group_choices(options.config_dir).items():
            print(f"{group}: {', '.join(members)}")
        return 0
    if options.command == "compare":
        return _compare(options)
    resumed = _run_to_resume(options.overrides) if options.command == "train" else None
    if resumed is not None:
        from wmrl_gym.cli.train import resume

        return resume(resumed)
    if options.command == "evaluate":
        _check_run_to_evaluate(options.overrides)
    plain = compose_config(options.command, options.overrides, options.config_dir)
    if options.show:
        print(to_yaml({**plain, **(_of_its_run(plain) if options.command == "evaluate" else {})}), end="")
        return 0
    if options.command == "train":
        from wmrl_gym.cli.train import train

        return train(plain)
    if options.command == "sft":
        from wmrl_gym.cli.supervised import cold_start

        return cold_start(to_dataclass(SupervisedConfig, plain))
    if options.command == "corpus":
        from wmrl_gym.cli.corpus import corpus
        from wmrl_gym.configs.fidelity_schema import CorpusConfig

        return corpus(to_dataclass(CorpusConfig, plain), plain)
    if options.command == "fidelity":
        from wmrl_gym.cli.fidelity import fidelity
        from wmrl_gym.configs.fidelity_schema import FidelityConfig

        return fidelity(to_dataclass(FidelityConfig, plain), plain)
    from wmrl_gym.cli.evaluate import evaluate

    return evaluate(to_dataclass(EvaluateConfig, plain), plain)


def _of_its_run(plain: dict[str, Any]) -> dict[str, Any]:
    """What an evaluation takes from the run that it is of."""
    if plain["run"] is None:
        return {}
    from wmrl_gym.runs.evaluating import resolved
    from wmrl_gym.runs.records.run_directory import RunDirectory

    config = to_dataclass(EvaluateConfig, plain)
    return resolved(config, plain, RunDirectory.open(Path(plain["run"])))[1]


def _compare(options: argparse.Namespace) -> int:
    from wmrl_gym.runs.arms import plan_comparison, show_plan

    plan = plan_comparison(options.overrides, options.config_dir)
    if options.show:
        print(to_yaml(show_plan(plan)), end="")
        return 0
    from wmrl_gym.cli.compare import compare

    return compare(plan, shlex.join(["wmrl", "compare", *options.overrides]))


def _run_to_resume(overrides: list[str]) -> Path | None:
    """The folder of ``resume=<run>``; a resumed run keeps its configuration, so nothing else may be asked for."""
    given = [item for item in overrides if item.startswith(RESUME)]
    if not given:
        return None
    if len(overrides) > 1:
        others = ", ".join(item for item in overrides if item not in given[:1])
        raise ConfigError(
            f"resume takes a run's own configuration, so it cannot be combined with {others}\n"
            "  give resume=<run> alone, or start a new run with the changed configuration."
        )
    return Path(given[0].partition("=")[2]).expanduser()


def _check_run_to_evaluate(overrides: list[str]) -> None:
    """Refuse settings that ``run=`` puts others in the place of: they would be dropped without a word."""
    given = {item.key_or_group: item.value() for item in parse_overrides(overrides)}
    if given.get("run") is None:
        return
    own = ["policy"] if given.get("held_out_of") == "configuration" else ["policy", "env", "tasks"]
    dropped = [key for key in given if key.split(".")[0] in own]
    if dropped:
        raise ConfigError(
            f"{', '.join(dropped)} cannot be set beside run=: a run's own agent is measured, and on its own tasks\n"
            "  leave it out; other tasks or another environment: held_out_of=configuration output=...; another agent: "
            "leave out run."
        )
