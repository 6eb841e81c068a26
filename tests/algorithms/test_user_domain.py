from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from wmrl_gym.core import Outcome, Submission

from .letters import LetterPolicy
from .tiny_lm import tiny_policy


@pytest.fixture(scope="module")
def user_domain() -> Iterator[Any]:
    from . import user_domain  # which registers

    yield user_domain
    gym.registry.pop("mine/Vowels-v0", None)


class FirstHalf:
    """Looks at the first half of a text, and likes y."""

    def predict(self, submissions: Sequence[Submission]) -> list[Outcome]:
        halves = [s.content[: 1 + len(s.content) // 2] for s in submissions]
        shares = [sum(map(half.count, "aeiouy")) / max(1, len(half)) for half in halves]
        return [Outcome(share, "predicted", source="world_model") for share in shares]


def test_a_user_file_of_thirty_lines_registers_a_domain_and_trains_any_policy_on_it(user_domain: Any) -> None:
    source = Path(user_domain.__file__).read_text()
    assert sum(bool(line.strip()) for line in source.splitlines()) <= 30
    for policy, rate, steps in ((LetterPolicy(), 0.1, 15), (tiny_policy(), 1e-3, 2)):
        rewards: list[float] = []
        user_domain.train(policy, FirstHalf(), lambda step, metrics, seen=rewards: seen.append(metrics["reward"]),
                          steps=steps, learning_rate=rate)  # fmt: skip
        assert len(rewards) == steps and np.isfinite(rewards).all()
        if steps > 10:
            assert np.mean(rewards[-3:]) > np.mean(rewards[:3]) + 0.2  # a and e among eight letters


def test_the_users_environment_is_a_plain_gymnasium_environment(user_domain: Any) -> None:
    env = gym.make("mine/Vowels-v0")
    assert env.reset(seed=0)[0] == "vowels"
    assert env.step("aeixyz")[:4] == ("done", 0.5, True, False)
