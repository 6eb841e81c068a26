"""A fidelity assessment as one picture: calibration before and after debiasing, and status accuracy by author."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from wmrl_gym.reporting.svg_figure import BLUE, GREY, ORANGE, svg_figure


def draw(found: Mapping[str, Any], path: Path) -> None:
    """Write the picture as SVG.

    Args:
        found: what `assess` returned, with "world_model".
        path: the file.

    Raises:
        ImportError: without matplotlib.
    """
    with svg_figure(path, columns=2) as (left, right):
        _draw_calibration(left, found["calibration"])
        _draw_authors(right, found["by_author"])


def _draw_calibration(axes: Any, calibration: Mapping[str, Any] | None) -> None:
    axes.set_title("calibration on the held-out half")
    axes.set_xlabel("score, predicted")
    axes.set_ylabel("score, executed (mean)")
    axes.plot([0, 1], [0, 1], color=GREY, linewidth=0.8, linestyle=":")
    if calibration is None:
        axes.text(0.5, 0.5, "too few or equal predictions", ha="center")
        return
    for name, label, colour in (("curve_before", "as predicted", BLUE), ("curve_after", "debiased", ORANGE)):
        points = calibration[name]
        x, y = [point["predicted"] for point in points], [point["executed"] for point in points]
        largest = max(point["n"] for point in points)
        axes.plot(x, y, color=colour, linewidth=1.2, label=label)
        axes.scatter(x, y, s=[12 + 80 * point["n"] / largest for point in points], color=colour, alpha=0.7)
    axes.legend(loc="upper left")


def _draw_authors(axes: Any, authors: Mapping[str, Any]) -> None:
    axes.set_title("status accuracy by author")
    axes.set_xlim(0, 1.03)  # room for a point at 1
    names = list(authors)[::-1]
    for row, name in enumerate(names):
        part = authors[name]
        accuracy = part["status_accuracy"]
        if accuracy["value"] is not None:
            axes.plot(accuracy["value"], row, "o", color=BLUE, label="world model" if row == 0 else None)
        if accuracy["low"] is not None:
            axes.plot([accuracy["low"], accuracy["high"]], [row, row], color=BLUE, linewidth=1.5)
        constant = part["constant_status_accuracy"]
        axes.plot(constant, row, "|", color=ORANGE, markersize=12, label="commonest status" if row == 0 else None)
    axes.set_yticks(range(len(names)), [f"{name} ({authors[name]['n']})" for name in names])
    axes.set_ylim(-0.6, len(names) - 0.4)
    axes.legend(loc="lower left")
