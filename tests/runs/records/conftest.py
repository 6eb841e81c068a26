from __future__ import annotations

from pathlib import Path

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
