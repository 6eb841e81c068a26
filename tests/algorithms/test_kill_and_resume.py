"""A language model's training run, killed at a random moment and resumed, against the same run left alone."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from wmrl_gym.algorithms.checkpoint import latest_checkpoint, load_checkpoint
from wmrl_gym.algorithms.wmrl_grpo import WMRLGRPO, WMRLGRPOSettings
from wmrl_gym.core import Outcome, Submission
from wmrl_gym.execution.local import LocalExecutor
from wmrl_gym.proxy import InverseVarianceFusion, IsotonicDebiaser, RandomAnchors, RewardProxy, RewardProxyVectorEnv
from wmrl_gym.runs.records.metrics import JSONLMetrics, read_metrics

from .tiny_lm import Bytes, tiny_policy

STEPS = 16
SETTINGS = WMRLGRPOSettings(
    steps=STEPS, groups_per_step=4, group_size=4, learning_rate=1e-2, minibatch=8, checkpoint_every=3, seed=5
)


def train(directory: Path, pause: float = 0.0) -> None:
    """One run, or what is left of it; each execution takes `pause` seconds."""
    torch.set_num_threads(1)

    def execute(submission: Submission) -> Outcome:
        time.sleep(pause)
        return Bytes().execute(submission)

    executor = LocalExecutor(execute, max_workers=2)
    log = JSONLMetrics(directory / "metrics.jsonl")
    trainer = WMRLGRPO(
        tiny_policy(),
        RewardProxyVectorEnv([Bytes] * 16, Bytes.WorldModel(), executor),
        ["one", "two", "three"],
        RewardProxy(
            RandomAnchors(0.3, seed=5),
            IsotonicDebiaser(min_pairs=12, refit_every=8),
            InverseVarianceFusion(half_life=4, warmup=2),
        ),
        SETTINGS,
        directory=directory / "checkpoints",
        on_step=log.write,
    )
    log.rewind(trainer.resume())
    trainer.train()
    executor.close()


def start(directory: Path) -> subprocess.Popen[bytes]:
    root = Path(__file__).parents[2]
    code = f"import pathlib, sys, {__name__} as t; t.train(pathlib.Path(sys.argv[1]), pause=0.02)"
    environment = {**os.environ, "PYTHONPATH": str(root), "OMP_NUM_THREADS": "1"}
    return subprocess.Popen([sys.executable, "-c", code, str(directory)], env=environment)


def records(directory: Path) -> list[dict[str, Any]]:
    return [
        {name: value for name, value in record.items() if not name.startswith("seconds/")}
        for record in read_metrics(directory / "metrics.jsonl")
    ]


@pytest.mark.slow
def test_killed_at_a_random_moment_a_run_gives_the_same_metrics_to_the_last_digit(tmp_path: Path) -> None:
    alone, killed = tmp_path / "alone", tmp_path / "killed"
    alone.mkdir()
    killed.mkdir()
    train(alone)
    at = random.Random(time.time_ns()).uniform(0, STEPS - 4)  # any moment must do
    process = start(killed)
    deadline = time.monotonic() + 150
    while len(records(killed)) <= int(at) and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(0.2 * (at % 1))
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL, "it must be killed in mid-run"
    train(killed)
    assert [record["step"] for record in records(killed)] == list(range(STEPS))
    assert json.dumps(records(killed)) == json.dumps(records(alone)), f"killed after step {at}"
    weights, others = (
        load_checkpoint(latest_checkpoint(directory / "checkpoints") or tmp_path)["policy"]
        for directory in (killed, alone)
    )
    assert all(torch.equal(weights[name], others[name]) for name in weights)


def test_the_run_exercises_what_it_is_meant_to(tmp_path: Path) -> None:
    train(tmp_path)
    last = records(tmp_path)[-1]
    assert last["proxy/refits"] > 1 and last["proxy/rho"] != 1 and last["proxy/residual_calibration"] is not None
    assert last["kl"] > 0 and last["grad_norm"] > 0 and last["reward"] == pytest.approx(0.6, abs=0.4)
