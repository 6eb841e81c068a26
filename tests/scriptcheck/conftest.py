"""The tiny competitions, written once for all tests of static analysis."""

from __future__ import annotations

import pytest

from tests.scriptcheck.worlds import MAKERS, World


@pytest.fixture(scope="session")
def worlds(tmp_path_factory: pytest.TempPathFactory) -> dict[str, World]:
    root = tmp_path_factory.mktemp("worlds")
    return {name: make(root) for name, make in MAKERS.items()}
