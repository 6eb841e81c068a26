"""A configuration of verl with the proxy, and scorers for it: shared by the tests of the integration."""

from __future__ import annotations

from typing import Any

import numpy as np

from wmrl_gym.integrations import FinishedTrajectory

PROXY = {
    "_target_": "wmrl_gym.proxy.RewardProxy",
    "anchors": {"_target_": "wmrl_gym.proxy.RandomAnchors", "fraction": 0.4},
    "debiaser": {"_target_": "wmrl_gym.proxy.IsotonicDebiaser", "min_pairs": 4, "refit_every": 2},
    "fusion": {"_target_": "wmrl_gym.proxy.InverseVarianceFusion", "warmup": 1},
}
SCORER = {"_target_": "tests.integrations.verl_world.make_scorer"}
CALLBACK = "wmrl_gym.integrations.verl.estimator.ProxyCheckpoint"


def settings(route: str = "trainer", **changes: Any) -> Any:
    """What the proxy reads of verl's configuration; changes are written with dots as `trainer__use_v1=False`."""
    from omegaconf import OmegaConf

    config = OmegaConf.create(
        {
            "trainer": {
                "use_v1": True,
                "v1": {"trainer_mode": "wmrl_sync"},
                "checkpoint_callback_class": None,
                "resume_mode": "disable",
            },
            "algorithm": {
                "adv_estimator": "grpo",
                "use_kl_in_reward": False,
                "filter_groups": {"enable": False},
                "norm_adv_by_std_in_grpo": False,
            },
            "reward": {"reward_manager": {"name": "wmrl", "source": "register"}, "reward_model": {"enable": False}},
            "actor_rollout_ref": {"rollout": {"n": 4}},
            "wmrl": {"proxy": PROXY, "scorer": SCORER},
        }
    )
    if route == "estimator":
        as_estimator(config)
    for name, value in changes.items():
        OmegaConf.update(config, name.replace("__", "."), value, force_add=True)
    return config


def as_estimator(config: Any) -> None:
    config.trainer.v1.trainer_mode, config.algorithm.adv_estimator = "sync", "wmrl_grpo"
    config.trainer.checkpoint_callback_class = CALLBACK
    config.wmrl.proxy.anchors.min_per_step = 0


def true_scores(answer: str) -> tuple[float | None, float | None]:
    """Predicted and executed score of an answer, by its text alone; one prediction in nine is unknown."""
    random = np.random.default_rng(sum(answer.encode()) * 7919 + len(answer))
    predicted = float(random.random())
    executed = float(np.clip(predicted**2 + random.normal(0, 0.1), 0, 1))
    return (None if random.random() < 1 / 9 else predicted), (None if random.random() < 1 / 9 else executed)


def make_scorer() -> Any:
    def score(trajectory: FinishedTrajectory, execute: bool) -> tuple[float | None, float | None]:
        predicted, executed = true_scores(trajectory.answer)
        return predicted, executed if execute else None

    return score


def make_raising_scorer() -> Any:
    async def score(trajectory: FinishedTrajectory, execute: bool) -> tuple[float | None, float | None]:
        raise ConnectionError(f"the world model is down ({trajectory.answer}, {execute})")

    return score


def make_nan_scorer() -> Any:
    return lambda trajectory, execute: (float("nan"), None)
