"""``wmrl evaluate``: an agent on held-out tasks."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console

from wmrl_gym.cli.configuration import listed, shown
from wmrl_gym.configs.compose import compose_config, parse_overrides
from wmrl_gym.configs.schema import EvaluateConfig
from wmrl_gym.configs.validation import ConfigError, to_dataclass
from wmrl_gym.reporting.evaluation_files import show, write_evaluation
from wmrl_gym.reporting.evaluation_tables import evaluation_tables
from wmrl_gym.runs.evaluating import AgentEvaluation, as_data, resolved
from wmrl_gym.runs.records.run_directory import RunDirectory


def evaluate(plain: Mapping[str, Any]) -> int:
    """Measure an agent, print the result task by task, and write it if there is a place for it.

    Args:
        plain: what to measure, and how, as plain data.

    Raises:
        ConfigError: if no task is held out, or the result could not be written.
        OtherWork: if what was left behind in the folder was begun with other settings, or is damaged.
        RunInUse: if another process makes the same evaluation.
        ExecutorError: if too many executions in a row failed.
    """
    evaluation = AgentEvaluation.from_config(plain)
    console = Console()

    def say(text: str) -> None:
        console.print(text, highlight=False, soft_wrap=True)

    if evaluation.checkpoint is not None:
        older = "" if evaluation.is_newest else ", not the newest: its evaluation lies here half done"
        say(f"agent of {evaluation.checkpoint}{older}")
    with evaluation.saved() as work:
        if work is not None and work.portions:
            say(f"going on with what is saved in {work.path}")
        begin = f"evaluating: {evaluation.episodes} held-out episodes, all executed"
        result = evaluation.play(work, lambda: say(begin))
        title = f"{evaluation.name}: held-out, avg@{result.samples}, temperature {result.temperature:g}"
        data, asked = as_data(result, evaluation.domain), evaluation.config.evaluation
        categories = evaluation.domain.categories
        tables = evaluation_tables(data, title=title, categories=categories, k=asked.k, success=asked.success)
        show(tables, console)
        if evaluation.folder is not None and work is not None:
            about = {"agent": evaluation.name, **evaluation.settings}
            paths = write_evaluation(evaluation.folder, evaluation.stem, data, tables, about)
            work.path.unlink(missing_ok=True)
            say(f"wrote {paths[0].with_suffix('')}.json, .md and .tex")
    return 0


def run(options: argparse.Namespace) -> int:
    """``wmrl evaluate``."""
    if listed(options):
        return 0
    _check_run_to_evaluate(options.overrides)
    plain = compose_config("evaluate", options.overrides, options.config_dir)
    if options.show and shown(options, {**plain, **_of_its_run(plain)}):
        return 0
    return evaluate(plain)


def _of_its_run(plain: dict[str, Any]) -> dict[str, Any]:
    """What an evaluation takes from the run that it is of."""
    if plain["run"] is None:
        return {}
    config = to_dataclass(EvaluateConfig, plain)
    return resolved(config, plain, RunDirectory.open(Path(plain["run"])))[1]


def _check_run_to_evaluate(overrides: list[str]) -> None:
    """Refuse settings that ``run=`` puts others in the place of: they would be dropped without a word."""
    given = {item.key_or_group: item.value() for item in parse_overrides(overrides)}
    if given.get("run") is None:
        return
    own = ["policy"] if given.get("tasks_of") == "configuration" else ["policy", "env", "tasks"]
    dropped = [key for key in given if key.split(".")[0] in own]
    if dropped:
        raise ConfigError(
            f"{', '.join(dropped)} cannot be set beside run=: a run's own agent is measured, and on its own tasks\n"
            "  leave it out; other tasks or another environment: tasks_of=configuration output=...; another agent: "
            "leave out run."
        )
