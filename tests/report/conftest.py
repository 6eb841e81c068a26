from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from .recorded import make_run


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two seeds of one experiment, and one run of another without a world model."""
    root = tmp_path_factory.mktemp("runs")
    return [
        make_run(root, seed=0),
        make_run(root, seed=1),
        make_run(root, "letters_grpo", fraction=1.0, world_model=False, steps=4),
    ]


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
