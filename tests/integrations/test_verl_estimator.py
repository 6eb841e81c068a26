"""The estimator, the reward manager and the actor against the functions and registries of the installed verl."""

from __future__ import annotations

import asyncio
import json
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("verl", reason="verl is not installed: make verl-env", exc_type=ImportError)
pytestmark = pytest.mark.alone

import ray
import torch
from omegaconf import OmegaConf
from verl import DataProto
from verl.trainer.ppo.checkpoint_callback import build_checkpoint_callback
from verl.trainer.ppo.core_algos import compute_grpo_outcome_advantage, get_policy_loss_fn
from verl.trainer.ppo.ray_trainer import compute_advantage
from verl.trainer.ppo.reward import load_reward_manager

from tests.integrations.verl_world import settings, true_scores
from wmrl_gym.integrations.verl.proxy_actor import ACTOR_NAME, UNKNOWN_REWARD, proxy_actor
from wmrl_gym.integrations.verl.rows import RowScore
from wmrl_gym.integrations.verl.settings import build_scoring
from wmrl_gym.proxy import group_weights

N_GROUPS, N_SESSIONS, N_TOKENS = 6, 4, 7
STARTED: list[Any] = []
"""Callbacks that live, as verl's trainer keeps its own: the actor ends with its last handle."""
TOKENIZER = types.SimpleNamespace(decode=lambda ids, **_: f"answer {int(ids[0])}")


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_AUTH_MODE", "disabled")
        ray.init("local", num_cpus=2, include_dashboard=False, object_store_memory=100 * 2**20, log_to_driver=False)
        yield
        ray.shutdown()


@pytest.fixture
def config(tmp_path: Path) -> Iterator[Any]:
    """An estimator's configuration; the actor that a test starts is taken away after it."""
    yield settings("estimator", trainer__default_local_dir=str(tmp_path), trainer__resume_mode="auto")
    end_actor()


def end_actor() -> None:
    STARTED.clear()
    try:
        actor = ray.get_actor(ACTOR_NAME)
    except ValueError:
        return
    ray.kill(actor)
    while True:
        try:
            ray.get_actor(ACTOR_NAME)
        except ValueError:
            return


def batch(step: int = 1) -> tuple[Any, Any, Any]:
    """Uids, sessions and response mask of a step's rows, mixed."""
    random = np.random.default_rng(step)
    order = random.permutation(N_GROUPS * N_SESSIONS)
    uids = np.repeat([f"{step}-uid{g}" for g in range(N_GROUPS)], N_SESSIONS).astype(object)[order]
    sessions = np.tile(np.arange(N_SESSIONS), N_GROUPS)[order]
    lengths = torch.tensor(random.integers(2, N_TOKENS + 1, len(order)))
    return uids, sessions, (torch.arange(N_TOKENS)[None] < lengths[:, None]).float()


def as_data(uids: Any, shown: list[float], mask: torch.Tensor) -> DataProto:
    rewards = torch.zeros_like(mask)
    rewards[torch.arange(len(mask)), (mask.sum(1) - 1).long()] = torch.tensor(shown)
    return DataProto.from_dict(
        tensors={"token_level_rewards": rewards, "response_mask": mask}, non_tensors={"uid": uids}
    )


def estimate(data: DataProto) -> torch.Tensor:
    """Advantages as verl's own dispatcher computes them."""
    return compute_advantage(data, "wmrl_grpo", config=OmegaConf.create({})).batch["advantages"]


def report(uids: Any, sessions: Any, scores: list[RowScore], step: int = 1) -> list[float]:
    """Report rows to the actor, in another order than the batch's; returns what verl is shown."""
    for i in np.random.default_rng(0).permutation(len(uids)):
        ray.get(proxy_actor().report.remote(step, uids[i], int(sessions[i]), scores[i]))
    return [row.shown if row.is_known else UNKNOWN_REWARD for row in scores]


def known_scores(uids: Any, anchors: set[str]) -> list[RowScore]:
    random = np.random.default_rng(5)
    rows = []
    for uid in uids:
        predicted = float(random.random())
        executed = float(np.clip(predicted + random.normal(0, 0.2), 0, 1))
        rows.append(RowScore(predicted, executed if uid in anchors else None, uid in anchors))
    return rows


def started(config: Any, **proxy: Any) -> Any:
    config.wmrl.proxy.update(proxy)
    STARTED.append(build_checkpoint_callback(config))
    return STARTED[-1]


