"""``wmrl compare``: arms of an experiment side by side, over seeds, and their report."""

from __future__ import annotations

import argparse
import shlex

from rich.console import Console

from wmrl_gym.cli.compare_progress import SliceDisplay
from wmrl_gym.cli.configuration import listed, shown
from wmrl_gym.reporting.comparison_files import write_comparison
from wmrl_gym.reporting.notation import duration
from wmrl_gym.runs.arms import Plan, plan_comparison, show_plan
from wmrl_gym.runs.comparing import Comparison
from wmrl_gym.runs.stopping import StopRequested


def compare(plan: Plan, command: str) -> int:
    """Run what is missing of a comparison, and write its report after each seed. Returns the exit code.

    Args:
        plan: the arms and the configuration of each run.
        command: how the user asked for it, for the report.

    Raises:
        ConfigError: if a run's folder is there with other settings, or an arm cannot be run; nothing is run then.
    """
    return _Comparing(plan, command).go()


class _Comparing:
    """A comparison as a person sees it."""

    def __init__(self, plan: Plan, command: str) -> None:
        self.plan, self.command = plan, command
        self.console = Console()
        self.comparison = Comparison(plan, self._display, self._show_turn)

    def go(self) -> int:
        """Run, report, and return the exit code."""
        seeds = ", ".join(map(str, self.plan.settings.seeds))
        self._say(f"comparison: {self.plan.folder}; arms: {', '.join(self.plan.arms)}; seeds: {seeds}")
        try:
            self.comparison.train(self._report)
            self._report(show=True)
        except (KeyboardInterrupt, StopRequested):
            self._say("stopped; the same command goes on")
            return 130
        return 0

    def _display(self, arm: str, seed: int, steps: int) -> SliceDisplay:
        return SliceDisplay(self.console, arm, seed, steps, self.comparison.run(arm, seed).domain.success_status)

    def _show_turn(self, arm: str, seed: int, first: int, last: int, steps: int, left: float | None) -> None:
        self._say(
            f"== {arm}, seed {seed}: steps {first} to {last} of {steps}"
            + ("" if left is None else f"; about {duration(left)} left of the whole")
        )

    def _report(self, show: bool = False) -> None:
        """Write the comparison of the seeds that all arms have finished."""
        report = write_comparison(self.comparison, self.command)
        if report is None:
            return
        if report.no_plot is not None:
            self._say(f"no plot: {report.no_plot}")
        if show:
            self._say(report.text)
        seeds = ", ".join(map(str, report.seeds))
        self._say(f"wrote {', '.join(report.files)} in {self.plan.folder}; seeds: {seeds}")

    def _say(self, text: str) -> None:
        self.console.print(text, highlight=False, markup=False, soft_wrap=True)


def run(options: argparse.Namespace) -> int:
    """``wmrl compare``."""
    if listed(options):
        return 0
    plan = plan_comparison(options.overrides, options.config_dir)
    if shown(options, show_plan(plan)):
        return 0
    return compare(plan, shlex.join(["wmrl", "compare", *options.overrides]))
