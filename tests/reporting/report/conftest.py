from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.runs.records.conftest import runs

__all__ = ["runs"]

OpenPage = Callable[..., Any]


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """A real Chromium that cannot reach any network."""
    api = pytest.importorskip("playwright.sync_api", reason="needs Playwright: pip install 'wmrl-gym[test]'")
    found = map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))
    path = next((path for path in found if path is not None), None)
    if path is None:
        pytest.skip("needs a Chromium: apt-get install chromium")
    with api.sync_playwright() as playwright:
        # The suite may run as root in a container, where Chromium's own sandbox cannot start.
        chromium = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield chromium
        chromium.close()


def wait_until(page: Any, condition: str, timeout: float = 30.0) -> None:
    """Asks again and again until a JavaScript expression holds.

    Playwright's own `wait_for_function` evaluates its text inside the page when the first answer is no, which the
    page's content security policy forbids: it works or fails as the page is quick or slow.
    """
    end = time.monotonic() + timeout
    while not page.evaluate(condition):
        assert time.monotonic() < end, f"still not so after {timeout} s: {condition}"
        page.wait_for_timeout(50)


@pytest.fixture
def open_page(browser: Any, report_file: Path) -> Iterator[OpenPage]:
    """Opens the report; at the end nothing may have been asked of a network, nor an error have occurred."""
    contexts, requests, errors = [], [], []

    def open_it(width: int = 1280, scheme: str = "light", path: Path = report_file) -> Any:
        phone = {"has_touch": True, "is_mobile": True} if width < 500 else {}
        context = browser.new_context(
            viewport={"width": width, "height": 844}, color_scheme=scheme, offline=True, **phone
        )
        contexts.append(context)
        page = context.new_page()
        page.on("request", lambda request: requests.append(request.url))
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
        page.goto(path.as_uri())
        page.wait_for_selector("html[data-charts]", timeout=120_000)
        return page

    yield open_it
    for context in contexts:
        context.close()
    assert all(url.startswith(("file:", "data:", "blob:")) for url in requests), requests
    assert errors == []
