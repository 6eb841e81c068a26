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
    small = ["algorithm.steps=1", "algorithm.groups_per_step=2", "algorithm.group_size=2", "threads=1"]
    unmeasured = ["evaluation.before=false", "evaluation.after=false"]
    settings = ["logger=jsonl", "logger.trajectories=anchors", f"runs={tmp_path / 'runs'}"]
    assert main(["train", "experiment=smoke", *small, *unmeasured, *settings]) == 0
    (path,) = (tmp_path / "runs").iterdir()
    (run,) = load_runs([path])
    assert len(run.metrics) == 1 and run.table is not None
    assert len(run.recorded.trajectories) == 2, "one of the two groups is an anchor"
    for trajectory in run.recorded.trajectories:
        assert trajectory["anchor"] and run.recorded.openings[trajectory["opening"]]
        assert [turn["executed"] is not None for turn in trajectory["turns"]] == [True, True]
    assert main(["report", str(path)]) == 0
