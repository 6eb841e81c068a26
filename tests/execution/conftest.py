"""Competition folders and sandboxes for tests with real processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from wmrl_gym.execution.sandbox import Sandbox, SandboxLimits

CANARY = "canary-7f3d5c"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Public folder of a competition whose answers lie next to it, as in MLE-Dojo's layout."""
    for part in ("public", "private"):
        (tmp_path / "data" / part).mkdir(parents=True)
    (tmp_path / "data/public/train.csv").write_text("id\n1\n2\n")
    (tmp_path / "data/private/test_answer.csv").write_text(CANARY)
    return tmp_path / "data/public"


@pytest.fixture
def sandbox() -> Sandbox:
    return Sandbox(SandboxLimits(wall_seconds=10.0))
