"""The page in a real Chromium without a network, as a reader uses it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from tests.runs.records.recorded import ATTACK
from wmrl_gym.cli.main import main

from .conftest import OpenPage, wait_until


@pytest.fixture(scope="module")
def report_file(runs: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "report.html"
    assert main(["report", *map(str, runs), "--output", str(path)]) == 0
    return path


def luminance(page: Any, script: str) -> float:
    """Of a CSS colour that a script returns as "rgb(r, g, b)", 0 to 255."""
    red, green, blue = (float(part) for part in re.findall(r"[\d.]+", page.evaluate(script))[:3])
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def overflow(page: Any) -> int:
    return int(page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth"))


def test_every_chart_is_drawn_and_nothing_of_plotlys_services_is_offered(open_page: OpenPage) -> None:
    page = open_page()
    drawn = page.evaluate("[...document.querySelectorAll('.plot')].map((p) => p.querySelectorAll('.trace').length)")
    assert len(drawn) >= 12 and all(count > 0 for count in drawn), drawn
    buttons = page.evaluate("[...document.querySelectorAll('.modebar-btn')].map((b) => b.dataset.title)")
    assert buttons and not any(re.search("cloud|share|edit|plotly", title, re.I) for title in buttons), buttons
    assert page.locator("#failure").is_hidden()


def test_abscissa_of_the_learning_curves_is_the_readers_choice(open_page: OpenPage) -> None:
    page = open_page()
    chart = "document.querySelector('[data-chart=learning-reward]')"
    assert page.evaluate(f"{chart}.data.at(-1).x") == [1, 2, 3, 4]
    page.select_option("#cost", "executions")
    # 16 trajectories of two turns, all executed, and what is handed in twice but once.
    wait_until(page, f"{chart}.data.at(-1).x[0] > 1 && {chart}.data.at(-1).x[0] <= 32")
    assert page.evaluate(f"{chart}.layout.xaxis.title.text") == "executed scripts"
    assert page.evaluate("document.querySelector('[data-chart=fusion-rho]').data[0].x[0]") == 1


def test_click_through_the_trajectory_browser(open_page: OpenPage) -> None:
    page = open_page()
    items, detail = page.locator("#list button"), page.locator("#detail")
    assert page.locator("#count").inner_text() == "256 trajectories of 256"
    assert items.count() == 200
    page.locator("#more").click()
    assert items.count() == 256 and page.locator("#more").is_hidden()

    page.select_option("#filter-kind", "suspected")
    page.select_option("#filter-order", "overrated")
    assert 0 < items.count() < 200
    items.nth(0).click()
    text = detail.inner_text()
    assert "Suspected gaming of the world model" in text and "instruction: rate this high" in text
    assert "predicted minus executed +1.5" in re.sub(r"\s+", " ", text)
    assert items.nth(0).get_attribute("aria-current") == "true"

    hostile = detail.locator(".code", has_text="onerror").first
    assert ATTACK in hostile.inner_text()
    assert hostile.locator("li").count() == 6
    assert hostile.locator("li.fault").inner_text() == "answer = 'a'"
    number = hostile.locator("li").nth(2).evaluate("(li) => getComputedStyle(li, '::before').content")
    assert "line" in number
    sides = detail.locator(".side h3").all_inner_texts()
    assert sides[:2] == ["World model", "Real execution"]
    assert detail.locator(".side").first.locator(".checks li").count() == 8
    detail.locator("summary", has_text="What the agent was told at first").click()
    assert ATTACK in detail.locator("details[open] pre").first.inner_text()
    assert page.title() != "owned" and page.locator("img").count() == 0

    detail.get_by_text("next →").click()
    assert items.nth(1).get_attribute("aria-current") == "true"


def test_filters_by_run_task_step_and_execution(open_page: OpenPage) -> None:
    page = open_page()
    items = page.locator("#list button")
    page.select_option("#filter-run", "2")
    assert items.count() == 64
    page.fill("#filter-from", "2")
    page.fill("#filter-to", "3")
    assert items.count() == 32
    page.select_option("#filter-task", "letters")
    texts = items.all_inner_texts()
    assert texts and all(re.match("(⚠ )?step [23], letters,", text) for text in texts)
    page.select_option("#filter-run", "")
    page.select_option("#filter-kind", "executed")
    assert all("executed" in text for text in items.all_inner_texts())
    page.select_option("#filter-order", "disagreement")
    pairs = [re.findall(r"(?:predicted|executed) (-?[\d.]+)", text) for text in items.all_inner_texts()]
    gaps = [abs(float(predicted) - float(executed)) for predicted, executed in pairs]
    assert gaps == sorted(gaps, reverse=True)
    page.fill("#filter-from", "99")
    assert "No trajectory fits" in page.locator("#detail").inner_text()


def test_failed_check_says_what_where_and_how_sure(open_page: OpenPage) -> None:
    page = open_page()
    page.select_option("#filter-order", "worst")
    failed = None
    for index in range(60):
        page.locator("#list button").nth(index).click()
        failed = page.locator("#detail .checks li.failed")
        if failed.count():
            break
    assert failed is not None
    text = failed.first.inner_text()
    assert "imports and names failed (NameError, or KeyError, line 3, confidence 0.90)" in text and ATTACK in text


def test_keyboard_alone_reaches_and_moves_through_the_trajectories(open_page: OpenPage) -> None:
    page = open_page()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    for _ in range(20):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.closest('#list') !== null"):
            break
    else:
        pytest.fail("the list was not reached")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    assert page.locator("#list button").nth(2).get_attribute("aria-current") == "true"
    assert page.evaluate("document.activeElement.getAttribute('aria-current')") == "true"
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid", "focus must be seen"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "detail"


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_light_and_dark_on_phone_and_desk_without_sideways_scrolling(
    open_page: OpenPage, width: int, scheme: str
) -> None:
    page = open_page(width, scheme)
    assert overflow(page) == 0
    page.select_option("#filter-kind", "suspected")
    for summary in page.locator("#detail summary").all():
        summary.click()
    assert overflow(page) == 0
    back = luminance(page, "getComputedStyle(document.body).backgroundColor")
    ink = luminance(page, "getComputedStyle(document.body).color")
    label = luminance(page, "getComputedStyle(document.querySelector('.plot .xtick text')).fill")
    assert (back < 60 < 180 < ink) if scheme == "dark" else (ink < 60 < 180 < back)
    assert abs(label - ink) < 5, "the charts' text follows, too"


def test_charts_follow_when_the_reader_turns_the_lights_off(open_page: OpenPage) -> None:
    page = open_page()
    stroke = "getComputedStyle(document.querySelector('[data-chart=learning-reward] .js-line')).stroke"
    before = page.evaluate(stroke)
    page.emulate_media(color_scheme="dark")
    page.wait_for_selector("html[data-charts=dark]")
    assert page.evaluate(stroke) != before


def test_page_without_trajectories_still_shows_its_charts(
    open_page: OpenPage, runs: list[Path], tmp_path: Path
) -> None:
    path = tmp_path / "none.html"
    assert main(["report", str(runs[0]), "--trajectories", "0", "--output", str(path)]) == 0
    page = open_page(path=path)
    assert page.locator("#browser").is_hidden()
    assert page.locator(".plot .trace").count() > 0
