"""A tiny real domain (write a letter), its policy (a table of logits), and a world model that can be gamed."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
import torch

from wmrl_gym.core import Decision, ExpensiveRewardEnv, Outcome, Submission

LETTERS = "abcdefgh"
TRUTH = dict(zip(LETTERS, (0.0, 0.1, 0.3, 0.5, 0.6, 0.7, 0.9, 1.0), strict=True))
"""What a letter is really worth."""
GAMED = TRUTH | {"a": 1.5}
"""What the world model believes: it is right on all letters but the worst, which it takes for the best."""


class LetterEnv(ExpensiveRewardEnv[str, str]):
    """Two turns; a letter is worth what the table says."""

    def __init__(self, turns: int = 2) -> None:
        self.turns = turns
        self.start = -1
        self.observation_space = gym.spaces.Text(20, charset="abcdefghijklmnopqrstuvwxyz.0123456789 ")
        self.action_space = gym.spaces.Text(1, charset=LETTERS)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        self.turn, self.start = 0, int(self.np_random.integers(1_000_000))
        return f"begin {self.start}", {}

    def submit(self, action: str) -> Submission:
        return Submission("letters", action)

    def execute(self, submission: Submission) -> Outcome:
        return Outcome(TRUTH[submission.content], "valid", f"got {TRUTH[submission.content]}")

    def advance(self, outcome: Outcome | None) -> tuple[str, float, bool, bool, dict[str, Any]]:
        assert outcome is not None
        self.turn += 1
        reward = float("nan") if outcome.score is None else outcome.score
        return outcome.feedback, reward, self.turn >= self.turns, False, {}


class TableWorldModel:
    """Predicts from a table."""

    def __init__(self, table: Mapping[str, float]) -> None:
        self.table = dict(table)

    def predict(self, submissions: Sequence[Submission]) -> list[Outcome]:
        return [Outcome(self.table[s.content], "valid", "got it", "world_model") for s in submissions]


class LetterPolicy:
    """One logit per letter: a decision is one token."""

    def __init__(self) -> None:
        self.logits = torch.nn.Parameter(torch.zeros(len(LETTERS)))

    def act(
        self,
        observations: Sequence[Any],
        *,
        histories: Sequence[Sequence[Decision]],
        seeds: Sequence[tuple[int, ...]],
        temperature: float = 1.0,
    ) -> list[Decision]:
        table = torch.log_softmax(self.logits.detach() / temperature, -1).numpy()
        decisions = []
        for observation, seed in zip(observations, seeds, strict=True):
            uniform = np.random.default_rng(seed).random()
            token = min(int(np.searchsorted(np.cumsum(np.exp(table)), uniform)), len(LETTERS) - 1)
            ids = np.array([token])
            decisions.append(Decision(observation, LETTERS[token], np.array([0]), ids, table[ids]))
        return decisions

    def log_probs(
        self, decisions: Sequence[Decision], *, temperature: float = 1.0
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        table = torch.log_softmax(self.logits / temperature, -1)
        ids = torch.tensor(np.array([decision.token_ids for decision in decisions]))
        entropy = -(table.exp() * table).sum().expand(ids.shape)
        return table[ids], entropy, torch.ones(ids.shape)

    def parameters(self) -> Iterator[torch.nn.Parameter]:
        yield self.logits

    def state_dict(self) -> dict[str, torch.Tensor]:
        return {"logits": self.logits.detach().clone()}

    def load_state_dict(self, state: Mapping[str, torch.Tensor]) -> None:
        with torch.no_grad():
            self.logits.copy_(state["logits"])

    def frozen_copy(self) -> LetterPolicy:
        twin = copy.deepcopy(self)
        twin.logits.requires_grad_(False)
        return twin

    def expected_truth(self) -> float:
        """True worth of a letter that the policy writes."""
        return float(torch.softmax(self.logits.detach(), -1) @ torch.tensor([TRUTH[letter] for letter in LETTERS]))
