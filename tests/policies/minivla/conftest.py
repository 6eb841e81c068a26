"""Observations of a robot's camera, made of noise, and the tiny policy that looks at them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from wmrl_gym.policies.minivla import MiniVLAPolicy, tiny_minivla
from wmrl_gym.policies.minivla.tiny import INSTRUCTIONS


def noise_observations(
    count: int, seed: int = 0, size: int = 64, cameras: tuple[str, ...] = ("agentview",)
) -> list[Any]:
    generator = np.random.default_rng(seed)
    return [
        {
            **{f"{camera}_image": generator.integers(0, 256, (size, size, 3), np.uint8) for camera in cameras},
            "state": np.zeros(8, np.float32),
            "instruction": INSTRUCTIONS[i % len(INSTRUCTIONS)],
        }
        for i in range(count)
    ]


@pytest.fixture(scope="session")
def make_observations() -> Callable[..., list[Any]]:
    return noise_observations


@pytest.fixture
def policy() -> MiniVLAPolicy:
    return tiny_minivla(actions_per_decision=2, image_size=28, width=64, layers=2)
