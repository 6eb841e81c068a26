"""Plots that can be read on a white and on a dark page: no background, grey text, colours of middling lightness."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib
from cycler import cycler

matplotlib.use("svg")  # before pyplot, which would look for a display
import matplotlib.pyplot as plt

GREY = "#7d838c"
BLUE, ORANGE, GREEN, PURPLE, RED, BROWN = "#3b82c4", "#d9822b", "#2f9e6e", "#9a6fd0", "#d6557a", "#a0764f"

STYLE: Any = {
    "axes.edgecolor": GREY,
    "axes.labelcolor": GREY,
    "axes.prop_cycle": cycler(color=[BLUE, ORANGE, GREEN, PURPLE, RED]),
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlecolor": GREY,
    "axes.titlesize": "medium",
    "figure.constrained_layout.use": True,
    "font.size": 10,
    "legend.frameon": False,
    "legend.labelcolor": GREY,
    "savefig.transparent": True,
    "svg.fonttype": "none",
    "svg.hashsalt": "wmrl_gym",  # the same data gives the same file
    "text.color": GREY,
    "xtick.color": GREY,
    "ytick.color": GREY,
}


@contextmanager
def figure(path: Path, columns: int = 1, width: float = 5.2, height: float = 3.6) -> Iterator[Any]:
    """Axes to draw on, saved as SVG at the end: one, or an array of them side by side."""
    with plt.rc_context(STYLE):
        drawing, axes = plt.subplots(1, columns, figsize=(width * columns, height))
        yield axes
        drawing.savefig(path, metadata={"Date": None})
        plt.close(drawing)


def ticks(axis: Any, values: Any) -> None:
    """Label these places on a logarithmic x-axis and no others, as plain numbers."""
    axis.set_xticks(values, [f"{value:g}" for value in values])
    axis.set_xticks([], minor=True)


def error_bars(axis: Any, x: Any, estimates: Any, **style: Any) -> None:
    """Points with their intervals."""
    values = [estimate.value for estimate in estimates]
    low = [estimate.value - estimate.low for estimate in estimates]
    high = [estimate.high - estimate.value for estimate in estimates]
    axis.errorbar(x, values, yerr=[low, high], fmt="o", markersize=5, capsize=3, **style)
