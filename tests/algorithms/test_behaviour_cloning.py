"""Behaviour cloning knows neither cameras nor arms: here a point on a line learns to go home."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
import torch

from wmrl_gym.algorithms.behaviour_cloning import clone
from wmrl_gym.algorithms.supervised import SupervisedSettings

SETTINGS = SupervisedSettings(steps=120, batch_size=8, learning_rate=0.1, warmup_steps=5)


class LeftOrRight:
    """Decides between left (0) and right (1) by where it stands."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.model = torch.nn.Linear(1, 2)

    def parameters(self) -> Iterator[torch.nn.Parameter]:
        return self.model.parameters()


def cross_entropy(policy: LeftOrRight, observations: Sequence[Any], actions: Any) -> tuple[torch.Tensor, int]:
    logits = policy.model(torch.tensor([[place] for place in observations]))
    return torch.nn.functional.cross_entropy(logits, torch.from_numpy(actions)), len(actions)


def examples(count: int = 40) -> list[tuple[float, int]]:
    places = np.random.default_rng(0).uniform(-1, 1, count)
    return [(float(place), int(place < 0)) for place in places]


def test_what_the_demonstrator_did_is_learned_and_the_same_seed_learns_the_same() -> None:
    def learned() -> tuple[list[float], torch.Tensor]:
        policy = LeftOrRight()
        history = clone(policy, examples(), cross_entropy, SETTINGS)
        return [step.loss for step in history], policy.model.weight.detach().clone()

    losses, weight = learned()
    assert len(losses) == SETTINGS.steps
    assert np.mean(losses[-10:]) < 0.5 * losses[0]
    again, same_weight = learned()
    assert losses == again and torch.equal(weight, same_weight)


def test_every_example_is_seen_once_before_any_is_seen_again() -> None:
    seen: list[float] = []

    def spy(policy: LeftOrRight, observations: Sequence[Any], actions: Any) -> tuple[torch.Tensor, int]:
        seen.extend(observations)
        return cross_entropy(policy, observations, actions)

    clone(LeftOrRight(), examples(24), spy, SupervisedSettings(steps=6, batch_size=8))
    everything = sorted(place for place, _ in examples(24))
    assert sorted(seen[:24]) == everything == sorted(seen[24:])
    assert seen[:24] != seen[24:]


def test_nothing_to_learn_from_is_refused() -> None:
    with pytest.raises(ValueError, match="no demonstrations"):
        clone(LeftOrRight(), [], cross_entropy, SETTINGS)
