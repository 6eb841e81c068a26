from __future__ import annotations

import importlib.util
from pathlib import Path

import matplotlib as mpl
import pytest

from wmrl_gym.reporting.svg_figure import BLUE, GREY, ORANGE, require_matplotlib, svg_figure


def drawn(path: Path) -> str:
    with svg_figure(path, columns=2, sharey=True) as (left, right):
        left.plot([0, 1], [0, 1])
        left.plot([0, 1], [1, 0])
        right.set_xlabel("cost")
    return path.read_text()


def test_the_same_data_gives_the_same_file_in_our_colours_without_a_background(tmp_path: Path) -> None:
    text = drawn(tmp_path / "one.svg")
    assert text == drawn(tmp_path / "other.svg")
    assert ">cost</text>" in text and all(colour in text for colour in (GREY, BLUE, ORANGE))
    assert "fill: #ffffff" not in text and "<dc:date>" not in text


def test_a_plot_leaves_the_users_own_style_alone(tmp_path: Path) -> None:
    before = dict(mpl.rcParams)
    drawn(tmp_path / "plot.svg")
    assert dict(mpl.rcParams) == before


def test_a_missing_matplotlib_is_named_with_what_brings_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"wmrl-gym\[report\]' brings it, or set plot=false\."):
        require_matplotlib(otherwise=", or set plot=false")
