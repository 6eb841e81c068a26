"""The environment keeps Gymnasium's contract, ends when it should, and keeps the verdict to itself."""

from __future__ import annotations

import math
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from tests.envs.libero.conftest import POOL, SOUP_AND_SAUCE, in_the_basket, waiting
from wmrl_gym.core import Submission, fingerprint
from wmrl_gym.envs.libero.env import LIBEROLongEnv
from wmrl_gym.envs.libero.jobs import Job, JobResult
from wmrl_gym.envs.libero.pool import SimulatorPool
from wmrl_gym.envs.libero.snapshot import Snapshot
from wmrl_gym.proxy.vector_env import RewardProxyVectorEnv

pytestmark = pytest.mark.sim
MakeEnv = Callable[..., LIBEROLongEnv]
START = {"task": "0", "init_state_id": 0}


def actions(env: LIBEROLongEnv, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-1, 1, env.action_space.shape or ()).astype(np.float32)


def play(env: LIBEROLongEnv, seed: int = 0) -> tuple[Submission, tuple[Any, ...]]:
    """Random actions to the end of the episode."""
    for turn in range(100):
        submission = env.submit(actions(env, seed + turn))
        step = env.advance(None if submission is None else env.execute(submission))
        if submission is not None:
            return submission, step
    raise AssertionError("the episode does not end")


def from_snapshot(env: LIBEROLongEnv, snapshot: Snapshot) -> None:
    """Go on from a state that was arranged by hand."""
    env.reset(options=START)
    assert env._episode is not None
    env._episode.snapshot = snapshot


def arranged(pool: SimulatorPool, settled: JobResult, **heights: float) -> Snapshot:
    job = Job(SOUP_AND_SAUCE, settled.snapshot, waiting(0), rearrangement=in_the_basket(settled, **heights))
    return pool.submit(job).result().snapshot


def test_gymnasium_s_own_checks_pass(pool: SimulatorPool) -> None:
    env = gym.make("wmrl/LIBEROLong-v0", task="0", chunk=2, horizon=8, image_size=64, render_mode="rgb_array", **POOL)
    check_env(env.unwrapped)
    env.reset(seed=0)
    assert env.render().shape == (64, 64, 3)  # type: ignore[union-attr]
    env.close()


def test_where_an_episode_begins_follows_from_seed_and_options_alone(make_env: MakeEnv) -> None:
    env, other = make_env(settle_steps=0), make_env(settle_steps=0)
    first, first_info = env.reset(seed=5)
    for options in ({}, {"task": "0"}):
        other.reset(seed=9)
        again, info = other.reset(seed=5, options=options)
        if not options:
            assert info["init_state_id"] == first_info["init_state_id"]
            np.testing.assert_array_equal(again["agentview_image"], first["agentview_image"])
    named, named_info = env.reset(seed=1, options={"task": "0@12"})
    pair, _ = other.reset(seed=2, options={"task": "0", "init_state_id": 12})
    assert named_info["init_state_id"] == 12
    np.testing.assert_array_equal(named["state"], pair["state"])
    drawn = {env.reset(seed=seed)[1]["init_state_id"] for seed in range(12)}
    assert len(drawn) > 3


