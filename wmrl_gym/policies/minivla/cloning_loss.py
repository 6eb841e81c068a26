"""Behaviour cloning: the cross-entropy of demonstrated actions' tokens."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import ArrayLike

from wmrl_gym.policies.minivla.generation import token_log_probs
from wmrl_gym.policies.minivla.policy import MiniVLAPolicy, Observation


def action_token_loss(
    policy: MiniVLAPolicy, observations: Sequence[Observation], actions: ArrayLike
) -> tuple[torch.Tensor, int]:
    """Mean cross-entropy per action token, teacher-forced, over the action tokens alone.

    The original's training normalises over the whole vocabulary and also learns the two tokens that end an answer.
    Here the policy never samples anything but action tokens, so its own likelihood is what is learned.

    Args:
        policy: what learns.
        observations: what the demonstrator saw, length N.
        actions: the simulator's actions it took, shape (N, n, 7), with n the policy's actions per decision.

    Returns:
        (loss, token count): the mean in nats, with gradients, and over how many tokens it is.
    """
    chunks = np.asarray(actions, float)
    if len(chunks) != len(observations):
        raise ValueError(f"{len(observations)} observations have {len(chunks)} action chunks: give one for each")
    token_ids = torch.from_numpy(
        np.stack([policy.codec.encode(policy.scale.from_environment(chunk)) for chunk in chunks])
    ).to(policy.device)
    table = token_log_probs(policy.model, policy.context(observations), policy.codec, token_ids)
    picked = table.gather(-1, (token_ids - policy.codec.first_token)[..., None])
    return -picked.mean(), token_ids.numel()
