from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

SMOKE_COMPETITIONS = ("diabetes_progression", "breast_cancer_diagnosis", "titanic_survival")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Hands out whole files, in their order; LIBERO's go to one worker, which keeps one simulator for all of them."""
    from xdist.scheduler import LoadScopeScheduling

    class ByFile(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return "libero" if nodeid.startswith("tests/envs/libero/") else nodeid.split("::", 1)[0]

    config.option.loadscopereorder = False
    return ByFile(config, log)


@pytest.fixture(scope="session")
def smoke_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the competitions of the experiment "smoke" are prepared."""
    from wmrl_gym.envs.mle_dojo.catalogue import prepare

    root = tmp_path_factory.mktemp("competitions")
    for name in SMOKE_COMPETITIONS:
        prepare(name, root)
    return root


@pytest.fixture
def smoke_data(smoke_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes them the default data root."""
    monkeypatch.setenv("WMRL_DATA_ROOT", str(smoke_root))
