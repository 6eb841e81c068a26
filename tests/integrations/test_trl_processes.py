"""Two processes: one proxy, groups across processes in one turn, and the episodes that one process would play."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("trl")

from tests.integrations.trl_small import Outcome, Submission, oracle

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
SHARE = {"per_device_train_batch_size": 2, "gradient_accumulation_steps": 3, "max_steps": 4}
"""Each process generates 6 of 12 completions: the second of three groups of 4 is half in one, half in the other."""
SAVED = {**SHARE, "save_strategy": "steps", "save_steps": 2}
WHOLE = {"per_device_train_batch_size": 4, "gradient_accumulation_steps": 2, "max_steps": 2}


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What both processes, and one alone, saw of each job."""
    folder = tmp_path_factory.mktemp("trl")
    jobs = [
        ("one", "one", {**SAVED, "normalise_by_std": True, "folder": str(folder / "one")}),
        ("resumed", "one", {**SAVED, "normalise_by_std": True, "resume": str(folder / "one" / "checkpoint-2")}),
        ("several", "several", WHOLE),
        ("evaluated", "several", {**WHOLE, "eval_strategy": "steps", "eval_steps": 1}),
        ("broken", "one", {**SHARE, "fails": True}),
    ]
    alone = [("alone", "several", {**WHOLE, "gradient_accumulation_steps": 4, "max_steps": 1})]
    _launch(folder, jobs, 2)
    _launch(folder, alone, 1)
    names = [(name, rank) for name, _, _ in jobs for rank in (0, 1)] + [("alone", 0)]
    return {f"{name}_{rank}": json.loads((folder / f"{name}_{rank}.json").read_text()) for name, rank in names}


def _launch(folder: Path, jobs: list[Any], processes: int) -> None:
    launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"] if processes > 1 else []
    command = [sys.executable, *launcher, "-m", "tests.integrations.trl_small", str(folder), json.dumps(jobs)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment, timeout=280)
    assert done.returncode == 0, done.stderr[-6000:]


def _joined(seen: dict[str, Any], name: str) -> list[list[float]]:
    """Advantages of each step, those of the first process first."""
    both = zip(seen[f"{name}_0"]["advantages"], seen[f"{name}_1"]["advantages"], strict=True)
    return [first + second for first, second in both]


def test_advantages_of_both_processes_are_those_of_one_proxy(seen: dict[str, Any]) -> None:
    handed_in = []
    for step in range(4):
        for rank in (0, 1):
            handed_in += seen[f"one_{rank}"]["handed_in"][step * 6 : (step + 1) * 6]
    given = [Submission(*item) if isinstance(item, list) else Outcome(item, "known") for item in handed_in]
    np.testing.assert_allclose(_joined(seen, "one"), oracle(given, 4, normalise_by_std=True), atol=1e-6)
    assert seen["one_0"]["state"] == seen["one_1"]["state"]


def test_each_process_executes_its_own_part(seen: dict[str, Any]) -> None:
    for rank in (0, 1):
        own = [item[1] for item in seen[f"one_{rank}"]["handed_in"] if isinstance(item, list)]
        assert seen[f"one_{rank}"]["executed"] and set(seen[f"one_{rank}"]["executed"]) <= set(own)


def test_both_processes_resume_with_the_same_proxy_and_their_own_memories(seen: dict[str, Any]) -> None:
    for rank in (0, 1):
        assert seen[f"resumed_{rank}"]["advantages"] == seen[f"one_{rank}"]["advantages"][2:]
        assert seen[f"resumed_{rank}"]["state"] == seen[f"one_{rank}"]["state"]
    assert len(seen["one_0"]["state"]["world_models"]) == 2


def test_two_processes_play_the_episodes_that_one_would_play(seen: dict[str, Any]) -> None:
    assert len(_joined(seen, "several")[0]) == 16 and len(set(_joined(seen, "several")[0])) > 8
    np.testing.assert_allclose(_joined(seen, "several")[0], seen["alone_0"]["advantages"][0], atol=1e-6)
    assert seen["several_0"]["state"] == seen["several_1"]["state"]


def test_evaluations_change_no_training_on_two_processes(seen: dict[str, Any]) -> None:
    assert _joined(seen, "evaluated") == _joined(seen, "several")
    assert seen["evaluated_0"]["state"]["scoring"] == seen["several_0"]["state"]["scoring"]


def test_what_fails_in_one_process_stops_the_other_with_the_reason(seen: dict[str, Any]) -> None:
    assert seen["broken_1"]["error"] == "OSError: no colours today"
    assert seen["broken_0"]["error"].startswith("RuntimeError: process 1 failed")
    assert "no colours today" in seen["broken_0"]["error"]
    assert seen["broken_0"]["state"]["scoring"]["step"] == seen["broken_1"]["state"]["scoring"]["step"] == 0
