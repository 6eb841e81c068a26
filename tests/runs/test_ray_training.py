"""Training with its executions on a cluster, of which a machine dies meanwhile."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tests.execution.ray_environments import machines
from wmrl_gym.cli.main import main

SMALL = (
    *("algorithm.steps=2", "algorithm.groups_per_step=3", "algorithm.group_size=2", "proxy.anchors.fraction=1.0"),
    *("evaluation.before=false", "evaluation.after=false", "tasks.train=[titanic_survival,breast_cancer_diagnosis]"),
    *("tasks.held_out=[]", "threads=1", "logger.tensorboard=false"),
)


def ledger(runs: Path) -> list[dict[str, Any]]:
    """The pairs, but for how long they took."""
    (file,) = runs.rglob("ledger.jsonl")
    pairs = [json.loads(line) for line in file.read_text().splitlines()]
    assert all(pair.pop("seconds") >= 0 for pair in pairs)
    return pairs


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.timeout(600)
def test_a_machine_that_dies_in_mid_run_changes_nothing_in_the_ledger(smoke_data: None, tmp_path: Path) -> None:
    pytest.importorskip("ray")
    words = ["train", "experiment=quickstart", *SMALL]
    assert main([*words, "execution=local", f"runs={tmp_path / 'local'}"]) == 0
    with machines(2) as cluster:
        words += ["execution=ray", "execution.max_workers=2", f"execution.executor.address={cluster.address}"]
        assert main([*words, f"runs={tmp_path / 'whole'}"]) == 0
        steps_done: list[int] = []

        def kill() -> None:
            deadline = time.monotonic() + 120
            while not steps_done and time.monotonic() < deadline:
                metrics = [file.read_text() for file in (tmp_path / "killed").rglob("metrics.jsonl")]
                if metrics and metrics[0].strip():
                    time.sleep(0.2)  # into the second step
                    next(iter(cluster.cluster.worker_nodes)).kill_raylet()
                    steps_done.append(len(metrics[0].splitlines()))
                time.sleep(0.02)

        killer = threading.Thread(target=kill)
        killer.start()
        assert main([*words, f"runs={tmp_path / 'killed'}"]) == 0
        killer.join()
        assert steps_done == [1]
    whole, killed = ledger(tmp_path / "whole"), ledger(tmp_path / "killed")
    assert len(whole) > 0
    assert killed == whole == ledger(tmp_path / "local")