def test_the_estimator_is_the_weight_times_verls_grpo_and_its_gradient_the_fused_one(config: Any) -> None:
    started(config, debiaser=None)
    rho = None
    for step in (1, 2, 3):  # rho is 1 until the residual is known
        uids, sessions, mask = batch(step)
        anchors = {f"{step}-uid1", f"{step}-uid4"}
        shown = report(uids, sessions, known_scores(uids, anchors), step)
        data = as_data(uids, shown, mask)
        found = estimate(data)
        rho = ray.get(proxy_actor().metrics.remote())["rho"]
    assert rho > 1.05
    names = sorted(set(uids))
    weight = dict(zip(names, group_weights([name in anchors for name in names], rho), strict=True))
    plain, _ = compute_grpo_outcome_advantage(
        data.batch["token_level_rewards"].clone(), mask, uids, norm_adv_by_std_in_grpo=False
    )
    assert found == pytest.approx(plain * torch.tensor([weight[uid] for uid in uids])[:, None], abs=1e-6)

    clipping = {"clip_ratio": 0.2, "clip_ratio_low": 0.2, "clip_ratio_high": 0.2, "clip_ratio_c": 3.0}
    actor_config = OmegaConf.create({**clipping, "loss_agg_mode": "seq-mean-token-mean", "global_batch_info": {}})
    old = torch.randn(mask.shape, generator=torch.Generator().manual_seed(1)) * 0.3

    def gradient(advantages: torch.Tensor) -> torch.Tensor:
        new = (old * 0.5).requires_grad_()
        loss, _ = get_policy_loss_fn("vanilla")(old, new, advantages, mask, "seq-mean-token-mean", actor_config)
        return torch.autograd.grad(loss, new)[0]

    of_anchors = torch.tensor([uid in anchors for uid in uids])[:, None]
    parts = gradient(plain)
    fused = torch.where(of_anchors, rho * parts, parts) * N_GROUPS / (rho * len(anchors) + N_GROUPS - len(anchors))
    assert parts.norm() > 1e-3 and not torch.allclose(fused, parts, atol=1e-5)
    assert gradient(found) == pytest.approx(fused, abs=1e-6)


def test_an_unknown_row_teaches_nothing_and_is_no_zero(config: Any) -> None:
    started(config, debiaser=None, fusion=None)
    uids, sessions, mask = batch()
    scores = known_scores(uids, {"1-uid1"})
    of_one, of_two = (np.flatnonzero(uids == name) for name in ("1-uid1", "1-uid2"))
    scores[of_one[0]] = RowScore(0.7, None, True)  # a failed execution
    scores[of_two[0]], scores[of_two[1]] = RowScore(None, None, False), RowScore(0.0, None, False)  # unknown, and 0
    shown = report(uids, sessions, scores)
    assert np.isfinite(shown).all() and shown[of_one[0]] == UNKNOWN_REWARD
    found = estimate(as_data(uids, shown, mask))
    assert torch.isfinite(found).all()
    for rows in (of_one, of_two):
        known = [scores[i].executed if uids[i] == "1-uid1" else scores[i].predicted for i in rows[1:]]
        assert found[rows[0]].abs().max() == 0
        assert found[rows[1:], 0].tolist() == pytest.approx([score - np.mean(known) for score in known], abs=1e-6)


def test_rows_are_found_again_whatever_their_order_count_and_padding(config: Any) -> None:
    started(config, debiaser=None, fusion=None)
    uids, sessions, mask = batch()
    scores = known_scores(uids, set())
    shown = report(uids, sessions, scores)
    lost = int(np.flatnonzero(uids == uids[0])[1])  # scored, but its session failed afterwards
    rows = [i for i in range(len(uids)) if i != lost] + [0]  # and a trajectory with two outputs
    uids_there = np.array([*uids[rows], "pad123"], dtype=object)
    mask_there = torch.cat([mask[rows], torch.zeros(1, N_TOKENS)])
    data = as_data(uids_there[:-1], [shown[i] for i in rows], mask[rows])
    rewards = torch.cat([data.batch["token_level_rewards"], torch.zeros(1, N_TOKENS)])
    found = estimate(
        DataProto.from_dict(
            tensors={"token_level_rewards": rewards, "response_mask": mask_there}, non_tensors={"uid": uids_there}
        )
    )
    assert found[-1].abs().max() == 0 and found[-2, 0] == found[0, 0]
    there = [scores[i].predicted for i in rows[:-1] if uids[i] == uids[0]]
    assert len(there) == N_SESSIONS - 1
    assert found[0, 0].item() == pytest.approx(scores[0].predicted - np.mean(there), abs=1e-6)


