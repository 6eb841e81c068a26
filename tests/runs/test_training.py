"""A training run from Python."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from wmrl_gym.configs import ConfigError
from wmrl_gym.runs import TrainingRun

SHORT = ["experiment=smoke", "algorithm.steps=2", "evaluation.samples=2", "threads=1", "logger.tensorboard=false"]


class Told:
    def __init__(self) -> None:
        self.stages: list[str] = []
        self.steps: list[int] = []

    def stage(self, text: str) -> None:
        self.stages.append(text)

    def step(self, step: int, metrics: Any) -> None:
        self.steps.append(step)


@pytest.mark.slow
@pytest.mark.usefixtures("smoke_data")
def test_a_run_trains_part_by_part_in_any_thread_and_its_agent_plays_as_it_was_measured(tmp_path: Path) -> None:
    told = Told()
    run = TrainingRun.from_config([*SHORT, f"runs={tmp_path}"])
    # Signals belong to the main thread: elsewhere a run works without taking them over.
    worker = threading.Thread(target=run.train, args=(told, 1))
    worker.start()
    worker.join()
    assert told.steps == [0] and run.evaluation("after") is None and len(run.metrics()) == 1

    resumed = TrainingRun.resume(run.directory.path)
    resumed.train(told)
    assert told.steps == [0, 1] and "going on after step 1" in told.stages
    measured = resumed.evaluation("after")
    assert measured is not None and len(measured.records) == 2
    assert resumed.evaluate().records == measured.records
    assert len(resumed.evaluate(samples=1).records) == 1


@pytest.mark.usefixtures("smoke_data")
def test_what_cannot_be_right_makes_no_folder(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    with pytest.raises(ConfigError, match="did you mean"):
        TrainingRun.from_config([*SHORT, f"runs={runs}", "algorithm.stepps=1"])
    with pytest.raises(ConfigError, match="no world model"):
        TrainingRun.from_config([*SHORT, f"runs={runs}", "world_model=null"])
    with pytest.raises(ConfigError, match="1 tasks are trained on and held out as well, for example titanic_survival"):
        TrainingRun.from_config([*SHORT, f"runs={runs}", "tasks.train=[titanic_survival,diabetes_progression]"])
    assert not runs.exists()


@pytest.mark.usefixtures("smoke_data")
def test_without_held_out_tasks_there_is_nothing_to_evaluate(tmp_path: Path) -> None:
    run = TrainingRun.from_config([*SHORT, f"runs={tmp_path}", "tasks.held_out=[]"])
    with pytest.raises(ConfigError, match=r"tasks\.held_out"):
        run.evaluate()
