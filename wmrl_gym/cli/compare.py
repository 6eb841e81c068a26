"""``wmrl compare``: arms of an experiment side by side, over seeds, and their report."""

from __future__ import annotations

import argparse
import itertools
import json
import shlex

from rich.console import Console

from wmrl_gym.cli.compare_progress import SliceDisplay
from wmrl_gym.cli.configuration import listed, shown
from wmrl_gym.reporting.comparison import compare_arms
from wmrl_gym.reporting.comparison_curve import Curve, read_curve
from wmrl_gym.reporting.comparison_plot import plot
from wmrl_gym.reporting.comparison_text import latex, markdown, to_data
from wmrl_gym.reporting.final_table import final_table
from wmrl_gym.reporting.notation import duration
from wmrl_gym.runs.arms import Plan, plan_comparison, show_plan
from wmrl_gym.runs.comparing import Comparison
from wmrl_gym.runs.records.run_directory import DamagedRun, write_atomically
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
        plan = self.plan
        finished = self.comparison.finished_seeds()
        if not finished:
            return
        for arm, seed in itertools.product(plan.arms, finished):
            if not (self.comparison.directories[arm, seed].path / "table.json").is_file():
                final_table(self.comparison.run(arm, seed)).write(self.comparison.directories[arm, seed])
        curves: dict[str, dict[int, Curve]] = {
            arm: {seed: self._curve(arm, seed) for seed in finished} for arm in plan.arms
        }
        comparison = compare_arms(curves, plan.reference, level=plan.settings.level, resamples=plan.settings.resamples)
        text = markdown(comparison, f"Comparison {plan.folder.name}", self.command)
        write_atomically(plan.folder / "comparison.md", text)
        write_atomically(plan.folder / "comparison.tex", latex(comparison))
        asked = {"command": self.command, "score": comparison.measure.name, "overrides": plan.overrides}
        data = {**asked, **to_data(comparison)}
        write_atomically(plan.folder / "comparison.json", json.dumps(data, indent=2))
        written = "comparison.md, .json, .tex"
        try:
            plot(comparison, plan.folder / "comparison.svg")
            written += " and .svg"
        except ImportError as error:
            self._say(f"no plot: {error}")
        if show:
            self._say(text)
        self._say(f"wrote {written} in {plan.folder}; seeds: {', '.join(map(str, finished))}")

    def _curve(self, arm: str, seed: int) -> Curve:
        settings = self.plan.config(arm, seed).algorithm.build()
        directory = self.comparison.directories[arm, seed]
        curve = read_curve(directory, settings.groups_per_step * settings.group_size)
        if curve is None:
            raise DamagedRun(
                f"'{directory.path}' is finished, but has no evaluation before training (before.json)\n"
                "  move that folder away; the same command runs it again."
            )
        return curve

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
