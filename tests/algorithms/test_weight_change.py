"""Updates that are rounded away are seen, and end a run."""

from __future__ import annotations

import pytest
import torch

from wmrl_gym.algorithms.grpo import GRPOSettings
from wmrl_gym.algorithms.policy_update import PolicyUpdate
from wmrl_gym.algorithms.weight_change import UPDATES_LOST, UpdatesVanish, WeightChange

from .letters import LetterPolicy
from .tiny_lm import tiny_policy


def updated(dtype: torch.dtype, learning_rate: float) -> WeightChange:
    torch.manual_seed(0)
    weights = torch.nn.Parameter(0.02 * torch.randn(4096).to(dtype))
    optimizer = torch.optim.AdamW([weights], lr=learning_rate, weight_decay=0.0)
    change = WeightChange([weights])
    weights.grad = torch.randn(4096).to(dtype)
    change.remember()
    optimizer.step()
    return change


def test_a_step_of_the_papers_size_moves_single_precision_and_not_half() -> None:
    precise, coarse = (updated(dtype, 1e-6).share() for dtype in (torch.float32, torch.bfloat16))
    assert precise is not None and precise > 0.99
    assert coarse is not None and coarse < 0.05


def test_weights_without_a_gradient_are_not_counted() -> None:
    weights = torch.nn.Parameter(torch.ones(8))
    change = WeightChange([weights, torch.nn.Parameter(torch.ones(3))])
    change.remember()
    assert change.share() is None
    weights.grad = torch.tensor([1.0, 1, 0, 0, 0, 0, 0, 0])
    change.remember()
    weights.data[0] += 1
    assert change.share() == 0.5


def test_updates_that_vanish_again_and_again_end_the_run() -> None:
    weights = torch.nn.Parameter(torch.ones(8))
    weights.grad = torch.ones(8)
    change = WeightChange([weights])
    for _ in range(UPDATES_LOST - 1):
        change.remember()
        assert change.share() == 0
    change.remember()
    with pytest.raises(UpdatesVanish, match="learning_rate"):
        change.share()


def test_weights_in_half_precision_are_refused_before_anything_is_played() -> None:
    policy = tiny_policy()
    policy.model.bfloat16()
    with pytest.raises(ValueError, match="compute_dtype=bfloat16"):
        PolicyUpdate(policy, None, GRPOSettings(kl_coefficient=0), learning_rate=1e-6)


def test_every_update_says_which_share_changed() -> None:
    from .test_rollout import play

    policy = tiny_policy()
    groups = play(policy, "lockstep")
    learnable = [(t, 1.0 - i) for group in groups for i, t in enumerate(group.trajectories)]
    update = PolicyUpdate(policy, None, GRPOSettings(kl_coefficient=0), learning_rate=1e-4)
    assert update.update(learnable, (0,))["weights_changed"] > 0.9
    assert PolicyUpdate(LetterPolicy(), None, GRPOSettings(kl_coefficient=0), learning_rate=1e-4)
