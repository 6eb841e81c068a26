"""The proxy as an advantage estimator of verl, for trainers that cannot be replaced."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ray
import torch
from verl.trainer.ppo.checkpoint_callback import CheckpointCallback
from verl.trainer.ppo.core_algos import register_adv_est

from wmrl_gym.integrations.verl.checkpoint import STATE_FILE, resume_folder
from wmrl_gym.integrations.verl.proxy_actor import proxy_actor, start_proxy_actor
from wmrl_gym.integrations.verl.settings import ESTIMATOR, build_scoring


@register_adv_est(ESTIMATOR)
def wmrl_advantages(
    token_level_rewards: torch.Tensor,
    response_mask: torch.Tensor,
    config: Any = None,
    index: Any = None,
    **kwargs: Any,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Group weight times centred reward, on every produced token.

    Args:
        token_level_rewards: what the reward manager returned, shape (N, T).
        response_mask: 1 on produced tokens, shape (N, T). Rows of zeros are padding.
        config: verl's configuration of the algorithm.
        index: verl's uid of each row, length N.
        kwargs: what verl may hand over besides.

    Returns:
        Advantages and returns, which are the same, shape (N, T). A row without a score has zeros.

    Raises:
        RuntimeError: without the actor; see `proxy_actor`.
        ValueError: if the rewards are not those that were reported.
    """
    if index is None:
        raise ValueError(f"verl gave the estimator {ESTIMATOR!r} no uids: it needs the field 'uid' of each row")
    real = (response_mask.sum(-1) > 0).nonzero().flatten().tolist()
    shown = token_level_rewards.sum(-1).tolist()
    found = ray.get(proxy_actor().score.remote([str(index[i]) for i in real], [shown[i] for i in real]))
    advantages = torch.zeros(response_mask.shape[0], device=response_mask.device)
    for i, advantage in zip(real, found, strict=True):
        advantages[i] = 0.0 if advantage is None else advantage
    advantages = advantages[:, None] * response_mask
    return advantages, advantages


class ProxyCheckpoint(CheckpointCallback):  # type: ignore[misc]
    """Starts the proxy's actor on verl's driver, restored if verl resumes, and saves its state with each checkpoint."""

    def __init__(self, config: Any = None) -> None:
        super().__init__(config)
        folder = resume_folder(config)
        self.actor = start_proxy_actor(build_scoring(config), None if folder is None else folder / STATE_FILE)

    def on_save(
        self, trainer: Any, global_step: int, checkpoint_dir: str, async_save: bool = False, **kwargs: Any
    ) -> None:
        """Write the proxy's state beside the weights."""
        scoring = build_scoring(self.config)
        scoring.load_state_dict(ray.get(self.actor.state_dict.remote()))
        scoring.save(Path(checkpoint_dir) / STATE_FILE)
