"""The report of a comparison, as files."""

from __future__ import annotations

import itertools
import json
from dataclasses import dataclass

from wmrl_gym.reporting.comparison import compare_arms
from wmrl_gym.reporting.comparison_curve import Curve, read_curve
from wmrl_gym.reporting.comparison_plot import plot
from wmrl_gym.reporting.comparison_text import latex, markdown, to_data
from wmrl_gym.reporting.final_table import final_table
from wmrl_gym.runs.comparing import Comparison
from wmrl_gym.runs.records.run_directory import DamagedRun, write_atomically


@dataclass(frozen=True)
class ComparisonReport:
    """What was written."""

    text: str
    """The report as Markdown."""
    seeds: tuple[int, ...]
    """Those that all arms have finished, of which it speaks."""
    files: tuple[str, ...]
    """Names, in the comparison's folder."""
    no_plot: str | None
    """Why there is no plot; None if there is one."""


def write_comparison(comparison: Comparison, command: str) -> ComparisonReport | None:
    """Compare the arms over the seeds that all of them have finished, and write that into the comparison's folder.

    Args:
        comparison: the runs.
        command: how the comparison was asked for.

    Returns:
        None if there is no such seed yet; nothing is written then.

    Raises:
        DamagedRun: if a run is finished and has no evaluation before training.
    """
    plan, finished = comparison.plan, comparison.finished_seeds()
    if not finished:
        return None
    for arm, seed in itertools.product(plan.arms, finished):
        if not (comparison.directories[arm, seed].path / "table.json").is_file():
            final_table(comparison.run(arm, seed)).write(comparison.directories[arm, seed])
    curves = {arm: {seed: _curve(comparison, arm, seed) for seed in finished} for arm in plan.arms}
    found = compare_arms(curves, plan.reference, level=plan.settings.level, resamples=plan.settings.resamples)
    text = markdown(found, f"Comparison {plan.folder.name}", command)
    write_atomically(plan.folder / "comparison.md", text)
    write_atomically(plan.folder / "comparison.tex", latex(found))
    asked = {"command": command, "score": found.measure.name, "overrides": plan.overrides}
    write_atomically(plan.folder / "comparison.json", json.dumps({**asked, **to_data(found)}, indent=2))
    files, no_plot = ["comparison.md", "comparison.json", "comparison.tex"], None
    try:
        plot(found, plan.folder / "comparison.svg")
        files.append("comparison.svg")
    except ImportError as error:
        no_plot = str(error)
    return ComparisonReport(text, tuple(finished), tuple(files), no_plot)


def _curve(comparison: Comparison, arm: str, seed: int) -> Curve:
    settings = comparison.plan.config(arm, seed).algorithm.build()
    directory = comparison.directories[arm, seed]
    curve = read_curve(directory, settings.groups_per_step * settings.group_size)
    if curve is None:
        raise DamagedRun(
            f"'{directory.path}' is finished, but has no evaluation before training (before.json)\n"
            "  move that folder away; the same command runs it again."
        )
    return curve
