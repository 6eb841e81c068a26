"""A plan from the records of a run that was really made."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from wmrl_gym.cli import main
from wmrl_gym.configs import compose_config
from wmrl_gym.runs import TrainingRun, capacity_of_run, simulate
from wmrl_gym.runs.records.run_directory import RunDirectory

SHORT = ["experiment=smoke", "evaluation.samples=1", "threads=1", "logger.tensorboard=false"]


@pytest.mark.slow
@pytest.mark.usefixtures("smoke_data")
def test_the_simulation_repeats_the_run_and_answers_what_if(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = TrainingRun.from_config([*SHORT, "algorithm.steps=3", f"runs={tmp_path}"])
    run.train()
    records = run.metrics()[1:]
    measured = sum(sum(v for name, v in r.items() if name.startswith("seconds/")) for r in records) / len(records)
    capacity = capacity_of_run(run.directory.path)
    assert capacity.group_size == run.config.algorithm.build().group_size and capacity.mode == "lockstep"
    assert simulate(capacity, 100).step == pytest.approx(measured, rel=0.25)

    assert main(["plan", f"run={run.directory.path}", "slots=[1,4]", "fractions=[0.1,1]", "simulated_steps=3"]) == 0
    printed = capsys.readouterr().out
    assert "GPU-h" in printed and printed.count("100%") == 2


def test_what_was_not_measured_is_not_made_up(
    tmp_path: Path, smoke_data: None, capsys: pytest.CaptureFixture[str]
) -> None:
    run = TrainingRun.from_config([*SHORT, "algorithm.steps=1", f"runs={tmp_path}", "proxy=world_model_only"])
    with pytest.raises(ValueError, match="no finished step"):
        capacity_of_run(run.directory.path)
    record = {"step": 0, "turns": 1.0, "tokens_per_turn": 9.0, "executed_share": 0.0, "executed_seconds": 0.0}
    run.directory.metrics_file.write_text(json.dumps(record) + "\n")
    with pytest.raises(ValueError, match="nothing was executed"):
        capacity_of_run(run.directory.path)
    run.directory.metrics_file.write_text(json.dumps({**record, "turns": None}) + "\n")
    with pytest.raises(ValueError, match="how many turns"):
        capacity_of_run(run.directory.path)
    assert main(["plan", f"run={tmp_path / 'nowhere'}"]) == 2
    assert "nowhere" in capsys.readouterr().err
    assert main(["plan", "capacity.slots=0"]) == 2
    assert "slots is 0" in capsys.readouterr().err


@pytest.mark.usefixtures("smoke_data")
def test_a_number_of_workers_that_nobody_wrote_down_is_asked_for(tmp_path: Path) -> None:
    config = compose_config("train", [*SHORT, "execution=ray", "execution.max_workers=null"])
    folder = RunDirectory.create(tmp_path, "run", 0, config)
    (folder.path / "metrics.jsonl").write_text('{"step": 1}\n')
    with pytest.raises(ValueError, match=r"set execution\.max_workers"):
        capacity_of_run(folder.path)