def played(manager: Any, uids: Any, sessions: Any, step: int, extra_info: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows through the reward manager, as verl's reward worker calls it."""

    async def all_rows() -> list[dict[str, Any]]:
        rows = []
        for i, (uid, session) in enumerate(zip(uids, sessions, strict=True)):
            fields = {"uid": uid, "session_id": session, "global_steps": step, "data_source": "x"}
            data = DataProto.from_dict(
                tensors={
                    "prompts": torch.zeros(1, 2),
                    "responses": torch.full((1, N_TOKENS), 100 * step + i),
                    "attention_mask": torch.ones(1, N_TOKENS + 2),
                },
                non_tensors={
                    **{key: np.array([value], dtype=object) for key, value in fields.items()},
                    "extra_info": np.array([extra_info], dtype=object),
                },
            )
            rows.append(manager.run_single(data))
        return list(await asyncio.gather(*rows))

    return asyncio.run(all_rows())


def step_through_everything(config: Any, step: int) -> list[float]:
    uids, sessions, mask = batch(step)
    results = played(load_reward_manager(config, TOKENIZER), uids, sessions, step, {"split": "train"})
    return estimate(as_data(uids, [result["reward_score"] for result in results], mask))[:, 0].tolist()


def test_reward_manager_actor_and_estimator_equal_the_proxy_and_resume_identically(config: Any) -> None:
    callback = started(config)
    found = [step_through_everything(config, step) for step in (1, 2)]
    callback.on_save(trainer=None, global_step=2, checkpoint_dir=f"{config.trainer.default_local_dir}/global_step_2")
    Path(config.trainer.default_local_dir, "latest_checkpointed_iteration.txt").write_text("2")
    found += [step_through_everything(config, step) for step in (3, 4)]
    state = ray.get(callback.actor.state_dict.remote())

    scoring = build_scoring(config)
    anchors = scoring.proxy.anchors
    for step, advantages in enumerate(found, start=1):
        uids, _, _ = batch(step)
        names = list(dict.fromkeys(uids))
        scores = [[true_scores(f"answer {100 * step + i}") for i in np.flatnonzero(uids == name)] for name in names]
        done = scoring.score(
            names,
            [anchors.draw_episode(step, name)[0] for name in names],
            [[predicted for predicted, _ in row] for row in scores],
            [[executed for _, executed in row] for row in scores],
            [anchors.fraction] * len(names),
        )
        for name, expected in zip(names, done.advantages, strict=True):
            mine = [advantages[i] for i in np.flatnonzero(uids == name)]
            assert mine == pytest.approx([0.0 if a is None else a for a in expected], abs=1e-6)
    assert done.scored.metrics["rho"] > 1

    end_actor()
    resumed = started(config)
    assert [step_through_everything(config, step) for step in (3, 4)] == found[2:]
    assert ray.get(resumed.actor.state_dict.remote()) == state


def test_validation_rows_are_executed_and_teach_nothing(config: Any) -> None:
    callback = started(config)
    before = ray.get(callback.actor.state_dict.remote())
    results = played(load_reward_manager(config, TOKENIZER), ["v"] * 8, range(8), 1, {"split": "test"})
    for i, result in enumerate(results):
        assert result["reward_score"] == (true_scores(f"answer {100 + i}")[1] or 0.0)
        assert result["reward_extra_info"]["wmrl_is_anchor"] == 1
    assert ray.get(callback.actor.state_dict.remote()) == before
    with pytest.raises(ValueError, match="no trajectory of prompt 'v'"):
        estimate(as_data(np.array(["v"], dtype=object), [0.5], torch.ones(1, N_TOKENS)))


@pytest.mark.parametrize("name", ["make_raising_scorer", "make_nan_scorer"])
def test_a_scorer_that_fails_is_unknown_and_not_nan(config: Any, name: str) -> None:
    started(config)
    config.wmrl.scorer = {"_target_": f"tests.integrations.verl_world.{name}"}
    uids, sessions, mask = batch()
    results = played(load_reward_manager(config, TOKENIZER), uids, sessions, 1, {})
    assert {result["reward_score"] for result in results} == {UNKNOWN_REWARD}
    assert all(result["reward_extra_info"]["wmrl_predicted_known"] == 0 for result in results)
    assert all(result["reward_extra_info"]["wmrl_error"] for result in results)
    with pytest.raises(RuntimeError, match="no trajectory of this step"):
        estimate(as_data(uids, [result["reward_score"] for result in results], mask))


def test_without_the_actor_or_with_two_the_error_says_what_to_set(config: Any) -> None:
    uids, _, mask = batch()
    with pytest.raises(RuntimeError, match="checkpoint_callback_class"):
        estimate(as_data(uids, [0.5] * len(uids), mask))
    started(config)
    with pytest.raises(RuntimeError, match="another training"):
        started(config)


def test_rewards_that_were_changed_and_groups_that_come_twice_are_refused(config: Any) -> None:
    callback = started(config)
    uids, sessions, mask = batch()
    shown = report(uids, sessions, known_scores(uids, set()))
    before = ray.get(callback.actor.state_dict.remote())
    with pytest.raises(ValueError, match="no trajectory of it was given"):
        estimate(as_data(uids, [value + 0.01 for value in shown], mask))
    assert ray.get(callback.actor.state_dict.remote()) == before
    estimate(as_data(uids, shown, mask))
    with pytest.raises(ValueError, match="scored before"):
        estimate(as_data(uids, shown, mask))


def test_resuming_with_another_proxy_is_refused(config: Any) -> None:
    callback = started(config)
    folder = Path(config.trainer.default_local_dir, "global_step_1")
    callback.on_save(trainer=None, global_step=1, checkpoint_dir=str(folder))
    Path(config.trainer.default_local_dir, "latest_checkpointed_iteration.txt").write_text("1")
    end_actor()
    with pytest.raises(ValueError, match="debiaser"):
        started(config, debiaser=None)
    assert json.loads((folder / "wmrl.json").read_text())["step"] == 0
