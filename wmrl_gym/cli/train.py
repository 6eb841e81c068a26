"""``wmrl train``: a run from its configuration to its final table, and going on with one that was cut off."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from rich.console import Console

from wmrl_gym.cli.configuration import listed, run_configured, shown
from wmrl_gym.cli.progress import Progress
from wmrl_gym.configs.validation import ConfigError
from wmrl_gym.reporting.final_table import final_table
from wmrl_gym.runs.records.run_directory import RunDirectory
from wmrl_gym.runs.stopping import StopRequested
from wmrl_gym.runs.training import TrainingRun

_COLUMNS = (
    ("reward", "reward"),
    ("predicted_score", "predicted"),
    ("executed_score", "executed"),
    ("executed_share", "anchors"),
    ("flat_groups", "flat"),
    ("proxy/bias_after", "bias"),
    ("proxy/rho", "rho"),
    ("kl", "kl"),
    ("entropy", "entropy"),
    ("seconds", "seconds"),
)

_RESUME = ("resume=", "+resume=")


def train(plain: dict[str, Any]) -> int:
    """Start a new run and go through with it. Returns the exit code."""
    return _go(TrainingRun.from_config(plain))


def resume(path: Path) -> int:
    """Go on with a run from its newest checkpoint, with its own configuration."""
    return _go(TrainingRun.resume(path))


def _columns(run: TrainingRun) -> list[tuple[str, str]]:
    """Metrics and headings of the lines that are printed, with the domain's status of success after the scores."""
    status = run.domain.success_status
    columns = list(_COLUMNS)
    if status is not None:
        columns.insert(4, (f"status/{status}", status))
    return columns


def _go(run: TrainingRun) -> int:
    """Evaluate, train, evaluate, and print the table."""
    console = Console()
    console.print(f"run directory: {run.directory.path}", highlight=False, soft_wrap=True)
    console.print(
        f"{len(run.domain.train)} training tasks, {len(run.domain.held_out)} held out, seed {run.config.seed}, "
        f"{run.prepare()} threads",
        highlight=False,
    )
    try:
        with Progress(run.config.algorithm.build().steps, _columns(run), console) as progress:
            run.train(progress)
    except (KeyboardInterrupt, StopRequested):
        console.print(f"stopped; to go on: wmrl train resume={run.directory.path}", highlight=False)
        return 130
    table = final_table(run)
    table.print(console)
    table.write(run.directory)
    return 0


def run(options: argparse.Namespace) -> int:
    """``wmrl train``."""
    if listed(options):
        return 0
    resumed = _run_to_resume(options.overrides)
    if resumed is None:
        return run_configured(options, train)
    if options.show:
        shown(options, RunDirectory.open(resumed).config())
        return 0
    return resume(resumed)


def _run_to_resume(overrides: list[str]) -> Path | None:
    """The folder of ``resume=<run>``; a resumed run keeps its configuration, so nothing else may be asked for."""
    given = [item for item in overrides if item.startswith(_RESUME)]
    if not given:
        return None
    if len(overrides) > 1:
        others = ", ".join(item for item in overrides if item not in given[:1])
        raise ConfigError(
            f"resume takes a run's own configuration, so it cannot be combined with {others}\n"
            "  give resume=<run> alone, or start a new run with the changed configuration."
        )
    return Path(given[0].partition("=")[2]).expanduser()
