"""`wmrl compare` as a user runs it: in its own process, killed, gone on with, and asked for something else."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from wmrl_gym.cli.main import main

ARMS = ("grpo", "fraction=0.4")
COMMON = (
    "experiment=smoke",
    "algorithm.steps=2",
    "algorithm.groups_per_step=2",
    "algorithm.group_size=2",
    "evaluation.samples=1",
    "evaluation.samples_during=1",
    "logger=jsonl",
    "threads=1",
)
SMALL = (*COMMON, "seeds=[0]", "only=[grpo]", "sweep.proxy.anchors.fraction=[0.4]", "resamples=20")


def start(root: Path, command: str, *overrides: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "WMRL_DATA_ROOT": str(root), "OMP_NUM_THREADS": "1"}
    words = [sys.executable, "-m", "wmrl_gym", command, *overrides]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)


def finish(process: subprocess.Popen[str]) -> str:
    output, errors = process.communicate(timeout=900)
    assert process.returncode == 0, errors
    return output


def deterministic(run: Path) -> list[dict[str, Any]]:
    """The metrics of a run without seconds."""
    records = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [{key: value for key, value in record.items() if "seconds" not in key} for record in records]


def wait_for(condition: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 600
    while not condition():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.02)


pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def whole(smoke_root: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    folder = tmp_path_factory.mktemp("comparison")
    return folder, finish(start(smoke_root, "compare", *SMALL, f"folder={folder}"))


def test_arms_take_turns_and_leave_a_report(whole: tuple[Path, str]) -> None:
    folder, output = whole
    turns = [line for line in output.splitlines() if line.startswith("== ")]
    assert [line.split(":")[0] for line in turns] == [
        "== grpo, seed 0",
        "== fraction=0.4, seed 0",
        "== fraction=0.4, seed 0",
        "== grpo, seed 0",
    ], "another arm begins the second round"
    assert "left of the whole" in turns[1] and "grpo s0 2/2" in output
    data = json.loads((folder / "comparison.json").read_text())
    assert [arm["arm"] for arm in data["arms"]] == list(ARMS) and data["reference"] == "grpo" and data["seeds"] == [0]
    assert data["arms"][0]["cost"]["executions"] > data["arms"][1]["cost"]["executions"] > 0
    assert [point["step"] for point in data["arms"][0]["curve"]] == [0, 1, 2]
    for name in ("comparison.md", "comparison.tex", "comparison.svg"):
        assert "grpo" in (folder / name).read_text()
    for arm in ARMS:
        assert len(deterministic(folder / f"{arm}-s0")) == 2
        seconds = json.loads((folder / f"{arm}-s0" / "table.json").read_text())["cost"]["seconds"]
        assert seconds["evaluation during"] > 0 and seconds["evaluation after"] > 0


def test_evaluation_before_training_is_done_once_and_shared(whole: tuple[Path, str]) -> None:
    folder, output = whole
    assert output.count("evaluating before training") == 1
    first, other = (json.loads((folder / f"{arm}-s0" / "before.json").read_text()) for arm in ARMS)
    assert other["scores"] == first["scores"] and other["shared_by"] == "grpo" and "shared_by" not in first


def test_finished_comparison_is_only_reported_again(
    smoke_data: None, whole: tuple[Path, str], capsys: pytest.CaptureFixture[str]
) -> None:
    folder, _ = whole
    before = {path: path.stat().st_mtime_ns for path in folder.glob("*/*")}
    assert main(["compare", *SMALL, f"folder={folder}"]) == 0
    output = capsys.readouterr().out
    assert "== " not in output and "| grpo |" in output
    assert {path: path.stat().st_mtime_ns for path in before} == before


def test_a_finished_run_without_its_first_evaluation_is_named(
    smoke_data: None, whole: tuple[Path, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(whole[0], folder)
    lost = next(folder.glob("grpo-s*/before.json"))
    lost.unlink()
    assert main(["compare", *SMALL, f"folder={folder}"]) == 2
    errors = capsys.readouterr().err
    assert str(lost.parent) in errors and "before.json" in errors and "the same command runs it again" in errors


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ("algorithm.learning_rate=1e-5", "algorithm.learning_rate: 0.0006, now 1e-05"),
        ("evaluation.every=2", "evaluation.every: 1, now 2"),
        ("world_model.quality=continuous", 'world_model.quality: "bucket", now "continuous"'),
    ],
)
def test_other_settings_are_refused_and_named(
    smoke_data: None, whole: tuple[Path, str], capsys: pytest.CaptureFixture[str], change: str, named: str
) -> None:
    folder, _ = whole
    assert main(["compare", *SMALL, change, f"folder={folder}"]) == 2
    errors = capsys.readouterr().err
    assert "was run with other settings" in errors and named in errors and "folder=" in errors


@pytest.mark.slow
def test_killed_in_the_middle_of_an_arm_the_same_command_goes_on_to_the_same_numbers(
    smoke_root: Path, tmp_path: Path, whole: tuple[Path, str]
) -> None:
    process = start(smoke_root, "compare", *SMALL, f"folder={tmp_path}")
    second = tmp_path / f"{ARMS[1]}-s0"
    wait_for(lambda: (second / "checkpoints" / "step-000001").is_dir(), process)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert not (tmp_path / "comparison.md").exists()
    output = finish(start(smoke_root, "compare", *SMALL, f"folder={tmp_path}"))
    assert "== grpo, seed 0: steps 1 to 1" not in output and "evaluating before" not in output
    for arm in ARMS:
        assert deterministic(tmp_path / f"{arm}-s0") == deterministic(whole[0] / f"{arm}-s0")
        for when in ("during-000001", "after"):
            scores = [json.loads((root / f"{arm}-s0" / f"{when}.json").read_text())["scores"] for root in
                      (tmp_path, whole[0])]  # fmt: skip
            assert scores[0] == scores[1]


@pytest.mark.slow
def test_turns_and_evaluations_do_not_change_what_a_run_learns(
    smoke_root: Path, tmp_path: Path, whole: tuple[Path, str]
) -> None:
    alone = (*COMMON, "proxy.anchors.fraction=0.4", "evaluation.before=false", f"runs={tmp_path}")
    finish(start(smoke_root, "train", *alone))
    (run,) = tmp_path.iterdir()
    assert deterministic(run) == deterministic(whole[0] / f"{ARMS[1]}-s0")
    after = [json.loads((path / "after.json").read_text())["scores"] for path in (run, whole[0] / f"{ARMS[1]}-s0")]
    assert after[0] == after[1]
