"""``wmrl export``: the trained agent of a run as a folder that other programs load."""

from __future__ import annotations

import argparse
from typing import Any

from wmrl_gym.cli.configuration import run_configured
from wmrl_gym.configs.schema import ExportConfig
from wmrl_gym.configs.validation import to_dataclass
from wmrl_gym.reporting.card_results import card_results
from wmrl_gym.runs.exporting import export


def export_agent(plain: dict[str, Any]) -> int:
    """Write the agent, and say what lies where. Returns the exit code."""
    config = to_dataclass(ExportConfig, plain)
    agent = export(
        config.run,
        config.output,
        checkpoint=config.checkpoint,
        merge=config.merge,
        dtype=config.dtype,
        results=card_results,
    )
    print(f"wrote {agent.folder}: {agent.kind} of {agent.checkpoint}; README.md says what it was trained on")
    return 0


def run(options: argparse.Namespace) -> int:
    """``wmrl export``."""
    return run_configured(options, export_agent)
