from __future__ import annotations

from pathlib import Path

import pytest

from wmrl_gym.envs.mle_dojo.catalogue import prepare

SMOKE_COMPETITIONS = ("diabetes_progression", "breast_cancer_diagnosis", "titanic_survival")


@pytest.fixture(scope="session")
def smoke_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the competitions of the experiment "smoke" are prepared."""
    root = tmp_path_factory.mktemp("competitions")
    for name in SMOKE_COMPETITIONS:
        prepare(name, root)
    return root


@pytest.fixture
def smoke_data(smoke_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes them the default data root."""
    monkeypatch.setenv("WMRL_DATA_ROOT", str(smoke_root))
