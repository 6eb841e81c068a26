"""`experiment=libero_tiny` as a user runs it, small: the same trainer as for scripts, with an arm in a simulator."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest

from tests.cli.test_train_command import deterministic, only_run, start
from wmrl_gym.cli.main import main
from wmrl_gym.configs import compose_config
from wmrl_gym.configs.schema import TrainConfig

DRAWER = "KITCHEN_SCENE5_close_the_top_drawer_of_the_cabinet"
SMALL = (
    "experiment=libero_tiny",
    "algorithm.steps=2",
    "algorithm.groups_per_step=2",
    "algorithm.group_size=2",
    "algorithm.checkpoint_every=1",
    "env.horizon=20",
    "env.workers=1",
    "env.image_size=32",
    f"tasks.train=[{DRAWER}@0,{DRAWER}@1]",
    f"tasks.held_out=[{DRAWER}@40]",
    "evaluation.samples=2",
    "logger=jsonl",
    "threads=1",
)

needs_simulator = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("libero", "mujoco")),
    reason="LIBERO is not installed: pip install 'wmrl-gym[libero]'",
)


@pytest.fixture
def asked_for(request: pytest.FixtureRequest) -> None:
    if "sim_long" not in request.config.getoption("-m"):
        pytest.skip("takes long: run it with -m sim_long")


def finish(process: subprocess.Popen[str]) -> str:
    output, errors = process.communicate(timeout=700)
    assert process.returncode == 0, errors
    return output


def wait_for_file(folder: Path, pattern: str, process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 700
    while not list(folder.glob(pattern)):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.05)


def simulators_of(process_id: int) -> list[int]:
    """Ids of the simulator processes that a process has started."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            command, status = (folder / "cmdline").read_bytes(), (folder / "stat").read_text()
        except OSError:
            continue  # it ended while we looked
        if b"wmrl_gym.envs.libero.worker" in command and int(status.rpartition(")")[2].split()[1]) == process_id:
            found.append(int(folder.name))
    return found


@pytest.mark.sim_long
@pytest.mark.timeout(1500)
@needs_simulator
@pytest.mark.usefixtures("asked_for")
def test_run_killed_in_mid_rollout_and_resumed_gives_the_metrics_of_the_whole_one(tmp_path: Path) -> None:
    output = finish(start(tmp_path, tmp_path / "whole", *SMALL))
    whole = only_run(tmp_path / "whole")
    records = deterministic(whole)
    assert [record["step"] for record in records] == [0, 1]
    assert all(record["executed_share"] == 0.5 for record in records)
    assert "success" in output and json.loads((whole / "after.json").read_text())["unknown"] == 0

    process = start(tmp_path, tmp_path / "killed", *SMALL)
    wait_for_file(tmp_path, "killed/*/checkpoints/step-000001", process)
    time.sleep(0.3)  # the second step plays by now
    simulators = simulators_of(process.pid)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    run = only_run(tmp_path / "killed")
    assert len(deterministic(run)) == 1
    assert simulators
    deadline = time.monotonic() + 60
    while any(os.path.exists(f"/proc/{pid}") for pid in simulators):
        assert time.monotonic() < deadline, "simulators outlived their trainer"
        time.sleep(0.1)
    finish(start(tmp_path, tmp_path, f"resume={run}"))
    assert deterministic(run) == records


def test_cold_start_from_demonstrations_through_the_command_line_is_an_agent_that_acts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("h5py")
    from tests.envs.libero.test_demonstrations import made_up
    from wmrl_gym.envs.libero.demonstrations import DemonstrationExamples, write_demonstrations
    from wmrl_gym.policies.drawers import load_drawer_agent, new_drawer_agent, save_drawer_agent
    from wmrl_gym.policies.minivla.cloning_loss import action_token_loss

    write_demonstrations(tmp_path / "d.hdf5", [made_up(steps=12)])
    save_drawer_agent(new_drawer_agent(), tmp_path / "start")
    settings = ("steps=12", "batch_size=4", "learning_rate=1e-3", "matrix_learning_rate=null", "warmup_steps=2")
    code = main(
        [
            "sft",
            "policy=drawer_agent",
            f"policy.directory={tmp_path / 'start'}",
            f"demonstrations=[{tmp_path / 'd.hdf5'}]",
            f"output={tmp_path / 'cloned'}",
            *(f"settings.{item}" for item in settings),
        ]
    )
    assert code == 0 and "cloned" in capsys.readouterr().out
    before, after = load_drawer_agent(tmp_path / "start"), load_drawer_agent(tmp_path / "cloned")
    examples = DemonstrationExamples(tmp_path, chunk=8)
    observations, chunks = [o for o, _ in examples], np.stack([a for _, a in examples])
    losses = [float(action_token_loss(policy, observations, chunks)[0].detach()) for policy in (before, after)]
    assert losses[1] < losses[0] - 0.3
    decision = after.act(observations[:1], histories=[()], seeds=[(0,)])[0]
    assert decision.action.shape == (8, 7)


def test_demonstrations_without_a_policy_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sft", f"demonstrations=[{tmp_path}]", f"output={tmp_path / 'out'}"]) == 2
    assert "no policy" in capsys.readouterr().err


def test_drawer_agent_begins_training_with_its_vision_frozen() -> None:
    policy = TrainConfig.from_mapping(compose_config("train", ["experiment=libero_tiny"])).policy.build()
    assert not any(name.startswith("vision.") for name in policy.state_dict())
    assert sum(parameter.numel() for parameter in policy.parameters()) > 500_000


def test_the_papers_experiment_holds_its_settings_and_composes_without_weights() -> None:
    config = TrainConfig.from_mapping(compose_config("train", ["experiment=libero_minivla"]))
    settings, proxy = config.algorithm.build(), config.proxy.build()
    assert (settings.groups_per_step, settings.group_size, settings.learning_rate) == (8, 8, 1e-5)
    assert (settings.loss.kl_coefficient, settings.loss.clip_low, settings.loss.clip_high) == (0.04, 0.2, 0.2)
    environment = config.env.arguments
    assert (environment["suite"], environment["horizon"], environment["settle_steps"]) == ("libero_10", 520, 10)
    assert config.policy.arguments["lora_rank"] == 16
    assert config.world_model is not None
    judge = config.world_model.arguments
    assert (judge["frames"], judge["reducer"], judge["window"]) == (8, "potential", 3)
    assert proxy.anchors.fraction == 0.1
    assert (proxy.debiaser.min_pairs, proxy.debiaser.refit_every, proxy.debiaser.window) == (200, 64, 5000)
    assert (proxy.fusion.half_life, proxy.fusion.warmup, tuple(proxy.fusion.clip)) == (64, 32, (1, 4))


@needs_simulator
def test_initial_states_that_are_measured_are_never_trained_on() -> None:
    from wmrl_gym.runs.assembly import Domain

    for experiment, tasks in (("libero_tiny", 2), ("libero_minivla", 10)):
        config = TrainConfig.from_mapping(compose_config("train", [f"experiment={experiment}"]))
        domain = Domain(config.env, config.tasks)
        assert (len(domain.train), len(domain.held_out)) == (40 * tasks, 10 * tasks)
        assert not set(domain.train) & set(domain.held_out)
        assert domain.categories is not None and len(set(domain.categories.values())) == tasks
