from __future__ import annotations

from pathlib import Path

import pytest

from wmrl_gym.envs.mle_dojo.catalogue import prepare_all


@pytest.fixture(scope="session")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data root with every bundled competition."""
    folder = tmp_path_factory.mktemp("competitions")
    prepare_all(folder)
    return folder
