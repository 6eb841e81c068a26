"""The wrapper for one environment: plain Gymnasium code gets cheap, corrected rewards."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import pytest
from gymnasium.utils.env_checker import check_env

from tests.proxy.guessing import GuessEnv, HalvingModel, ThreadExecutor, truth
from tests.proxy.test_vector_env import BrokenModel, DyingExecutor
from wmrl_gym.core import ExecutorError, Outcome, Submission, WorldModelError
from wmrl_gym.proxy import IsotonicDebiaser, RandomAnchors, RewardProxy, RewardProxyWrapper


def wrapped(fraction: float, env: gym.Env[Any, Any] | None = None, **settings: Any) -> RewardProxyWrapper:
    proxy = RewardProxy(RandomAnchors(fraction, seed=2), IsotonicDebiaser(min_pairs=20, refit_every=5))
    settings.setdefault("world_model", HalvingModel())
    return RewardProxyWrapper(env or GuessEnv(turns=1, secret=50), proxy, **settings)


@pytest.mark.parametrize("fraction", [0.0, 1.0])
@pytest.mark.filterwarnings("ignore:.*different from the unwrapped version")
def test_gymnasiums_checks_pass(fraction: float) -> None:
    check_env(wrapped(fraction, GuessEnv(turns=3)), skip_render_check=True)


def test_predicted_episode_executes_nothing_and_anchor_is_told_the_truth() -> None:
    predicted, anchor = wrapped(0.0), wrapped(1.0)
    for env, reward in ((predicted, 0.3), (anchor, 0.6)):
        env.reset(seed=0)
        assert env.step(10)[1] == reward
    assert predicted.unwrapped.n_executions == 0  # type: ignore[attr-defined]
    assert anchor.unwrapped.n_executions == 1  # type: ignore[attr-defined]
    (pair,) = anchor.proxy.ledger
    assert (pair.predicted, pair.executed, pair.propensity, pair.status, pair.seconds) == (
        0.3,
        0.6,
        1.0,
        "guessed",
        0.5,
    )
    assert predicted.proxy.metrics()["anchor_fraction"] == 0.0


def test_rewards_are_calibrated_once_anchors_have_shown_the_bias() -> None:
    env = wrapped(0.4)
    anchors = 0
    for guess in list(range(0, 100)) * 2:
        _, info = env.reset()
        anchors += info["is_anchor"]
        env.step(guess)
    assert 50 < anchors < 110
    assert env.proxy.metrics()["pairs"] == anchors
    assert env.proxy.metrics()["anchor_fraction"] == anchors / 200
    for guess in (20, 35, 60):
        while env.reset()[1]["is_anchor"]:
            env.step(guess)
        assert env.step(guess)[1] == pytest.approx(truth(Submission("guess", guess, {"secret": 50})).score, abs=0.03)


def test_anchors_are_drawn_by_seed_and_episode_number_alone() -> None:
    draws = []
    for guess in (10, 90):
        env = wrapped(0.5)
        draws.append([(env.reset()[1]["is_anchor"], env.step(guess))[0] for _ in range(30)])
    assert draws[0] == draws[1]
    assert 0 < sum(draws[0]) < 30


def test_executor_is_used_where_there_is_one() -> None:
    executor = ThreadExecutor()
    env = wrapped(1.0, executor=executor)
    env.reset()
    assert env.step(10)[1] == 0.6
    assert executor.started == [10]
    assert env.unwrapped.n_executions == 0  # type: ignore[attr-defined]


def test_failed_execution_goes_on_with_the_calibrated_prediction_and_stores_no_pair() -> None:
    env = wrapped(1.0, executor=DyingExecutor(*range(40)))
    for guess in range(40):
        env.reset()
        env.step(guess)
    env.reset()
    _, reward, _, truncated, info = env.step(70)
    assert info["executed"].score is None
    assert not truncated
    assert reward == pytest.approx(0.8, abs=0.05)  # f(0.4), where the world model alone says 0.4
    assert env.proxy.metrics()["pairs"] == 40
    assert env.proxy.metrics()["anchor_failures"] == 1


def test_dead_executor_stops_the_run() -> None:
    env = wrapped(1.0, executor=DyingExecutor(), max_consecutive_failures=3)
    with pytest.raises(ExecutorError, match="3 executions in a row by DyingExecutor"):
        for _ in range(3):
            env.reset()
            env.step(10)


def test_step_may_be_repeated_after_a_failed_world_model() -> None:
    env = wrapped(1.0, world_model=BrokenModel(RuntimeError("down")))
    env.reset()
    with pytest.raises(WorldModelError, match="down"):
        env.step(10)
    assert env.step(10)[1] == 0.6
    assert env.unwrapped.n_submits == 1  # type: ignore[attr-defined]


def test_step_before_reset_is_refused() -> None:
    env = wrapped(0.0)
    with pytest.raises(gym.error.ResetNeeded):
        env.step(10)
    env.reset()
    env.step(10)
    with pytest.raises(gym.error.ResetNeeded):
        env.step(10)


def test_made_environments_are_wrapped_and_other_wrappers_go_outside() -> None:
    gym.register("test/Guess-v0", entry_point=GuessEnv)
    try:
        made = wrapped(0.0, gym.make("test/Guess-v0", turns=3, secret=50))
        outer = gym.wrappers.TimeLimit(made, 2)
        outer.reset(seed=0)
        assert [outer.step(guess)[3] for guess in (1, 2)] == [False, True]
        assert made.spec is not None  # the constructor's arguments are on record
        with pytest.raises(TypeError, match="TimeLimit would be skipped"):
            wrapped(0.0, gym.make("test/Guess-v0", max_episode_steps=2))
    finally:
        gym.registry.pop("test/Guess-v0")


def test_unknown_everywhere_gives_a_reward_that_is_no_number() -> None:
    class Silent:
        def predict(self, submissions: Any) -> list[Outcome]:
            return [Outcome(None, "unknown") for _ in submissions]

    env = wrapped(0.0, world_model=Silent())
    env.reset()
    _, reward, *_ = env.step(10)
    assert reward != reward
    assert env.proxy.metrics()["unknown_predictions"] == 1
