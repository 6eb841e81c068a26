"""`wmrl train` as a user runs it: in its own process, killed and resumed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

SMALL = (
    "experiment=smoke",
    "algorithm.steps=2",
    "algorithm.groups_per_step=2",
    "algorithm.group_size=2",
    "evaluation.samples=1",
    "logger=jsonl",
    "threads=1",
)


def start(root: Path, runs: Path, *overrides: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "WMRL_DATA_ROOT": str(root), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "wmrl_gym", "train", *overrides, *([f"runs={runs}"] if len(overrides) > 1 else [])]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


def finish(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    output, errors = process.communicate(timeout=250)
    return process.returncode, output, errors


def only_run(runs: Path) -> Path:
    (run,) = runs.iterdir()
    return run


def deterministic(run: Path) -> list[dict[str, Any]]:
    """The metrics of a run without wall-clock seconds."""
    records = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [{key: value for key, value in record.items() if "seconds" not in key} for record in records]


def wait_for(condition: Any, process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 200
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.fixture(scope="module")
def whole_run(smoke_root: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    runs = tmp_path_factory.mktemp("runs")
    code, output, errors = finish(start(smoke_root, runs, *SMALL))
    assert code == 0, errors
    return only_run(runs), output


def test_run_shows_steps_and_table_and_leaves_everything_behind(whole_run: tuple[Path, str]) -> None:
    run, output = whole_run
    assert "1/2" in output and "2/2" in output and "held-out, avg@1" in output and "really executed" in output
    for name in (
        "config.yaml", "circumstances.json", "metrics.jsonl", "ledger.jsonl", "before.json", "after.json", "table.md",
        "table.json", "checkpoints/step-000002",
    ):  # fmt: skip
        assert (run / name).exists(), name
    table = json.loads((run / "table.json").read_text())
    names = [measure["name"] for measure in table["measures"]]
    assert names == ["percentile", "percentile, categories weighed alike", "valid share"]
    assert table["cost"]["trajectories"] == 8
    assert table["cost"]["executed_trajectories"] == 4  # one of two groups is an anchor at each step
    assert [json.loads(line)["step"] for line in (run / "ledger.jsonl").read_text().splitlines()] <= [0, 0, 1, 1]


@pytest.mark.slow
def test_killed_and_resumed_run_gives_the_metrics_of_the_whole_one(
    smoke_root: Path, tmp_path: Path, whole_run: tuple[Path, str]
) -> None:
    process = start(smoke_root, tmp_path, *SMALL)
    wait_for(lambda: list(tmp_path.glob("*/checkpoints/step-000001")), process)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    run = only_run(tmp_path)
    code, _, errors = finish(start(smoke_root, tmp_path, f"resume={run}"))
    assert code == 0, errors
    assert deterministic(run) == deterministic(whole_run[0])
    assert (run / "ledger.jsonl").read_text().count("\n") == (whole_run[0] / "ledger.jsonl").read_text().count("\n")


@pytest.mark.slow
def test_interrupt_finishes_the_step_leaves_a_checkpoint_and_says_how_to_go_on(
    smoke_root: Path, tmp_path: Path
) -> None:
    process = start(smoke_root, tmp_path, *SMALL, "algorithm.steps=50", "algorithm.checkpoint_every=50")
    wait_for(lambda: any(path.stat().st_size for path in tmp_path.glob("*/metrics.jsonl")), process)
    process.send_signal(signal.SIGINT)
    code, output, _ = finish(process)
    run = only_run(tmp_path)
    assert code == 130
    assert f"wmrl train resume={run}" in output.replace("\n", "")
    steps = len(deterministic(run))
    assert (run / "checkpoints" / f"step-{steps:06d}").is_dir()


def test_missing_data_root_is_one_clear_message(tmp_path: Path) -> None:
    code, _, errors = finish(start(tmp_path / "nowhere", tmp_path / "runs", *SMALL))
    assert code == 2
    assert errors.startswith("wmrl: ") and "wmrl competitions prepare" in errors and "Traceback" not in errors


def test_no_world_model_with_unexecuted_groups_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    code, _, errors = finish(start(tmp_path, tmp_path / "runs", *SMALL, "world_model=null"))
    assert code == 2 and "proxy=all_executed" in errors
    assert not (tmp_path / "runs").exists()


def test_trained_agent_is_evaluated_from_its_run(
    smoke_root: Path, whole_run: tuple[Path, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from wmrl_gym.cli.main import main

    monkeypatch.setenv("WMRL_DATA_ROOT", str(smoke_root))
    assert main(["evaluate", f"run={whole_run[0]}", "evaluation.samples=1", "threads=1"]) == 0
    output = capsys.readouterr().out
    assert "titanic_survival" in output and "step-000002" in output.replace("\n", "")
    # The same seed and weights as the run's own evaluation at the end, so the same episodes.
    again = json.loads((whole_run[0] / "evaluation-step-000002-s0.json").read_text())
    assert again["scores"] == json.loads((whole_run[0] / "after.json").read_text())["scores"]
