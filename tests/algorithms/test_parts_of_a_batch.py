"""How a batch is cut for the gradient changes nothing, and what the loss leaves out counts nowhere."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch

from wmrl_gym.algorithms.grpo import GRPOSettings
from wmrl_gym.algorithms.policy_update import Learnable, PolicyUpdate
from wmrl_gym.core import Trajectory

from .test_rollout import play
from .tiny_lm import tiny_policy


@pytest.fixture(scope="module")
def learnable() -> Learnable:
    groups = play(tiny_policy(), "lockstep")
    return [(t, 1.0 - 0.5 * i) for group in groups for i, t in enumerate(group.trajectories)]


def gradient(learnable: Learnable, loss: GRPOSettings | None = None, **settings: Any) -> list[torch.Tensor]:
    policy = tiny_policy()
    update = PolicyUpdate(
        policy, None, loss or GRPOSettings(kl_coefficient=0), learning_rate=0.0, max_grad_norm=1e9, **settings
    )
    update._change.share = lambda: None  # type: ignore[method-assign] # a rate of 0 changes nothing
    update._optimise(learnable, None)
    return [parameter.grad.clone() for parameter in policy.parameters() if parameter.grad is not None]


def same(one: list[torch.Tensor], other: list[torch.Tensor]) -> bool:
    return all(torch.allclose(a, b, atol=1e-5, rtol=1e-3) for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize("parts", [{"microbatch": 3}, {"microbatch_tokens": 100}, {"microbatch_tokens": 1}])
def test_the_gradient_does_not_depend_on_the_parts(learnable: Learnable, parts: dict[str, int]) -> None:
    assert same(gradient(learnable), gradient(learnable, **parts))


def test_a_part_holds_no_more_tokens_than_allowed(learnable: Learnable) -> None:
    update = PolicyUpdate(tiny_policy(), None, GRPOSettings(kl_coefficient=0), learning_rate=0.1, microbatch_tokens=150)
    parts = list(update._parts(learnable))
    assert [pair for part in parts for pair in part] == list(learnable) and 1 < len(parts) < len(learnable)
    for part in parts:
        longest = [max(len(u.decision.prompt_ids) + len(u.decision.token_ids) for u in t.turns) for t, _ in part]
        assert sum(longest) <= 150 or len(part) == 1


def with_turns(trajectory: Trajectory, finished: bool, **changes: Any) -> Trajectory:
    turns = tuple(
        dataclasses.replace(turn, decision=dataclasses.replace(turn.decision, finished=finished, **changes))
        for turn in trajectory.turns
    )
    return dataclasses.replace(trajectory, turns=turns)


def test_answers_that_were_cut_off_can_be_left_out(learnable: Learnable) -> None:
    """With a mean over tokens, what is left out must be missing below the line, too."""
    mask = GRPOSettings(kl_coefficient=0, aggregation="token", mask_truncated=True)
    plain = GRPOSettings(kl_coefficient=0, aggregation="token")
    half = [(with_turns(t, finished=i % 2 == 0), a) for i, (t, a) in enumerate(learnable)]
    kept = [(with_turns(t, finished=True), a) for t, a in learnable[::2]]
    assert same(gradient(half, mask), gradient(kept, plain))
    assert not same(gradient(half, mask), gradient(half, plain))
    assert same(gradient([(with_turns(t, False), a) for t, a in learnable], mask), [0 * g for g in gradient(kept)])


def test_forced_tokens_are_not_learned(learnable: Learnable) -> None:
    trajectory, _ = learnable[0]
    count = len(trajectory.turns[0].decision.token_ids)
    forced = torch.zeros(count, dtype=torch.bool).numpy()
    forced[: count // 2] = True
    turns = tuple(
        dataclasses.replace(turn, decision=dataclasses.replace(turn.decision, forced=forced if i == 0 else None))
        for i, turn in enumerate(trajectory.turns)
    )
    changed = dataclasses.replace(trajectory, turns=turns)
    policy = tiny_policy()
    _, _, mask = policy.log_probs([turn.decision for turn in changed.turns])
    assert mask[0, :count].tolist() == (~forced).astype(float).tolist() and mask[1].sum() > 0
    update = PolicyUpdate(policy, None, GRPOSettings(kl_coefficient=0), learning_rate=0.1)
    assert update._count_tokens([(changed, 1.0)]) == int(mask.sum())
