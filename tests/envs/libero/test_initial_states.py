"""Initial states beside the given ones: kept in files that notice changes, made far from the given ones and at rest."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.envs.libero.conftest import SOUP_AND_SAUCE, waiting
from wmrl_gym.envs.libero.env import LIBEROLongEnv
from wmrl_gym.envs.libero.initial_states import load_initial_states, save_initial_states
from wmrl_gym.envs.libero.jobs import Job
from wmrl_gym.envs.libero.perturbation import Perturbation, _tilt, _turned, perturbed_initial_states
from wmrl_gym.envs.libero.pool import SimulatorPool
from wmrl_gym.envs.libero.tasks import TaskReference, given_initial_states

STATES = {0: np.arange(6.0).reshape(2, 3), 4: np.ones((1, 5))}


def test_a_file_gives_back_what_was_written(tmp_path: Path) -> None:
    key = save_initial_states(tmp_path / "far.npz", "libero_10", STATES, {"seed": 3})
    loaded = load_initial_states(tmp_path / "far.npz", "libero_10")
    assert (loaded.name, loaded.facts) == (key, {"seed": 3})
    np.testing.assert_array_equal(loaded.of(TaskReference("libero_10", 4)), STATES[4])
    with pytest.raises(ValueError, match="none for task 1"):
        loaded.of(TaskReference("libero_10", 1))


def test_a_changed_file_is_refused(tmp_path: Path) -> None:
    save_initial_states(tmp_path / "far.npz", "libero_10", STATES, {})
    with np.load(tmp_path / "far.npz") as archive:
        content = dict(archive)
    content["task_0"] = content["task_0"] + 1e-9
    np.savez(tmp_path / "changed.npz", **content)
    with pytest.raises(ValueError, match="was changed"):
        load_initial_states(tmp_path / "changed.npz", "libero_10")


def test_a_file_of_another_suite_or_of_something_else_is_refused(tmp_path: Path) -> None:
    save_initial_states(tmp_path / "far.npz", "libero_10_swap", STATES, {})
    with pytest.raises(ValueError, match="'libero_10_swap', not of 'libero_10'"):
        load_initial_states(tmp_path / "far.npz", "libero_10")
    np.savez(tmp_path / "other.npz", states=np.zeros(3))
    with pytest.raises(ValueError, match="no header"):
        load_initial_states(tmp_path / "other.npz", "libero_10")


def test_turning_about_the_vertical_tilts_nothing() -> None:
    lying = np.array([np.cos(0.4), np.sin(0.4), 0.0, 0.0])
    assert _tilt(lying, _turned(lying, 1.3)) == pytest.approx(0.0, abs=1e-6)
    np.testing.assert_allclose(_turned(np.array([1.0, 0, 0, 0]), np.pi / 2), [np.sqrt(0.5), 0, 0, np.sqrt(0.5)])
    assert _tilt(lying, np.array([1.0, 0, 0, 0])) == pytest.approx(0.8)


@pytest.mark.sim
def test_perturbed_states_are_far_at_rest_reproducible_and_playable(
    pool: SimulatorPool, make_env: Callable[..., LIBEROLongEnv], tmp_path: Path
) -> None:
    perturbation = Perturbation(settle_steps=10)
    states, facts = perturbed_initial_states(pool, SOUP_AND_SAUCE, 1, 0, perturbation)
    again, _ = perturbed_initial_states(pool, SOUP_AND_SAUCE, 1, 0, perturbation)
    np.testing.assert_array_equal(states, again)
    assert 0.03 <= facts["shift"] <= 0.08
    given = given_initial_states(SOUP_AND_SAUCE)
    assert states.shape == (1, given.shape[1])
    assert np.abs(states[0] - given).max(axis=1).min() > 0.03

    later = pool.submit(Job(SOUP_AND_SAUCE, states[0], waiting(10), is_privileged=True)).result()
    before = pool.submit(Job(SOUP_AND_SAUCE, states[0], waiting(0), is_privileged=True)).result()
    assert later.privileged is not None and before.privileged is not None
    for name, pose in before.privileged.objects.items():
        np.testing.assert_allclose(later.privileged.objects[name][:3], pose[:3], atol=0.005, err_msg=name)
    assert later.goal_progress < 1

    path = tmp_path / "far.npz"
    key = save_initial_states(path, "libero_10", {0: states}, json.loads(json.dumps(facts)))
    env = make_env(init_state_file=path, chunk=1, horizon=1)
    _, info = env.reset(seed=0)
    assert info["init_state_id"] == 0
    submission = env.submit(np.zeros((1, 7), np.float32))
    assert submission is not None and submission.context["initial_states"] == key
    with pytest.raises(ValueError, match="0 to 0"):
        env.reset(options={"task": "0@1"})
