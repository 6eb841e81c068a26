"""The trainer with the proxy: verl's own trainer class, queue and Ray; GPU workers and rollouts are played."""

from __future__ import annotations

import asyncio
import json
import types
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("verl", reason="verl is not installed: make verl-env", exc_type=ImportError)
pytestmark = pytest.mark.alone

import ray
import torch
import transfer_queue as tq
from omegaconf import OmegaConf, open_dict
from tensordict import NonTensorStack
from verl import DataProto
from verl.trainer.ppo.padding_utils import upsample_batch_to_divisible_size
from verl.trainer.ppo.v1 import get_trainer_cls
from verl.utils import tensordict_utils

from tests.integrations.verl_world import PROXY, SCORER, true_scores
from wmrl_gym.integrations import GroupScoring
from wmrl_gym.integrations.verl.reward import WMRLRewardManager
from wmrl_gym.integrations.verl.settings import build_scoring

N_PROMPTS, N_SESSIONS, N_STEPS = 6, 4, 4


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_AUTH_MODE", "disabled")
        config = composed(Path("unused"))
        ray.init("local", num_cpus=4, include_dashboard=False, object_store_memory=120 * 2**20, log_to_driver=False)
        try:
            config.transfer_queue.enable = True
            config.transfer_queue.backend.SimpleStorage.num_data_storage_units = 1  # each asks for a CPU
            tq.init(config.transfer_queue)
            yield
            tq.close()
        finally:
            ray.shutdown()


def composed(folder: Path, **changes: Any) -> Any:
    """verl's whole configuration, with the proxy."""
    from hydra import compose, initialize_config_module

    with initialize_config_module("verl.trainer.config", version_base=None):
        config = compose("ppo_trainer")
    with open_dict(config):
        config.wmrl = {"proxy": PROXY, "scorer": SCORER}
        config.trainer.v1.trainer_mode, config.algorithm.adv_estimator = "wmrl_sync", "grpo"
        config.algorithm.norm_adv_by_std_in_grpo = False
        config.reward.reward_manager.name = "wmrl"
        config.actor_rollout_ref.rollout.n, config.data.train_batch_size = N_SESSIONS, N_PROMPTS
        config.trainer.default_local_dir = str(folder)
        for name, value in changes.items():
            OmegaConf.update(config, name.replace("__", "."), value)
    return config


class PlayedRollouts:
    """In the place of verl's agent loops: answers each prompt, has it scored, and queues the rows as verl does."""

    def __init__(self, config: Any) -> None:
        self.manager = WMRLRewardManager(config, types.SimpleNamespace(decode=lambda ids, **_: str(ids.tolist())))
        self.lost: set[int] = set()
        """Sessions that fail, numbered over the whole batch."""
        self.anchors: list[bool] = []

    def generate_sequences(self, batch: Any) -> None:
        # As AgentLoopWorkerTQ takes a batch apart.
        prompts = [
            {key: value[i].data if isinstance(value, NonTensorStack) else value.data for key, value in batch.items()}
            for i in range(len(batch))
        ]
        for place, prompt in enumerate(prompts):
            self.anchors.append(prompt["wmrl_anchor"])
            for session in range(N_SESSIONS):
                if place * N_SESSIONS + session not in self.lost:
                    self._session(place, prompt, session)
        tq.kv_batch_put(
            keys=[prompt["uid"] for prompt in prompts],
            partition_id="train",
            tags=[{"is_prompt": True, "status": "finished", "global_steps": prompts[0]["global_steps"]}] * len(prompts),
        )

    def _session(self, place: int, prompt: dict[str, Any], session: int) -> None:
        random = np.random.default_rng((prompt["global_steps"], place, session))
        n_outputs = 2 if (place, session) == (1, 2) else 1
        responses = [torch.tensor(random.integers(0, 99, random.integers(2, 6))) for _ in range(n_outputs)]
        result = asyncio.run(self.manager.run_single(_as_scored(responses, prompt, session)))
        keys, fields = [], []
        for i, response in enumerate(responses):
            reward = torch.zeros(len(response))
            reward[-1] = result["reward_score"]
            keys.append(f"{prompt['uid']}_{session}_{i}")
            fields.append(
                {
                    "prompts": torch.zeros(3, dtype=torch.int64),
                    "responses": response,
                    "response_mask": torch.ones(len(response), dtype=torch.int64),
                    "rm_scores": reward,
                    "rollout_log_probs": torch.zeros(len(response)),
                    "old_log_probs": torch.zeros(len(response)),
                    "extra_fields": {"reward_extra_info": result["reward_extra_info"]},
                    "session_id": session,
                    **prompt,
                }
            )
        tag = {"status": "success", "global_steps": prompt["global_steps"]}
        tq.kv_batch_put(
            keys=keys,
            partition_id="train",
            fields=tensordict_utils.list_of_dict_to_tensordict(fields),
            tags=[dict(tag) for _ in keys],
        )


