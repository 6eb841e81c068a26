"""``wmrl sft``: the supervised cold start of the nano agent, of a language model, or of a policy that is cloned."""

from __future__ import annotations

import argparse
from typing import Any

from rich.console import Console

from wmrl_gym.cli.configuration import run_configured
from wmrl_gym.cli.progress import Progress
from wmrl_gym.runs.cold_start import ColdStart

_COLUMNS = (("loss", "loss"), ("learning_rate", "lr"), ("tokens", "tokens"), ("seconds", "seconds"))
FEW_STEPS = 100
"""A run of so few steps shows every one: they are long ones, of a large model."""
LINES = 40
"""A longer one prints about so many lines."""


def cold_start(plain: dict[str, Any]) -> int:
    """Train, write the agent, and say how to use it. Returns the exit code."""
    start = ColdStart.from_config(plain)
    console = Console()
    steps = start.settings.steps
    with Progress(steps, _COLUMNS, console, every=1 if steps <= FEW_STEPS else steps // LINES) as progress:

        def begin(lessons: str, parameters: int) -> None:
            console.print(f"{lessons}, {parameters:,} trained parameters", highlight=False)

        agent = start.train(progress, begin)
    use = f"; use it with: wmrl train {' '.join(agent.overrides)}" if agent.overrides else ""
    console.print(f"wrote {agent.folder}{use}", highlight=False)
    return 0


def run(options: argparse.Namespace) -> int:
    """``wmrl sft``."""
    return run_configured(options, cold_start)
