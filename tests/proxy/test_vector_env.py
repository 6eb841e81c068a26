"""The vector environment: one batch for predictions, anchors in their own time, and nothing lost when scorers fail."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from tests.proxy.guessing import LOOK, PASS, GuessEnv, HalvingModel, ThreadExecutor, truth
from wmrl_gym.core import ExecutorError, Outcome, Submission, WorldModelError
from wmrl_gym.proxy import InverseVarianceFusion, IsotonicDebiaser, RandomAnchors, RewardProxy, RewardProxyVectorEnv


def secrets(env: RewardProxyVectorEnv, is_anchor: Sequence[bool], secret: int = 50) -> None:
    env.reset_episodes(range(len(is_anchor)), is_anchor=is_anchor, options=[{"secret": secret}] * len(is_anchor))


def received(env: RewardProxyVectorEnv, timeout: float = 10.0) -> dict[int, dict[str, Any]]:
    back = env.recv(timeout)
    assert [one.env_id for one in back] == sorted(one.env_id for one in back)
    return {one.env_id: {**one.info, "reward": one.reward, "truncated": one.truncated} for one in back}


class BrokenModel(HalvingModel):
    """Fails on its first calls, each time in the given way."""

    def __init__(self, *failures: Exception | int) -> None:
        super().__init__()
        self.failures = list(failures)

    def predict(self, submissions: Sequence[Submission]) -> list[Outcome]:
        if self.failures:
            failure = self.failures.pop(0)
            if isinstance(failure, Exception):
                raise failure
            return super().predict(submissions)[:failure]
        return super().predict(submissions)


class DyingExecutor(ThreadExecutor):
    """Futures that raise, except for the contents that are spared."""

    def __init__(self, *spared: int) -> None:
        super().__init__(self._die)
        self.spared = spared

    def _die(self, submission: Submission) -> Outcome:
        if submission.content in self.spared:
            return truth(submission)
        raise OSError("the node is gone")


def test_all_rows_are_predicted_in_one_batch_and_equal_submissions_once() -> None:
    model = HalvingModel()
    env = RewardProxyVectorEnv([GuessEnv] * 6, model, ThreadExecutor())
    secrets(env, [True, False, False, False, False, True])
    env.send([10, 20, 10, PASS, 20, 30], range(6))
    rows = received(env)
    assert [s.content for s in model.batches[0]] == [10, 20, 30]
    assert len(model.batches) == 1
    assert [rows[i]["predicted"] and rows[i]["predicted"].score for i in range(6)] == [0.3, 0.35, 0.3, None, 0.35, 0.4]


def test_every_environment_may_begin_before_the_first_is_waited_for() -> None:
    told: list[tuple[str, int]] = []

    class Remote(GuessEnv):
        def prepare(self, action: Any) -> None:
            told.append(("prepare", int(action)))

        def submit(self, action: Any) -> Submission | None:
            told.append(("submit", int(action)))
            return super().submit(action)

    model = BrokenModel(RuntimeError("once"))
    env = RewardProxyVectorEnv([Remote] * 3, model)
    secrets(env, [False] * 3)
    with pytest.raises(WorldModelError):
        env.send([1, 2, 3], range(3))
    env.send([1, 2, 3], range(3))  # repeated after the failure: nothing is begun or submitted twice
    assert told == [(word, number) for word in ("prepare", "submit") for number in (1, 2, 3)]


def test_anchors_are_told_the_truth_and_others_the_prediction() -> None:
    env = RewardProxyVectorEnv([GuessEnv] * 2, HalvingModel(), ThreadExecutor())
    secrets(env, [True, False])
    env.send([10, 10], range(2))
    rows = received(env)
    assert (rows[0]["executed"].score, rows[0]["predicted"].score, rows[0]["reward"]) == (0.6, 0.3, 0.6)
    assert (rows[1]["executed"], rows[1]["predicted"].score, rows[1]["reward"]) == (None, 0.3, 0.3)
    assert rows[0]["outcome"] is rows[0]["executed"]
    assert rows[1]["outcome"] is rows[1]["predicted"]
    assert rows[0]["submission"] == Submission("guess", 10, {"secret": 50})
    assert env.n_executions == 1


def test_episode_scores_are_those_of_both_streams() -> None:
    env = RewardProxyVectorEnv([GuessEnv] * 2, HalvingModel(), ThreadExecutor())
    secrets(env, [True, False])
    env.send([10, 10], range(2))
    assert "predicted_score" not in received(env)[0]
    env.send([50, 40], range(2))
    rows = received(env)
    assert (rows[0]["predicted_score"], rows[0]["executed_score"]) == (0.5, 1.0)
    assert (rows[1]["predicted_score"], rows[1]["executed_score"]) == (0.45, None)


def test_what_the_environment_scores_itself_counts_in_both_streams_and_costs_nothing() -> None:
    model = HalvingModel()
    env = RewardProxyVectorEnv([GuessEnv] * 3, model, ThreadExecutor())
    secrets(env, [True, False, True])
    for actions in ([PASS, PASS, LOOK], [PASS, 30, LOOK]):
        env.send(actions, range(3))
        rows = received(env)
    assert (rows[0]["predicted_score"], rows[0]["executed_score"]) == (0.0, 0.0)
    assert (rows[1]["predicted_score"], rows[1]["executed_score"]) == (0.4, None)
    assert (rows[2]["predicted_score"], rows[2]["executed_score"]) == (None, None)
    assert rows[0]["outcome"].source == "environment"
    assert env.n_executions == 0


def test_stream_that_does_not_exist_has_no_score_even_of_what_the_environment_scores_itself() -> None:
    predicted = RewardProxyVectorEnv([lambda: GuessEnv(turns=1)], HalvingModel())
    executed = RewardProxyVectorEnv([lambda: GuessEnv(turns=1)], None, ThreadExecutor())
    rows = []
    for env, is_anchor in ((predicted, False), (executed, True)):
        secrets(env, [is_anchor])
        env.send([PASS], [0])
        rows.append(received(env)[0])
    assert [(row["predicted_score"], row["executed_score"]) for row in rows] == [(0.0, None), (None, 0.0)]


def test_nobody_waits_for_an_anchor_but_the_anchor() -> None:
    executor = ThreadExecutor(gated=True)
    env = RewardProxyVectorEnv([GuessEnv] * 3, HalvingModel(), executor, mode="async")
    secrets(env, [True, False, True])
    env.send([1, 2, 3], range(3))
    assert set(received(env)) == {1}
    env.send([4], [1])
    assert received(env)[1]["predicted_score"] == pytest.approx(0.27)
    executor.release(3)
    assert set(received(env)) == {2}
    executor.release(1)
    assert set(received(env)) == {0}


def play(mode: Any, delays: dict[int, float]) -> dict[int, tuple[float | None, float | None]]:
    """Play four episodes whose second guess depends on the first answer; executions take ``delays`` by content."""

    def execute(submission: Submission) -> Outcome:
        time.sleep(delays.get(submission.content % 4, 0.0))
        return truth(submission)

    env = RewardProxyVectorEnv([GuessEnv] * 4, HalvingModel(), ThreadExecutor(execute), mode=mode)
    observations = dict(enumerate(env.reset_episodes(range(4), is_anchor=[True, True, False, True], seeds=range(4))))
    scores, ready = {}, list(range(4))
    while len(scores) < 4:
        if ready:
            env.send([40 + i + int(20 * observations[i][0]) for i in ready], ready)
        ready = []
        for back in env.recv(10.0):
            observations[back.env_id] = back.observation
            if back.terminated:
                scores[back.env_id] = (back.info["predicted_score"], back.info["executed_score"])
            else:
                ready.append(back.env_id)
    return scores


def test_arrival_order_changes_no_score() -> None:
    lockstep = play("lockstep", {})
    assert all(executed is not None for i, (_, executed) in lockstep.items() if i != 2)
    assert play("async", {0: 0.1, 1: 0.03}) == lockstep
    assert play("async", {3: 0.1, 1: 0.06}) == lockstep
    assert play("lockstep", {0: 0.05}) == lockstep


def test_lockstep_waits_for_all() -> None:
    executor = ThreadExecutor(gated=True)
    env = RewardProxyVectorEnv([GuessEnv] * 3, HalvingModel(), executor)
    secrets(env, [True, False, True])
    env.send([1, 2, 3], range(3))
    executor.release(1)
    with pytest.raises(TimeoutError, match=r"waiting for 2 \(guess\)"):
        env.recv(0.1)
    executor.release(3)
    assert list(received(env)) == [0, 1, 2]


@pytest.mark.parametrize("mode", ["lockstep", "async"])
def test_executions_in_flight_are_capped(mode: Any) -> None:
    executor = ThreadExecutor(gated=True)
    env = RewardProxyVectorEnv([GuessEnv] * 5, HalvingModel(), executor, mode=mode, max_in_flight=2)
    secrets(env, [True] * 5)
    env.send(range(5), range(5))
    assert executor.started == [0, 1]
    executor.release(0)
    executor.release(1)
    with pytest.raises(TimeoutError):
        while True:
            env.recv(0.2)
    assert executor.started == [0, 1, 2, 3]
    for guess in (2, 3, 4):
        executor.release(guess)
    rows: dict[int, Any] = {}
    while 4 not in rows:
        rows |= received(env)
    assert executor.most_running == 2
    assert executor.started == [0, 1, 2, 3, 4]
    assert all(row["executed"].score is not None for row in rows.values())


def test_cap_defaults_to_that_of_the_anchors() -> None:
    executor = ThreadExecutor(gated=True)
    proxy = RewardProxy(RandomAnchors(1.0, max_in_flight=3))
    env = RewardProxyVectorEnv([GuessEnv] * 5, HalvingModel(), executor, proxy=proxy)
    secrets(env, [True] * 5)
    env.send(range(5), range(5))
    assert executor.started == [0, 1, 2]
    for i in range(5):
        executor.release(i)
    env.recv(10.0)


@pytest.mark.parametrize("failure", [RuntimeError("CUDA out of memory"), 1, 0])
def test_failed_world_model_stops_with_a_reason_and_the_same_send_may_be_repeated(failure: Exception | int) -> None:
    executor = ThreadExecutor()
    env = RewardProxyVectorEnv([GuessEnv] * 3, BrokenModel(failure), executor)
    secrets(env, [True, False, False])
    with pytest.raises(WorldModelError, match=r"BrokenModel .* batch of 2 submissions \(guess\)") as caught:
        env.send([10, 20, PASS], range(3))
    assert caught.value.__cause__ is (failure if isinstance(failure, Exception) else None)
    env.send([10, 20, PASS], range(3))
    rows = received(env)
    assert [rows[i]["reward"] for i in range(3)] == [0.6, 0.35, 0.0]
    assert executor.started == [10]  # the anchor was neither lost nor executed twice
    inner = [episode.env for episode in env._episodes]
    assert [one.n_submits for one in inner] == [1, 1, 1]  # type: ignore[attr-defined]


def test_recv_asks_a_failed_world_model_again() -> None:
    env = RewardProxyVectorEnv([GuessEnv], BrokenModel(RuntimeError("down"), RuntimeError("still down")))
    secrets(env, [False])
    with pytest.raises(WorldModelError, match="down"):
        env.send([10], [0])
    with pytest.raises(WorldModelError, match="still down"):
        env.recv()
    assert received(env)[0]["reward"] == 0.3


def test_world_model_that_returns_no_outcomes_is_named() -> None:
    class Numbers:
        def predict(self, submissions: Sequence[Submission]) -> list[float]:
            return [0.5 for _ in submissions]

    env = RewardProxyVectorEnv([GuessEnv], Numbers())  # type: ignore[arg-type]
    secrets(env, [False])
    with pytest.raises(WorldModelError, match=r"1 results \(float\)"):
        env.send([10], [0])


def test_abstaining_world_model_leaves_the_score_unknown() -> None:
    class Shy(HalvingModel):
        def predict(self, submissions: Sequence[Submission]) -> list[Outcome]:
            return [Outcome(None, "unknown") for _ in submissions]

    env = RewardProxyVectorEnv([lambda: GuessEnv(turns=1)], Shy())
    secrets(env, [False])
    env.send([10], [0])
    row = received(env)[0]
    assert np.isnan(row["reward"])
    assert row["predicted_score"] is None


def test_failed_execution_goes_on_with_the_prediction_and_leaves_the_executed_score_unknown() -> None:
    env = RewardProxyVectorEnv([GuessEnv] * 2, HalvingModel(), DyingExecutor(50))
    secrets(env, [True, True])
    env.send([10, 50], range(2))
    rows = received(env)
    assert rows[0]["executed"].score is None
    assert "the node is gone" in rows[0]["executed"].details["error"]
    assert rows[0]["outcome"] is rows[0]["predicted"]
    assert (rows[0]["reward"], rows[0]["truncated"]) == (0.3, False)
    env.send([50, 50], range(2))
    rows = received(env)
    assert (rows[0]["predicted_score"], rows[0]["executed_score"]) == (0.5, None)
    assert rows[1]["executed_score"] == 1.0


def test_failed_execution_without_prediction_truncates_the_episode() -> None:
    env = RewardProxyVectorEnv([GuessEnv] * 2, None, DyingExecutor(50))
    secrets(env, [True, True])
    env.send([10, 50], range(2))
    rows = received(env)
    assert [rows[i]["truncated"] for i in range(2)] == [True, False]
    assert (rows[0]["predicted_score"], rows[0]["executed_score"]) == (None, None)
    with pytest.raises(gym.error.ResetNeeded, match="environment 0"):
        env.send([1, 1], [1, 0])
    env.send([1], [1])  # the refused send has handed in nothing


class RefusingExecutor(ThreadExecutor):
    def submit(self, submission: Submission) -> Future[Outcome]:
        raise RuntimeError("pool is broken")


class WrongExecutor(ThreadExecutor):
    def __init__(self) -> None:
        super().__init__(lambda submission: "done")  # type: ignore[arg-type,return-value]


class FaultyExecutor(ThreadExecutor):
    def __init__(self) -> None:
        super().__init__(lambda submission: Outcome(None, "infrastructure_error", "disk full"))


@pytest.mark.parametrize("mode", ["lockstep", "async"])
@pytest.mark.parametrize(
    ("executor", "reason"),
    [
        (DyingExecutor, "the node is gone"),
        (RefusingExecutor, "pool is broken"),
        (WrongExecutor, "not a wmrl_gym.Outcome"),
        (FaultyExecutor, "disk full"),
    ],
)
def test_dead_executor_stops_the_run_and_loses_no_episode(executor: Any, reason: str, mode: Any) -> None:
    env = RewardProxyVectorEnv([GuessEnv] * 4, HalvingModel(), executor(), mode=mode, max_consecutive_failures=4)
    secrets(env, [True] * 4)
    env.send([10] * 4, range(4))
    rows: dict[int, Any] = {}
    with pytest.raises(ExecutorError, match=f"4 executions in a row by {executor.__name__}.*\n.*{reason}"):
        while True:
            rows |= received(env)
    while len(rows) < 4:
        rows |= received(env)
    assert all(row["reward"] == 0.3 for row in rows.values())


def test_one_success_starts_the_count_of_failures_anew() -> None:
    env = RewardProxyVectorEnv([GuessEnv] * 5, HalvingModel(), DyingExecutor(50), max_consecutive_failures=3)
    secrets(env, [True] * 5)
    env.send([1, 2, 50, 3, 4], range(5))
    assert len(received(env)) == 5


def test_reset_gives_up_what_was_under_way() -> None:
    executor = ThreadExecutor(gated=True)
    env = RewardProxyVectorEnv([GuessEnv] * 2, HalvingModel(), executor, mode="async", max_in_flight=2)
    secrets(env, [True, False])
    env.send([1, 2], range(2))
    secrets(env, [True, False], secret=60)
    env.send([3, 4], range(2))
    assert set(received(env)) == {1}
    executor.release(3)
    assert received(env)[0]["executed"].score == pytest.approx(0.43)
    with pytest.raises(ValueError, match="nothing was sent"):
        env.recv()
    executor.release(1)


def test_what_was_given_up_keeps_its_place_while_it_runs_and_is_never_handed_out() -> None:
    executor = ThreadExecutor(gated=True)
    env = RewardProxyVectorEnv([GuessEnv] * 2, HalvingModel(), executor, mode="async", max_in_flight=2)
    secrets(env, [True, True])
    env.send([1, 2], range(2))
    secrets(env, [True, True])
    env.send([3, 4], range(2))
    assert executor.started == [1, 2]
    executor.release(2)
    with pytest.raises(TimeoutError):
        env.recv(0.3)
    assert executor.started == [1, 2, 3]
    executor.release(3)
    executor.release(4)
    rows = received(env)
    while len(rows) < 2:
        rows |= received(env)
    assert [rows[i]["executed"].score for i in range(2)] == [0.53, 0.54]
    assert executor.most_running == 2
    executor.release(1)


def test_an_environment_that_waits_takes_no_second_action() -> None:
    env = RewardProxyVectorEnv([GuessEnv] * 2, HalvingModel())
    secrets(env, [False, False])
    with pytest.raises(ValueError, match="occurs twice"):
        env.send([1, 2], [0, 0])
    env.send([1], [0])
    with pytest.raises(ValueError, match=r"still waits \(\[0\]\)"):
        env.send([1, 2], [0, 1])
    assert set(received(env)) == {0}


def test_without_world_model_everything_is_executed_and_nothing_else_can_be() -> None:
    env = RewardProxyVectorEnv([lambda: GuessEnv(turns=1)] * 2)
    env.reset_episodes([0, 1], options=[{"secret": 50}] * 2)
    env.send([50, 40], [0, 1])
    rows = received(env)
    assert [(rows[i]["predicted_score"], rows[i]["executed_score"]) for i in range(2)] == [(None, 1.0), (None, 0.9)]
    with pytest.raises(ValueError, match="needs a world model"):
        env.reset_episodes([0, 1], is_anchor=[True, False])


def test_environment_whose_execute_raises_is_an_unknown_score_too() -> None:
    class Fragile(GuessEnv):
        def execute(self, submission: Submission) -> Outcome:
            raise OSError("no sandbox")

    env = RewardProxyVectorEnv([Fragile], HalvingModel(), max_consecutive_failures=1)
    secrets(env, [True])
    env.send([1], [0])
    with pytest.raises(ExecutorError, match=r"own execute gave no score\n.*no sandbox"):
        env.recv()


def test_wrapper_that_would_be_skipped_is_refused() -> None:
    with pytest.raises(TypeError, match="wrapper TimeLimit would be skipped"):
        RewardProxyVectorEnv([lambda: gym.wrappers.TimeLimit(GuessEnv(), 3)], HalvingModel())
    with pytest.raises(TypeError, match="CartPoleEnv is not an ExpensiveRewardEnv"):
        RewardProxyVectorEnv([lambda: gym.make("CartPole-v1")], HalvingModel())
    checked = gym.wrappers.OrderEnforcing(gym.wrappers.PassiveEnvChecker(GuessEnv()))
    assert RewardProxyVectorEnv([lambda: checked], HalvingModel()).num_envs == 1


# ---- Gymnasium's face ---------------------------------------------------------------------------------------------


def test_gymnasium_interface_returns_batches() -> None:
    env = RewardProxyVectorEnv([GuessEnv] * 3, HalvingModel(), ThreadExecutor())
    assert env.metadata["autoreset_mode"] == AutoresetMode.DISABLED
    observations, infos = env.reset(seed=5, options={"secret": 50, "is_anchor": [True, False, False]})
    assert observations.shape == (3, 2)
    assert infos["secret"].tolist() == [50, 50, 50]
    observations, rewards, terminated, truncated, infos = env.step(np.array([10, 10, PASS]))
    assert observations in env.observation_space
    assert rewards.tolist() == [0.6, 0.3, 0.0]
    assert (terminated.dtype, truncated.tolist()) == (np.bool_, [False] * 3)
    assert infos["is_anchor"].tolist() == [True, False, False]
    assert infos["outcome"][0].score == 0.6
    *_, terminated, _, infos = env.step(np.array([50, 50, 50]))
    assert terminated.all()
    assert infos["predicted_score"].tolist() == [0.5, 0.5, 0.5]
    assert infos["executed_score"][0] == 1.0
    with pytest.raises(gym.error.ResetNeeded):
        env.step(np.array([1, 1, 1]))
    env.close()


def test_reset_mask_leaves_the_others_playing_and_seeds_repeat() -> None:
    env = RewardProxyVectorEnv([GuessEnv] * 2, HalvingModel())
    first = env.reset(seed=[3, 4])[1]["secret"].tolist()
    assert env.reset(seed=3)[1]["secret"].tolist() == first
    env.step(np.array([1, 1]))
    _, infos = env.reset(options={"reset_mask": np.array([True, False])})
    assert infos["_secret"].tolist() == [True, False]
    terminated = env.step(np.array([1, 1]))[2]
    assert terminated.tolist() == [False, True]


def test_step_may_be_repeated_after_a_failed_world_model() -> None:
    env = RewardProxyVectorEnv([GuessEnv] * 2, BrokenModel(RuntimeError("down")))
    env.reset(options={"secret": 50})
    with pytest.raises(WorldModelError):
        env.step(np.array([10, 20]))
    assert env.step(np.array([10, 20]))[1] == pytest.approx([0.3, 0.35])


@pytest.mark.parametrize("mode", ["lockstep", "async"])
def test_with_a_proxy_rewards_are_calibrated_once_anchors_have_shown_the_bias(mode: Any) -> None:
    proxy = RewardProxy(RandomAnchors(0.5, seed=1), IsotonicDebiaser(min_pairs=20), InverseVarianceFusion())
    env = RewardProxyVectorEnv(
        [lambda: GuessEnv(turns=1)] * 4, HalvingModel(), ThreadExecutor(), proxy=proxy, mode=mode
    )
    rng = np.random.default_rng(0)
    anchors = 0
    for _ in range(40):
        env.reset(options={"secret": 50})
        infos = env.step(rng.integers(0, 100, 4))[4]
        anchors += int(infos["is_anchor"].sum())
    metrics = proxy.metrics()
    assert metrics["anchor_fraction"] == anchors / 160
    assert 0.35 < anchors / 160 < 0.65
    assert metrics["pairs"] == anchors
    assert {pair.propensity for pair in proxy.ledger} == {0.5}
    assert {(pair.status, pair.seconds) for pair in proxy.ledger} == {("guessed", 0.5)}
    env.reset(options={"secret": 50})
    _, rewards, _, _, infos = env.step(np.array([20, 20, 70, 70]))
    predicted_only = ~infos["is_anchor"]
    assert predicted_only.any()
    assert rewards == pytest.approx([0.7, 0.7, 0.8, 0.8], abs=0.05)  # the world model says 0.35 and 0.4
    assert infos["predicted"][0].score == 0.35


@pytest.mark.parametrize("mode", ["lockstep", "async"])
def test_what_is_handed_in_twice_in_a_step_is_executed_once(mode: Any) -> None:
    executor = ThreadExecutor(truth)
    env = RewardProxyVectorEnv([GuessEnv] * 4, HalvingModel(), executor, mode=mode)
    secrets(env, [True] * 4)
    env.send([30, 30, 40, 30], range(4))
    infos: dict[int, dict[str, Any]] = {}
    while len(infos) < 4:
        infos |= received(env)
    assert [infos[i]["executed"].score for i in range(4)] == [0.8, 0.8, 0.9, 0.8]
    assert [infos[i]["executed"].seconds for i in range(4)] == [0.5, 0.0, 0.5, 0.0]  # what was spent
    assert env.n_executions == 2
    env.send([40, 30, 30, 40], range(4))  # the same step still: both are known
    infos = {}
    while len(infos) < 4:
        infos |= received(env)
    assert env.n_executions == 2 and all(info["executed"].score for info in infos.values())
    secrets(env, [True] * 4)  # new episodes everywhere: a new step
    env.send([30] * 4, range(4))
    while len(infos) < 8:
        infos |= {i + 4: info for i, info in received(env).items()}
    assert env.n_executions == 3
    executor.close()


def test_an_execution_that_failed_is_tried_again_for_the_next_who_asks() -> None:
    executor = DyingExecutor()
    env = RewardProxyVectorEnv([GuessEnv] * 2, HalvingModel(), executor)
    secrets(env, [True] * 2)
    env.send([30, 40], range(2))
    received(env)
    executor.spared = (30,)
    env.send([30, 30], range(2))
    assert [info["executed"].score for info in received(env).values()] == [0.8, 0.8]
    executor.close()


def test_an_evaluation_executes_everything() -> None:
    env = RewardProxyVectorEnv([GuessEnv] * 3, None, ThreadExecutor(truth), share_executions=False)
    secrets(env, [True] * 3)
    env.send([30] * 3, range(3))
    received(env)
    assert env.n_executions == 3