def _as_scored(responses: list[torch.Tensor], prompt: dict[str, Any], session: int) -> DataProto:
    """What `AgentLoopWorker._compute_score` hands to a reward worker."""
    padded = torch.nn.utils.rnn.pad_sequence(responses, batch_first=True)
    n, mask = len(responses), torch.nn.utils.rnn.pad_sequence([torch.ones(len(r) + 3) for r in responses], True)
    return DataProto.from_dict(
        tensors={"prompts": torch.zeros(n, 3), "responses": padded, "attention_mask": mask},
        non_tensors={key: np.array([value] * n) for key, value in {**prompt, "session_id": session}.items()},
    )


def make_trainer(config: Any) -> Any:
    trainer = get_trainer_cls("wmrl_sync")(config)
    trainer.global_steps = 0
    trainer.agent_loop_manager = PlayedRollouts(config)
    workers = types.SimpleNamespace(save_checkpoint=lambda *a, **k: None, load_checkpoint=lambda *a, **k: None)
    trainer.actor_rollout_wg = workers
    trainer.train_dataloader = types.SimpleNamespace(state_dict=dict, load_state_dict=lambda state: None)
    trainer._fetch_one_gen_batch = lambda: tensordict_utils.get_tensordict(
        {
            "uid": np.array([str(uuid.uuid4()) for _ in range(N_PROMPTS)], dtype=object),
            "data_source": np.array([f"source{i % 2}" for i in range(N_PROMPTS)], dtype=object),
        }
    )
    return trainer


def play_step(trainer: Any, metrics: dict[str, Any] | None = None) -> dict[str, tuple[list[float], list[int], dict]]:
    """One step as verl's `step` plays it up to the advantages; by place and session of the rows."""
    trainer.global_steps += 1
    trainer.prepare_step()
    places = {uid: place for place, uid in enumerate(trainer._drawn)}
    batch, _ = trainer.replay_buffer.sample(trainer.global_steps, "train", N_PROMPTS)
    batch = upsample_batch_to_divisible_size(batch, 8, eos_token_id=0)
    trainer._compute_advantage(batch, {} if metrics is None else metrics)
    data = tq.kv_batch_get(
        batch.keys, "train", select_fields=["advantages", "returns", "response_mask", "extra_fields"]
    )
    found = {}
    for i, (key, tag) in enumerate(zip(batch.keys, batch.tags, strict=True)):
        uid, session, index = key.rsplit("_", 2)
        name = "padding" if tag.get("is_padding") else f"{places[uid]}_{session}_{index}"
        assert data["advantages"][i].tolist() == data["returns"][i].tolist()
        info = list(data["extra_fields"])[i]["reward_extra_info"]
        found[name] = data["advantages"][i].tolist(), data["response_mask"][i].tolist(), info
    tq.kv_clear(batch.keys, "train")
    return found


def expected_step(scoring: GroupScoring, step: int, lost: set[int]) -> dict[str, float | None]:
    """The same step from the answers alone, through `GroupScoring`."""
    keys = [f"{place}:source{place % 2}" for place in range(N_PROMPTS)]
    draw = scoring.draw(keys)
    names, predicted, executed = [], [], []
    for place in range(N_PROMPTS):
        sessions = [s for s in range(N_SESSIONS) if place * N_SESSIONS + s not in lost]
        scores = []
        for session in sessions:
            random = np.random.default_rng((step, place, session))
            n_outputs = 2 if (place, session) == (1, 2) else 1
            answers = [str(random.integers(0, 99, random.integers(2, 6)).tolist()) for _ in range(n_outputs)]
            scores.append(true_scores(answers[-1]))
        names += [f"{place}_{session}" for session in sessions]
        predicted.append([p for p, _ in scores])
        executed.append([r for _, r in scores])
    done = scoring.score(keys, draw.is_anchor, predicted, executed, draw.propensity)
    return dict(zip(names, [a for row in done.advantages for a in row], strict=True))


