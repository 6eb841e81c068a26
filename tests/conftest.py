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


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Where only tests that run alone are asked for, files without any are not even imported: that takes 20 seconds."""
    alone = config.option.markexpr.startswith("alone")
    if alone and collection_path.suffix == ".py" and "mark.alone" not in collection_path.read_text(encoding="utf-8"):
        return True
    return None


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
