"""One pool with one process for all tests here: a simulator takes seconds to build and gigabytes to keep."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from wmrl_gym.envs.libero import sharing
from wmrl_gym.envs.libero.env import LIBEROLongEnv
from wmrl_gym.envs.libero.jobs import WAIT, Job, JobResult, Rearrangement, View
from wmrl_gym.envs.libero.pool import SimulatorPool
from wmrl_gym.envs.libero.tasks import TaskReference, given_initial_states

HERE = Path(__file__).parent
POOL = {"workers": 1, "timeout": 60.0, "tasks_per_worker": 1}
SOUP_AND_SAUCE = TaskReference("libero_10", 0)
SMALL = View(("agentview",), 64)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    missing = find_spec("libero") is None or find_spec("mujoco") is None
    asked_for = "sim_long" in config.getoption("-m")
    for item in items:
        if not item.path.is_relative_to(HERE):
            continue
        marks = {mark.name for mark in item.iter_markers()}
        if missing and marks & {"sim", "sim_long"}:
            item.add_marker(pytest.mark.skip(reason="LIBERO is not installed: pip install 'wmrl-gym[libero]'"))
        elif "sim_long" in marks and not asked_for:
            item.add_marker(pytest.mark.skip(reason="takes long: run it with -m sim_long"))


@pytest.fixture(scope="session")
def pool() -> Iterator[SimulatorPool]:
    simulators = sharing.join(**POOL)  # type: ignore[arg-type]
    yield simulators.pool
    sharing.leave(simulators)


@pytest.fixture
def make_env(pool: SimulatorPool) -> Iterator[Callable[..., LIBEROLongEnv]]:
    made = []

    def make(**settings: Any) -> LIBEROLongEnv:
        made.append(LIBEROLongEnv(**({"task": ["0"], "image_size": 64} | POOL | settings)))
        return made[-1]

    yield make
    for env in made:
        env.close()


@pytest.fixture(scope="session")
def settled(pool: SimulatorPool) -> JobResult:
    """The first task's first initial state at rest."""
    job = Job(SOUP_AND_SAUCE, given_initial_states(SOUP_AND_SAUCE)[0], waiting(10), SMALL, is_privileged=True)
    return pool.submit(job).result()


def waiting(steps: int) -> np.ndarray:
    return np.tile(np.array(WAIT), (steps, 1))


def random_actions(steps: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-1, 1, (steps, 7))


def in_the_basket(settled: JobResult, **heights: float) -> Rearrangement:
    """Objects put into the basket, or above it, by their height over its region (m)."""
    assert settled.privileged is not None
    basket = settled.privileged.sites["basket_1_contain_region"]
    beside = {"alphabet_soup_1": -0.03, "tomato_sauce_1": 0.03}
    return Rearrangement(
        {
            name: np.concatenate([basket + np.array([0.0, beside[name], height]), settled.privileged.objects[name][3:]])
            for name, height in heights.items()
        }
    )
