"""`wmrl train` writes what `wmrl report` reads: both commands, on real competitions."""

from __future__ import annotations

from pathlib import Path

import pytest

from wmrl_gym.cli.main import main
from wmrl_gym.envs.mle_dojo.catalogue import prepare
from wmrl_gym.reporting.report import load_runs


@pytest.mark.slow
def test_trained_run_can_be_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("diabetes_progression", "breast_cancer_diagnosis", "titanic_survival"):
        prepare(name, tmp_path / "data")
    monkeypatch.setenv("WMRL_DATA_ROOT", str(tmp_path / "data"))
    small = ["algorithm.steps=1", "algorithm.groups_per_step=2", "algorithm.group_size=2", "evaluation.samples=1"]
    for which, count in (("all", 4), ("none", 0)):
        root = tmp_path / which
        settings = ["logger=jsonl", f"logger.trajectories={which}", "threads=1", f"runs={root}"]
        assert main(["train", "experiment=smoke", *small, *settings]) == 0
        (path,) = root.iterdir()
        (run,) = load_runs([path])
        assert len(run.recorded.trajectories) == count
        assert len(run.metrics) == 1 and run.table is not None and set(run.evaluations) == {"before", "after"}
        assert main(["report", str(path)]) == 0
