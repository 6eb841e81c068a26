"""Held-out score against what training had cost by then, one line for each arm."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from wmrl_gym.reporting.comparison import ArmResult, Comparison
from wmrl_gym.reporting.comparison_curve import AXES
from wmrl_gym.reporting.notation import notation_of

SHOWN = ("executed_seconds", "seconds")
GREY = "#7d838c"
COLOURS = ("#3b82c4", "#d9822b", "#2f9e6e", "#9a6fd0", "#d6557a", "#a0764f", "#5f9ea0", "#b8a02e")


def plot(comparison: Comparison, path: Path, score: str) -> None:
    """Write the plot as SVG, readable on a white and on a dark page.

    Raises:
        ImportError: if matplotlib is not installed, with the extra to install.
    """
    try:
        from matplotlib import rc_context
        from matplotlib.figure import Figure
        from matplotlib.ticker import PercentFormatter
    except ImportError as error:
        raise ImportError("the plot needs matplotlib: pip install 'wmrl-gym[report]'") from error
    style: Any = {"text.color": GREY, "axes.labelcolor": GREY, "axes.edgecolor": GREY, "legend.frameon": False}
    style |= {"xtick.color": GREY, "ytick.color": GREY, "legend.labelcolor": GREY, "svg.fonttype": "none"}
    with rc_context(style | {"axes.spines.top": False, "axes.spines.right": False, "svg.hashsalt": "wmrl_gym"}):
        # A figure of its own rather than pyplot's: nothing global is touched, and no display is looked for.
        figure = Figure(figsize=(5.2 * len(SHOWN), 3.8), layout="constrained")
        for axes, axis in zip(figure.subplots(1, len(SHOWN), sharey=True), SHOWN, strict=True):
            for index, result in enumerate(comparison.arms):
                _draw(axes, result, axis, COLOURS[index % len(COLOURS)])
            if comparison.target is not None:
                axes.axhline(comparison.target, color=GREY, linewidth=0.8, linestyle=":")
            axes.set_xlabel(f"{AXES[axis]} of training")
        figure.axes[0].set_ylabel(f"held-out {score}")
        if notation_of(score, successes=comparison.successes).is_share:
            figure.axes[0].yaxis.set_major_formatter(PercentFormatter(1.0))  # of both, which share the axis
        figure.axes[-1].legend(loc="best", fontsize="small")
        figure.savefig(path, format="svg", transparent=True, metadata={"Date": None})


def _draw(axes: Any, result: ArmResult, axis: str, colour: str) -> None:
    cost = [point.cost[axis] for point in result.curve]
    scores = [point.score for point in result.curve]
    axes.plot(cost, [score.estimate for score in scores], color=colour, marker="o", markersize=3.5, label=result.arm)
    if cost[-1] > cost[0]:
        axes.fill_between(
            cost, [score.low for score in scores], [score.high for score in scores], color=colour, alpha=0.12, lw=0
        )
