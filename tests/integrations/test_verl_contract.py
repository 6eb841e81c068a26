"""The names and signatures of verl that the integration relies on, and the check that verl has loaded it."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("verl", reason="verl is not installed: make verl-env", exc_type=ImportError)

from verl.experimental.agent_loop.agent_loop import AgentLoopWorker
from verl.experimental.reward_loop.reward_manager import get_reward_manager_cls
from verl.experimental.reward_loop.reward_manager.base import RewardManagerBase
from verl.trainer.ppo import core_algos, ray_trainer
from verl.trainer.ppo.checkpoint_callback import CheckpointCallback
from verl.trainer.ppo.v1 import AgentLoopWorkerTQ, PPOTrainer, PPOTrainerSync, get_trainer_cls
from verl.trainer.ppo.v1.replay_buffer import ReplayBuffer

from wmrl_gym.integrations import VerlPluginError, check_verl
from wmrl_gym.integrations.verl import check
from wmrl_gym.integrations.verl.estimator import ProxyCheckpoint, wmrl_advantages
from wmrl_gym.integrations.verl.reward import WMRLRewardManager
from wmrl_gym.integrations.verl.settings import CHECKPOINT_CALLBACK
from wmrl_gym.integrations.verl.trainer import WMRLTrainer


def parameters(function: Any) -> list[str]:
    return list(inspect.signature(function).parameters)


def test_the_version_is_one_that_these_hooks_were_written_for() -> None:
    assert version("verl").startswith("0.9.")


def test_verl_finds_all_three_by_name() -> None:
    assert get_trainer_cls("wmrl_sync") is WMRLTrainer and issubclass(WMRLTrainer, PPOTrainerSync)
    assert get_reward_manager_cls("wmrl") is WMRLRewardManager
    assert core_algos.get_adv_estimator_fn("wmrl_grpo") is wmrl_advantages
    assert f"{ProxyCheckpoint.__module__}.{ProxyCheckpoint.__qualname__}" == CHECKPOINT_CALLBACK


def test_the_trainers_hooks_are_where_they_were() -> None:
    assert parameters(PPOTrainer._compute_advantage) == ["self", "batch", "metrics"]
    assert parameters(PPOTrainer._submit_batch_to_rollout) == ["self", "batch"]
    assert parameters(PPOTrainer._build_replay_buffer) == ["self"]
    assert parameters(PPOTrainer._save_checkpoint) == parameters(PPOTrainer._load_checkpoint) == ["self"]
    assert parameters(ReplayBuffer.sample) == ["self", "global_steps", "partition_id", "batch_size"]
    source = inspect.getsource(PPOTrainer)
    # Drawn prompts are the only ones that training generates; validation goes past this hook.
    assert source.count("self._submit_batch_to_rollout(") == 2
    assert "_submit_batch_to_rollout" not in inspect.getsource(PPOTrainer._validate)
    # The trainer's own name is set before anything asks for it.
    built = inspect.getsource(PPOTrainer.__init__)
    assert built.index("self.trainer_mode =") < built.index("self._build_replay_buffer()")


def test_the_reward_manager_is_built_and_called_as_it_was() -> None:
    assert parameters(RewardManagerBase.__init__) == ["self", "config", "tokenizer", "compute_score"]
    assert parameters(WMRLRewardManager.run_single) == parameters(RewardManagerBase.run_single) == ["self", "data"]
    scored = inspect.getsource(AgentLoopWorker._compute_score)
    assert '["reward_extra_info"] = result["reward_extra_info"]' in scored and "for k, v in kwargs.items()" in scored
    queued = inspect.getsource(AgentLoopWorkerTQ.__ray_metadata__.modified_class._agent_loop_postprocess)
    assert 'keys.append(f"{uid}_{session_id}_{i}")' in queued
    assert '.extra_fields["reward_extra_info"] = final_output.extra_fields["reward_extra_info"]' in queued


def test_estimators_get_rewards_mask_and_uids_and_callbacks_their_folder() -> None:
    called = inspect.getsource(ray_trainer.compute_advantage)
    assert 'adv_kwargs["index"] = data.non_tensor_batch["uid"]' in called
    assert set(parameters(wmrl_advantages)) > {"token_level_rewards", "response_mask", "config", "index"}
    assert parameters(ProxyCheckpoint.on_save) == parameters(CheckpointCallback.on_save)
    assert parameters(ProxyCheckpoint.__init__) == parameters(CheckpointCallback.__init__)


def test_the_check_passes_here() -> None:
    assert check_verl().endswith("the reward manager wmrl")
    done = subprocess.run([sys.executable, "-m", "wmrl_gym.integrations.verl.check"], capture_output=True, text=True)
    assert done.returncode == 0 and "has loaded the proxy" in done.stdout


def test_a_plugin_that_fails_inside_verl_is_said_aloud(tmp_path: Path) -> None:
    broken = tmp_path / "transfer_queue.py"
    broken.write_text("raise ImportError('a broken transfer_queue')")
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}:{os.getcwd()}"}
    done = subprocess.run(
        [sys.executable, "-m", "wmrl_gym.integrations.verl.check"], capture_output=True, text=True, env=environment
    )
    assert done.returncode == 1 and "a broken transfer_queue" in done.stderr and "DEBUG only" in done.stderr


def test_the_check_says_what_leaves_the_proxy_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VERL_USE_EXTERNAL_PLUGINS", "another")
    with pytest.raises(VerlPluginError, match=r"VERL_USE_EXTERNAL_PLUGINS is 'another'(.|\n)*add 'wmrl'"):
        check_verl()
    monkeypatch.delenv("VERL_USE_EXTERNAL_PLUGINS")
    monkeypatch.setattr(check, "entry_points", lambda group: ())
    with pytest.raises(VerlPluginError, match="without its entry point"):
        check_verl()
    monkeypatch.setenv("VERL_USE_EXTERNAL_MODULES", "wmrl_gym.integrations.verl.plugin")
    check_verl()


def test_another_version_of_verl_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("verl.__version__", "0.10.0")
    with pytest.raises(VerlPluginError, match=r"verl 0\.10\.0 is installed"):
        check_verl()
