"""An episode that shares its simulator with others is the episode it would be alone, bit for bit."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from tests.envs.libero.conftest import SMALL, SOUP_AND_SAUCE, random_actions, waiting
from wmrl_gym.envs.libero.jobs import Job, JobResult, View
from wmrl_gym.envs.libero.pool import SimulatorPool
from wmrl_gym.envs.libero.snapshot import Snapshot
from wmrl_gym.envs.libero.tasks import given_initial_states

pytestmark = pytest.mark.sim


def play(pool: SimulatorPool, start: Snapshot, actions: np.ndarray) -> JobResult:
    return pool.submit(Job(SOUP_AND_SAUCE, start, actions, SMALL)).result()


def assert_same(one: JobResult, other: JobResult) -> None:
    assert one.snapshot.key == other.snapshot.key
    np.testing.assert_array_equal(one.robot_state, other.robot_state)
    np.testing.assert_array_equal(one.frames["agentview"], other.frames["agentview"])
    assert one.predicates == other.predicates


@pytest.mark.slow
def test_interleaved_episodes_equal_uninterrupted_ones(pool: SimulatorPool, settled: JobResult) -> None:
    plans = [random_actions(24, seed) for seed in range(3)]
    alone = [play(pool, settled.snapshot, plan) for plan in plans]
    ends = [settled] * 3
    for first in range(0, 24, 4):
        ends = [play(pool, end.snapshot, plan[first : first + 4]) for end, plan in zip(ends, plans, strict=True)]
    for end, uninterrupted in zip(ends, alone, strict=True):
        assert_same(end, uninterrupted)
    assert len({end.snapshot.key for end in ends}) == 3


def test_another_initial_state_in_between_leaves_no_trace(pool: SimulatorPool, settled: JobResult) -> None:
    actions = random_actions(8)
    before = play(pool, settled.snapshot, actions)
    pool.submit(Job(SOUP_AND_SAUCE, given_initial_states(SOUP_AND_SAUCE)[7], random_actions(8, 5))).result()
    assert_same(play(pool, settled.snapshot, actions), before)


def test_an_initial_state_begins_the_same_whatever_was_simulated_before(
    pool: SimulatorPool, settled: JobResult
) -> None:
    play(pool, settled.snapshot, random_actions(8))
    again = pool.submit(Job(SOUP_AND_SAUCE, given_initial_states(SOUP_AND_SAUCE)[0], waiting(10), SMALL)).result()
    assert_same(again, settled)


@pytest.mark.parametrize("part", ["controller", "gripper"])
def test_a_part_of_the_snapshot_left_out_would_change_what_follows(
    pool: SimulatorPool, settled: JobResult, part: str
) -> None:
    """The controller's goals and the gripper's action are state: MuJoCo's own is not enough."""
    closing = random_actions(8)
    closing[:, 6] = 1.0
    middle = play(pool, settled.snapshot, closing)
    forgetful = dataclasses.replace(middle.snapshot, **{part: getattr(settled.snapshot, part)})
    actions = waiting(8)
    assert play(pool, middle.snapshot, actions).snapshot.key != play(pool, forgetful, actions).snapshot.key


def test_looking_does_not_disturb(pool: SimulatorPool, settled: JobResult) -> None:
    actions = random_actions(8)
    blind = pool.submit(Job(SOUP_AND_SAUCE, settled.snapshot, actions)).result()
    assert blind.snapshot.key == play(pool, settled.snapshot, actions).snapshot.key
    assert blind.frames == {}


def test_taking_no_action_changes_nothing_and_shows_the_state(pool: SimulatorPool, settled: JobResult) -> None:
    elsewhere = play(pool, settled.snapshot, random_actions(8))
    still = play(pool, settled.snapshot, waiting(0))
    assert still.snapshot.key == settled.snapshot.key
    # Places are computed anew, and so are those after the last of 25 substeps, not before it.
    np.testing.assert_allclose(still.robot_state, settled.robot_state, atol=1e-3)
    assert np.abs(elsewhere.robot_state - settled.robot_state).max() > 0.01


def test_orientations_are_turns_of_one_image(pool: SimulatorPool, settled: JobResult) -> None:
    images = {}
    for orientation in ("raw", "flip_vertical", "rotate_180"):
        view = View(("agentview",), 64, orientation)  # type: ignore[arg-type]
        images[orientation] = pool.submit(Job(SOUP_AND_SAUCE, settled.snapshot, waiting(1), view)).result()
    raw, flipped, turned = (result.frames["agentview"] for result in images.values())
    np.testing.assert_array_equal(flipped, raw[::-1])
    np.testing.assert_array_equal(turned, raw[::-1, ::-1])
    # The camera looks at the robot across the table: in an upright image the arm moves in the upper half alone.
    raising = np.tile([0.0, 0.0, 1.0, 0.0, 0.0, 0.0, -1.0], (8, 1))
    change = np.abs(play(pool, settled.snapshot, raising).frames["agentview"].astype(int) - flipped)
    assert change[:32].mean() > 5 > 0.5 > change[32:].mean()
