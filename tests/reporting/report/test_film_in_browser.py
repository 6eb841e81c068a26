"""Episodes of pictures in a real Chromium."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.runs.records.filmed import INSTRUCTION, make_film_run
from wmrl_gym.cli.main import main

from .conftest import OpenPage, wait_until
from .test_in_browser import overflow


@pytest.fixture(scope="module")
def report_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("films")
    path = root / "report.html"
    assert main(["report", str(make_film_run(root)), "--output", str(path)]) == 0
    return path


def shown_size(image: Any) -> list[int]:
    """Size of an image that was really decoded; [0, 0] if it could not be."""
    image.evaluate("(img) => img.decode().catch(() => {})")
    return list(image.evaluate("(img) => [img.naturalWidth, img.naturalHeight]"))


@pytest.mark.parametrize("width", [390, 1280])
def test_episode_is_shown_as_a_strip_and_plays_on_demand(open_page: OpenPage, width: int) -> None:
    page = open_page(width)
    page.select_option("#filter-kind", "executed")
    detail, film = page.locator("#detail"), page.locator("#detail .film")
    assert film.count() == 1 and film.locator("b").inner_text() == INSTRUCTION
    assert "Turn 11" in detail.inner_text() and detail.locator(".code").count() == 0
    about = film.locator("figcaption span").inner_text()
    found = re.fullmatch(r"12 frames · predicted (-?[\d.]+) · true ([01])\.00", about)
    assert found is not None, about
    facts = re.sub(r"\s+", " ", detail.inner_text())
    assert f"predicted {found[1]}" in facts and f"executed {found[2]}.000" in facts

    strip = film.locator("img")
    assert strip.count() == 1 and "8 of 12 frames" in strip.get_attribute("alt")
    across, high = shown_size(strip)
    assert across > 6 * high > 0
    film.locator("summary").click()
    wait_until(page, "document.querySelectorAll('#detail .film img').length === 2")
    assert shown_size(film.locator("img").nth(1)) == [80, 64]
    film.locator("summary").click()
    wait_until(page, "document.querySelectorAll('#detail .film img').length === 1")
    assert overflow(page) == 0 and page.title() != "owned"


def test_episode_without_pictures_says_so(open_page: OpenPage, tmp_path: Path, monkeypatch: Any) -> None:
    from wmrl_gym.reporting.report import browsing

    monkeypatch.setattr(browsing, "PICTURE_CHARACTERS", 0)
    path = tmp_path / "none.html"
    assert main(["report", str(make_film_run(tmp_path)), "--output", str(path)]) == 0
    page = open_page(path=path)
    assert "left out to keep this page small" in page.locator("#detail .film").inner_text()
    assert page.locator("img").count() == 0
