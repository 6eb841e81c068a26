"""``wmrl fidelity``: a world model's predictions of executed solutions, compared with what came of them."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from typing import Any

from rich.console import Console

from wmrl_gym.cli.configuration import run_configured
from wmrl_gym.configs.fidelity_schema import FidelityConfig
from wmrl_gym.configs.validation import to_dataclass
from wmrl_gym.reporting.fidelity.files import write_fidelity
from wmrl_gym.reporting.svg_figure import require_matplotlib
from wmrl_gym.runs.fidelity_measurement import FidelityMeasurement

LINES = 20
"""The predictions are told in about so many lines."""


def fidelity(plain: dict[str, Any]) -> int:
    """Predict, compare, write the report, and print the most important of it. Returns the exit code.

    Raises:
        ImportError: if a plot is asked for and matplotlib is missing; nothing is predicted then.
    """
    config = to_dataclass(FidelityConfig, plain)
    if config.plot:
        require_matplotlib(otherwise=", or set plot=false")
    console = Console()
    measurement = FidelityMeasurement(config, plain)
    with measurement.saved() as work:
        try:
            predictions = measurement.predict(work, _counting(len(measurement.records), config.batch, console))
        except KeyboardInterrupt:
            console.print("stopped; the same command goes on from here")
            return 130
        found = write_fidelity(measurement, predictions)
    for line in (f"status accuracy: {_told(found, 'status_accuracy')}", f"reward MAE: {_told(found, 'reward_mae')}"):
        console.print(line, highlight=False)
    console.print(found["advice"], highlight=False, soft_wrap=True)
    console.print(f"wrote {config.output / 'fidelity.md'}", highlight=False)
    return 0


def _counting(total: int, batch: int, console: Console) -> Callable[[int], None]:
    every = max(1, total // (LINES * batch)) * batch

    def show(done: int) -> None:
        if done % every < batch or done == total:
            console.print(f"{done} of {total} predicted", highlight=False)

    return show


def _told(found: Mapping[str, Any], name: str) -> str:
    estimate, constant = found["overall"][name], found["constant"][name]
    if estimate["value"] is None:
        return "unknown"
    return f"{estimate['value']:.3f} (a constant guess: {constant:.3f})"


def run(options: argparse.Namespace) -> int:
    """``wmrl fidelity``."""
    return run_configured(options, fidelity)