def test_advantages_are_those_of_the_proxy_by_row_keys(tmp_path: Path) -> None:
    config = composed(tmp_path)
    trainer, scoring = make_trainer(config), build_scoring(config)
    assert trainer.trainer_mode == "sync" and type(trainer.replay_buffer).__name__ == "ReplayBuffer"
    unknown = 0
    for step in range(1, N_STEPS + 1):
        trainer.agent_loop_manager.lost = lost = {step, step + 9}  # groups of different sizes
        metrics: dict[str, Any] = {}
        found, expected = play_step(trainer, metrics), expected_step(scoring, step, lost)
        padding, mask, _ = found.pop("padding")
        assert padding == [0.0] and mask == [0]
        assert {name.rsplit("_", 1)[0] for name in found} == set(expected)
        assert "1_2_1" in found and found["1_2_0"][0][0] == found["1_2_1"][0][0]
        for name, (advantages, mask, info) in found.items():
            advantage = expected[name.rsplit("_", 1)[0]]
            unknown += advantage is None
            assert advantages == pytest.approx([0.0 if advantage is None else advantage] * len(advantages), abs=1e-7)
            assert mask == [int(advantage is not None)] * len(mask)
            assert all(np.isfinite(value) for value in info.values() if not isinstance(value, str))
        assert metrics["wmrl_sync/pairs"] == scoring.proxy.metrics()["pairs"] > 0
        assert metrics["wmrl_sync/lost_groups"] == 0
    assert unknown > 0 and scoring.proxy.metrics()["rho"] > 1
    assert trainer.scoring.state_dict() == scoring.state_dict()


def test_a_resumed_trainer_goes_on_as_if_nothing_had_happened(tmp_path: Path) -> None:
    config = composed(tmp_path / "whole")
    trainer = make_trainer(config)
    whole = [play_step(trainer) for _ in range(N_STEPS)]
    first = make_trainer(composed(tmp_path / "cut"))
    for _ in range(2):
        play_step(first)
    first._save_checkpoint()
    second = make_trainer(composed(tmp_path / "cut"))
    second._load_checkpoint()
    assert second.global_steps == 2
    assert [play_step(second) for _ in range(2)] == whole[2:]
    assert second.scoring.state_dict() == trainer.scoring.state_dict()


def test_resuming_without_the_state_or_with_another_proxy_is_refused(tmp_path: Path) -> None:
    trainer = make_trainer(composed(tmp_path))
    trainer.global_steps = 3
    trainer._save_checkpoint()
    with pytest.raises(ValueError, match="fusion"):
        make_trainer(composed(tmp_path, wmrl__proxy__fusion=None))._load_checkpoint()
    state = tmp_path / "global_step_3" / "wmrl.json"
    state.write_text(json.dumps({**json.loads(state.read_text()), "version": 99}))
    with pytest.raises(ValueError, match="format 99"):
        make_trainer(composed(tmp_path))._load_checkpoint()
    state.unlink()
    with pytest.raises(FileNotFoundError, match=r"wmrl\.json"):
        make_trainer(composed(tmp_path))._load_checkpoint()
    make_trainer(composed(tmp_path, trainer__resume_mode="disable"))._load_checkpoint()


def test_a_batch_that_this_trainer_did_not_draw_is_refused_and_teaches_nothing(tmp_path: Path) -> None:
    trainer = make_trainer(composed(tmp_path))
    trainer.global_steps = 1
    trainer.prepare_step()
    batch, _ = trainer.replay_buffer.sample(1, "train", N_PROMPTS)
    before = trainer.scoring.state_dict()
    drawn, trainer._drawn = trainer._drawn, {}
    with pytest.raises(ValueError, match="not drawn in this step"):
        trainer._compute_advantage(batch, {})
    assert trainer.scoring.state_dict() == before
    trainer._drawn = drawn
    trainer._compute_advantage(batch, {})
    with pytest.raises(ValueError, match="scored before"):
        trainer._compute_advantage(batch, {})
    tq.kv_clear(batch.keys, "train")


def test_a_dead_scorer_stops_the_training(tmp_path: Path) -> None:
    target = "tests.integrations.verl_world.make_raising_scorer"
    trainer = make_trainer(composed(tmp_path, **{"wmrl.scorer._target_": target}))
    with pytest.raises(RuntimeError, match="the world model is down"):
        play_step(trainer)


def test_min_per_step_holds_in_the_drawn_batch(tmp_path: Path) -> None:
    config = composed(tmp_path)
    config.wmrl.proxy.anchors = {"_target_": "wmrl_gym.proxy.RandomAnchors", "fraction": 0.01, "min_per_step": 2}
    trainer = make_trainer(config)
    play_step(trainer)
    assert sum(trainer.agent_loop_manager.anchors) == 2
