"""Held-out score against what training had cost by then, one line for each arm."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from wmrl_gym.reporting.comparison import ArmResult, Comparison
from wmrl_gym.reporting.comparison_curve import AXES
from wmrl_gym.reporting.notation import notation_of
from wmrl_gym.reporting.svg_figure import COLOURS, GREY, svg_figure

SHOWN = ("executed_seconds", "seconds")


def plot(comparison: Comparison, path: Path) -> None:
    """Write the plot as SVG.

    Raises:
        ImportError: if matplotlib is not installed, with the extra to install.
    """
    with svg_figure(path, columns=len(SHOWN), sharey=True) as columns:
        for axes, axis in zip(columns, SHOWN, strict=True):
            for index, result in enumerate(comparison.arms):
                _draw(axes, result, axis, COLOURS[index % len(COLOURS)])
            if comparison.target is not None:
                axes.axhline(comparison.target, color=GREY, linewidth=0.8, linestyle=":")
            axes.set_xlabel(f"{AXES[axis]} of training")
        columns[0].set_ylabel(f"held-out {comparison.measure.name}")
        if notation_of(comparison.measure, successes=comparison.successes).is_share:
            from matplotlib.ticker import PercentFormatter

            columns[0].yaxis.set_major_formatter(PercentFormatter(1.0))  # of both, which share the axis
        columns[-1].legend(loc="best", fontsize="small")


def _draw(axes: Any, result: ArmResult, axis: str, colour: str) -> None:
    cost = [point.cost[axis] for point in result.curve]
    scores = [point.score for point in result.curve]
    axes.plot(cost, [score.estimate for score in scores], color=colour, marker="o", markersize=3.5, label=result.arm)
    if cost[-1] > cost[0]:
        axes.fill_between(
            cost, [score.low for score in scores], [score.high for score in scores], color=colour, alpha=0.12, lw=0
        )
