"""Simulators on a Ray cluster: the same episodes as here, whatever machine is lost."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from tests.envs.libero.conftest import SMALL, SOUP_AND_SAUCE, random_actions
from tests.execution.ray_environments import Machines, machines
from wmrl_gym.envs.libero.jobs import Job, JobResult
from wmrl_gym.envs.libero.pool import SimulatorError
from wmrl_gym.execution.ray.executor import RayExecutor

pytestmark = [pytest.mark.sim, pytest.mark.slow, pytest.mark.alone, pytest.mark.timeout(600)]

MakeEnv = Callable[..., Any]
PLAN = {"task": "0", "init_state_id": 3}


@pytest.fixture
def cluster() -> Iterator[Machines]:
    with machines(2) as made:
        yield made


def played(env: Any, between: Any = lambda: None) -> tuple[Any, ...]:
    """What an episode of three actions looks like from outside."""
    actions = random_actions(3 * 4).reshape(3, 4, 7).astype(np.float32)
    first, _ = env.reset(options=PLAN)
    seen = [first["state"], first["agentview_image"]]
    for number, action in enumerate(actions):
        if number == 1:
            between()
        observation, reward, terminated, truncated, info = env.step(action)
        seen += [observation["state"], observation["agentview_image"], reward, terminated, truncated]
    return (*seen, info["goal_progress"], info["success"], info["steps"])


def test_an_episode_is_the_same_bit_for_bit_also_if_a_machine_is_killed(cluster: Machines, make_env: MakeEnv) -> None:
    settings = {"chunk": 4, "horizon": 12}
    expected = played(make_env(**settings))
    ray = {"address": cluster.address, "memory": None}
    env = make_env(**settings, workers=2, ray=ray)
    another = make_env(**settings, workers=2, ray=dict(ray))
    for got, wanted in zip(played(env), expected, strict=True):
        np.testing.assert_array_equal(got, wanted)

    def kill_one() -> None:
        lost = next(iter(cluster.cluster.worker_nodes))
        cluster.kill(lost)

    for got, wanted in zip(played(another, kill_one), expected, strict=True):
        np.testing.assert_array_equal(got, wanted)
    assert env.unwrapped._simulators is another.unwrapped._simulators, "one pool for both"


def test_a_job_that_cannot_be_done_is_an_error_and_a_closed_cluster_says_so(
    cluster: Machines, settled: JobResult
) -> None:
    from wmrl_gym.envs.libero.cluster import ClusterSimulators

    simulators = ClusterSimulators(1, 60.0, 1, {"address": cluster.address, "memory": None})
    wrong = Job(SOUP_AND_SAUCE, settled.snapshot.physics[:3], np.zeros((1, 7)), SMALL)
    with pytest.raises(SimulatorError, match="failed 3 times"):
        simulators.submit(wrong).result(300)
    simulators.close()
    with pytest.raises(SimulatorError, match="closed"):
        simulators.submit(wrong)


def test_executing_elsewhere_is_still_refused_and_says_what_to_do(make_env: MakeEnv) -> None:
    pytest.importorskip("ray")
    with pytest.raises(ValueError, match=r"choose execution=local.*docs/ray\.md"):
        RayExecutor(lambda: make_env(), 1)


def test_a_setting_of_ray_that_does_not_exist_is_named(make_env: MakeEnv) -> None:
    with pytest.raises(ValueError, match=r"env\.ray .*adress.*address"):
        make_env(ray={"adress": "auto"})
