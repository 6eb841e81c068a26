"""``wmrl plan``: how long a run takes, what it costs, and where it waits."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from wmrl_gym.cli.configuration import run_configured
from wmrl_gym.configs.capacity_schema import PlanConfig
from wmrl_gym.configs.validation import to_dataclass
from wmrl_gym.reporting.notation import duration
from wmrl_gym.runs.capacity.measured import capacity_of_run
from wmrl_gym.runs.capacity.planning import Planned, plan_capacity

COLUMNS = ("anchors", "slots", "step s", "run h", "GPU-h", "executed", "wait s", "95 %", "slots %", "engine %")


def plan(plain: dict[str, Any]) -> int:
    """Simulate, and print a line for each anchor fraction and number of slots. Returns the exit code."""
    config = to_dataclass(PlanConfig, plain)
    capacity = config.capacity if config.run is None else capacity_of_run(config.run)
    if config.mode is not None:
        capacity = replace(capacity, mode=config.mode)
    lines = plan_capacity(
        capacity, config.fractions, config.slots, simulated_steps=config.simulated_steps, seed=config.seed
    )
    console = Console()
    console.print(
        f"{capacity.steps} steps of {capacity.groups_per_step} x {capacity.group_size} trajectories, "
        f"mode {capacity.mode}; executions of {duration(capacity.execution_seconds)} on average",
        highlight=False,
    )
    console.print(_table(lines))
    console.print("executed: in a step; wait: of an execution for a slot; engine: the policy's. All is simulated.")
    return 0


def _table(lines: Sequence[Planned]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=0, collapse_padding=True)
    for column in COLUMNS:
        table.add_column(column, justify="right")
    for line in lines:
        times = line.times
        table.add_row(
            f"{line.capacity.anchor_fraction:.0%}",
            str(line.capacity.slots),
            _short(times.step),
            _short(line.hours),
            _short(line.gpu_hours),
            _short(times.executions),
            _short(times.wait),
            _short(times.wait_95),
            f"{100 * times.slots_used:.0f}",
            f"{100 * times.engine_used:.0f}",
        )
    return table


def _short(value: float | None) -> str:
    """Three digits at least, and no more behind the point than tell something."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def run(options: argparse.Namespace) -> int:
    """``wmrl plan``."""
    return run_configured(options, plan)
