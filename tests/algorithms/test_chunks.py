"""A chunk of actions that the end of its episode cut short: what came after teaches nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch

from tests.algorithms.letters import LetterPolicy
from wmrl_gym.algorithms.grpo import GRPOSettings
from wmrl_gym.algorithms.policy_update import PolicyUpdate
from wmrl_gym.core import Decision, Trajectory, Turn


class ChunkPolicy(LetterPolicy):
    """A decision is a chunk of letters; those that were not taken are masked."""

    def log_probs(
        self, decisions: Sequence[Decision], *, temperature: float = 1.0
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        width = max(len(decision.token_ids) for decision in decisions)
        ids = torch.tensor(np.array([np.resize(decision.token_ids, width) for decision in decisions]))
        table = torch.log_softmax(self.logits / temperature, -1)
        counts = torch.tensor([self.tokens_taken(decision) for decision in decisions])
        mask = (torch.arange(width) < counts[:, None]).float()
        return table[ids], -(table.exp() * table).sum().expand(ids.shape), mask

    def tokens_taken(self, decision: Decision) -> int:
        return len(decision.token_ids) if decision.actions_used is None else decision.actions_used


def episode(chunks: Sequence[Sequence[int]], used: Sequence[int | None]) -> Trajectory:
    turns = []
    for tokens, count in zip(chunks, used, strict=True):
        log_probs = np.linspace(-2.0, -1.0, len(tokens), dtype=np.float32)
        decision = Decision(None, None, np.array([0]), np.array(tokens), log_probs, actions_used=count)
        turns.append(Turn(decision, None, None, None, 0.0))
    return Trajectory(tuple(turns), None, None)


def cut(trajectory: Trajectory) -> Trajectory:
    """The same episode, of which nothing was ever decided beyond what was taken."""
    chunks = [turn.decision.token_ids[: turn.decision.actions_used] for turn in trajectory.turns]
    shorter = episode(chunks, [None] * len(chunks))
    for before, after in zip(trajectory.turns, shorter.turns, strict=True):
        after.decision.log_probs[:] = before.decision.log_probs[: len(after.decision.token_ids)]
    return shorter


@pytest.mark.parametrize("aggregation", ["sequence", "token", "constant"])
@pytest.mark.parametrize("extra", [{}, {"mismatch_cap": 2.0}])
@pytest.mark.parametrize("epochs", [1, 2])
def test_actions_that_were_never_taken_teach_nothing(aggregation: Any, extra: dict[str, Any], epochs: int) -> None:
    episodes = [
        episode([[0, 1, 2], [2, 2, 1]], [None, 1]),
        episode([[1, 1, 0]], [2]),
        episode([[2, 0, 1], [0, 0, 0]], [None, None]),
    ]
    trained = []
    for played in (episodes, [cut(trajectory) for trajectory in episodes]):
        policy = ChunkPolicy()
        length = 6 if aggregation == "constant" else None
        loss = GRPOSettings(aggregation=aggregation, constant_length=length, kl_coefficient=0.0, **extra)
        update = PolicyUpdate(policy, None, loss, learning_rate=0.1, epochs=epochs, microbatch=1)
        told = update.update([(trajectory, a) for trajectory, a in zip(played, (1.0, -0.5, 0.3), strict=True)], (0,))
        # Adam hides the scale of a gradient, so the loss and the gradient's norm are looked at, too.
        trained.append([*policy.logits.detach().tolist(), told["loss"], told["grad_norm"]])
    np.testing.assert_allclose(trained[0], trained[1], atol=1e-6)
    assert np.abs(trained[0][:-2]).max() > 0.01
