"""Plots that can be read on a white and on a dark page: no background, grey text, colours of middling lightness."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

GREY = "#7d838c"
BLUE, ORANGE, GREEN, PURPLE, RED, BROWN = "#3b82c4", "#d9822b", "#2f9e6e", "#9a6fd0", "#d6557a", "#a0764f"
COLOURS = (BLUE, ORANGE, GREEN, PURPLE, RED, BROWN, "#5f9ea0", "#b8a02e")
"""Of the lines of a plot, in their order."""

STYLE: Any = {
    "axes.edgecolor": GREY,
    "axes.labelcolor": GREY,
    "axes.prop_cycle": f"cycler('color', {list(COLOURS)})",  # as text, so that matplotlib need not be installed
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlecolor": GREY,
    "axes.titlesize": "medium",
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


def require_matplotlib(otherwise: str = "") -> None:
    """Say what is missing before any work is done for a plot.

    Args:
        otherwise: what the user can do instead of installing it, as the rest of a sentence.

    Raises:
        ImportError: without matplotlib, with the extra to install.
    """
    if importlib.util.find_spec("matplotlib") is None:
        raise ImportError(
            f"the plot needs matplotlib, which is not installed\n  pip install 'wmrl-gym[report]' brings it{otherwise}."
        )


@contextmanager
def svg_figure(
    path: Path, *, columns: int = 1, width: float = 5.2, height: float = 3.8, sharey: bool = False
) -> Iterator[list[Any]]:
    """Axes to draw on, side by side, saved as SVG at the end.

    Args:
        path: the file.
        columns: number of axes.
        width: of each, in inches.
        height: in inches.
        sharey: whether they have the same y-axis.

    Raises:
        ImportError: without matplotlib, with the extra to install.
    """
    require_matplotlib()
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context(STYLE):
        # A figure of its own rather than pyplot's: nothing global is touched, and no display is looked for.
        figure = Figure(figsize=(width * columns, height), layout="constrained")
        yield list(figure.subplots(1, columns, sharey=sharey, squeeze=False)[0])
        figure.savefig(path, format="svg", metadata={"Date": None})
