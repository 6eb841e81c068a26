"""Plots of the experiments, in the style of all our plots."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from wmrl_gym.reporting.svg_figure import BLUE, BROWN, GREEN, GREY, ORANGE, PURPLE, RED, svg_figure

__all__ = ["BLUE", "BROWN", "GREEN", "GREY", "ORANGE", "PURPLE", "RED", "error_bars", "figure", "ticks"]


@contextmanager
def figure(path: Path, columns: int = 1, width: float = 5.2, height: float = 3.6) -> Iterator[Any]:
    """Axes to draw on, saved as SVG at the end: one, or a list of them side by side."""
    with svg_figure(path, columns=columns, width=width, height=height) as axes:
        yield axes if columns > 1 else axes[0]


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