def test_only_the_allowed_states_are_drawn_and_a_named_one_may_be_any(make_env: MakeEnv) -> None:
    env = make_env(init_states=[3, 4], settle_steps=0)
    assert {env.reset(seed=seed)[1]["init_state_id"] for seed in range(8)} == {3, 4}
    assert env.reset(options={"task": "0@45"})[1]["init_state_id"] == 45
    pinned = make_env(task=["0@7"], settle_steps=0)
    assert pinned.reset(seed=0)[1]["init_state_id"] == 7


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"task": "1"}, "does not play task '1'"),
        ({"task": "0@50"}, "0 to 49"),
        ({"task": "0@3", "init_state_id": 4}, "give one initial state"),
    ],
)
def test_a_start_that_does_not_exist_is_refused(make_env: MakeEnv, options: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        make_env().reset(options=options)


def test_an_episode_is_truncated_at_its_horizon_in_the_middle_of_a_chunk(make_env: MakeEnv) -> None:
    env = make_env(chunk=4, horizon=10)
    env.reset(options=START)
    submission, (_, reward, terminated, truncated, info) = play(env)
    assert submission.content["frames"].shape == (4, 64, 64, 3)
    assert submission.content["frames"].dtype == np.uint8
    assert (reward, terminated, truncated) == (0.0, False, True)
    assert (info["steps"], info["actions_used"], info["success"]) == (10, 2, False)
    with pytest.raises(gym.error.ResetNeeded):
        env.submit(actions(env))


def test_success_ends_the_episode_within_the_chunk_and_is_worth_one(
    make_env: MakeEnv, pool: SimulatorPool, settled: JobResult
) -> None:
    env = make_env(chunk=12)
    # The soup is in the basket, the sauce falls into it from above.
    from_snapshot(env, arranged(pool, settled, alphabet_soup_1=0.0, tomato_sauce_1=0.25))
    wait = waiting(12).astype(np.float32)
    submission = env.submit(wait)
    assert submission is not None
    outcome = env.execute(submission)
    _, reward, terminated, truncated, info = env.advance(outcome)
    assert (outcome.score, outcome.status, outcome.source) == (1.0, "success", "execution")
    assert (reward, terminated, truncated) == (1.0, True, False)
    assert info["success"] and info["goal_progress"] == 1.0
    assert 1 < info["actions_used"] < 12
    assert outcome.details["steps"] == info["actions_used"]
    assert set(outcome.details["versions"]) == {"libero", "mujoco", "robosuite", "numpy"}


def test_half_the_goal_is_half_the_progress(make_env: MakeEnv, pool: SimulatorPool, settled: JobResult) -> None:
    start = arranged(pool, settled, alphabet_soup_1=0.0)
    scores = {}
    for score in ("success", "progress"):
        env = make_env(chunk=2, horizon=2, score=score, reveal_goal_progress=score == "progress")
        from_snapshot(env, start)
        submission = env.submit(waiting(2).astype(np.float32))
        assert submission is not None
        scores[score] = env.execute(submission).score
        assert ("goal_progress" in submission.context) == (score == "progress")
        if score == "progress":
            assert submission.context["goal_progress"] == (0.0, 0.5)
    assert scores == {"success": 0.0, "progress": 0.5}


def test_the_verdict_is_not_in_the_submission(make_env: MakeEnv) -> None:
    env = make_env(chunk=4, horizon=4)
    env.reset(options=START)
    submission, _ = play(env)
    assert set(submission.content) == {"frames"}
    assert set(submission.context) == {
        "instruction", "suite", "init_state_id", "initial_states", "versions", "simulation", "score",
    }  # fmt: skip
    fingerprint(submission)


def test_the_same_episode_scored_otherwise_has_a_verdict_of_its_own(make_env: MakeEnv) -> None:
    keys = []
    for score in ("success", "progress"):
        env = make_env(chunk=4, horizon=4, score=score)
        env.reset(options=START)
        keys.append(play(env)[0].key)
        assert env._episode is not None and not env._episode.frames
    assert keys[0] != keys[1]


def test_a_submission_nobody_simulated_here_has_no_score(make_env: MakeEnv) -> None:
    env = make_env(chunk=4, horizon=4)
    env.reset(options=START)
    submission, _ = play(env)
    forged = Submission(submission.task_id, submission.content, {**submission.context, "simulation": "another"})
    assert env.execute(submission).score == 0.0
    outcome = env.execute(forged)
    assert outcome.score is None
    assert "not simulated in this process" in outcome.details["error"]


def test_without_cameras_episodes_are_still_told_apart(make_env: MakeEnv) -> None:
    env = make_env(cameras=(), chunk=4, horizon=4)
    keys = []
    for seed in range(2):
        observation, _ = env.reset(options=START)
        assert set(observation) == {"state", "instruction"}
        submission, _ = play(env, seed)
        assert submission.content["frames"].shape == (2, 0, 0, 3)
        keys.append(submission.key)
    assert keys[0] != keys[1]


def test_a_simulator_that_fails_for_good_leaves_the_score_unknown(
    make_env: MakeEnv, pool: SimulatorPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    env = make_env(chunk=2)
    env.reset(options=START)
    assert env.step(actions(env))[4]["actions_used"] == 2
    with monkeypatch.context() as broken:
        broken.setattr(sys, "executable", "/bin/false")
        os.kill(pool.process_ids[0], signal.SIGKILL)
        assert env.submit(actions(env)) is None
    _, reward, terminated, truncated, info = env.advance(None)
    assert math.isnan(reward)
    assert (terminated, truncated) == (False, True)
    assert (info["outcome"].score, info["outcome"].status) == (None, "simulator_error")
    assert (info["actions_used"], info["steps"]) == (0, 2)
    assert env.reset(options=START)[1]["success"] is False


@pytest.mark.parametrize("action", [np.zeros(7), np.full((2, 7), np.nan), np.zeros((3, 7))])
def test_actions_that_are_none_are_refused(make_env: MakeEnv, action: np.ndarray) -> None:
    env = make_env(chunk=2)
    env.reset(options=START)
    with pytest.raises(gym.error.InvalidAction, match=r"shape \(2, 7\)"):
        env.submit(action)


def test_turns_out_of_order_are_refused(make_env: MakeEnv) -> None:
    env = make_env(chunk=1, horizon=1)
    with pytest.raises(gym.error.ResetNeeded):
        env.submit(actions(env))
    env.reset(options=START)
    with pytest.raises(gym.error.Error, match="submit first"):
        env.advance(None)
    assert env.submit(actions(env)) is not None
    with pytest.raises(gym.error.Error, match="advance first"):
        env.submit(actions(env))
    with pytest.raises(gym.error.Error, match="needs an outcome"):
        env.advance(None)


def test_episodes_of_a_vector_environment_equal_those_played_alone(make_env: MakeEnv) -> None:
    settings = {"chunk": 4, "horizon": 8}
    alone = []
    for seed in (0, 10):
        env = make_env(**settings)
        env.reset(options=START)
        alone.append(play(env, seed)[0].key)
    together = RewardProxyVectorEnv([lambda: make_env(**settings)] * 2)
    together.reset_episodes([0, 1], options=[START, START])
    keys: dict[int, str] = {}
    for turn in range(2):
        together.send([actions(env, seed + turn) for seed in (0, 10)], [0, 1])
        for back in together.recv():
            if back.info["submission"] is not None:
                keys[back.env_id] = back.info["submission"].key
    assert [keys[0], keys[1]] == alone
