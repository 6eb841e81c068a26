"""Many episodes at once: predictions in one batch, anchors really executed beside them.

Two faces of the same thing. Gymnasium's `VectorEnv` (`reset`, `step`) for code that knows nothing of groups, and
EnvPool's `send`/`recv` for a trainer: `send` returns at once, `recv` hands back the episodes that are ready, and
nobody waits for an anchor but the anchor.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, wait
from dataclasses import dataclass, field
from typing import Any, Literal

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space, concatenate, create_empty_array, iterate
from numpy.typing import NDArray

from wmrl_gym.core import (
    Executor,
    ExecutorError,
    ExpensiveRewardEnv,
    Outcome,
    Submission,
    Trajectory,
    WorldModel,
)
from wmrl_gym.proxy.prediction import predict_batch
from wmrl_gym.proxy.reward_proxy import RewardProxy

Mode = Literal["lockstep", "async"]
Received = tuple[list[Any], list[float], list[bool], list[bool], list[dict[str, Any]], list[int]]


@dataclass
class _Row:
    """One episode being played."""

    env: ExpensiveRewardEnv[Any, Any]
    is_anchor: bool = False
    propensity: float = 0.0
    episode: int = -1
    submission: Submission | None = None
    predicted: Outcome | None = None
    future: Future[Outcome] | None = None
    predicted_scores: list[float | None] = field(default_factory=list)
    executed_scores: list[float | None] = field(default_factory=list)
    over: bool = True


class RewardProxyVectorEnv(VectorEnv[Any, Any, Any]):
    """Drives environments of one kind in this process; only predictions and executions are expensive, and both batch.

    Args:
        env_fns: make the environments.
        world_model: predicts outcomes; None executes everything.
        executor: really executes the anchors; None calls the environment's own `execute`, one after the other.
        proxy: calibrates the rewards of `step` and draws and records anchors for episodes begun by `reset`. A trainer
            that scores groups itself leaves it None and marks anchors in `reset_episodes`.
        mode: "lockstep" waits for all episodes at each `recv`, which makes a run repeatable bit for bit; "async" hands
            back what is ready.
        max_in_flight: executions that are handed to the executor at the same time.
        max_consecutive_failures: unknown executions in a row after which `ExecutorError` stops the run.
    """

    metadata: dict[str, Any] = {"autoreset_mode": AutoresetMode.DISABLED}  # noqa: RUF012 - Gymnasium's declaration

    def __init__(
        self,
        env_fns: Sequence[Callable[[], gym.Env[Any, Any]]],
        world_model: WorldModel | None = None,
        executor: Executor | None = None,
        *,
        proxy: RewardProxy | None = None,
        mode: Mode = "lockstep",
        max_in_flight: int = 24,
        max_consecutive_failures: int = 16,
    ) -> None:
        if not env_fns:
            raise ValueError("RewardProxyVectorEnv got no env_fns: give at least one")
        if mode not in ("lockstep", "async"):
            raise ValueError(f"mode is {mode!r}: choose 'lockstep' or 'async'")
        self._rows = [_Row(expensive_env(make())) for make in env_fns]
        self.num_envs = len(self._rows)
        self.single_observation_space = self._rows[0].env.observation_space
        self.single_action_space = self._rows[0].env.action_space
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self.world_model, self.executor, self.proxy = world_model, executor, proxy
        self.mode, self.max_in_flight = mode, max_in_flight
        self.max_consecutive_failures = max_consecutive_failures
        self._failures = 0
        self._sent: list[int] = []
        self._waiting: deque[int] = deque()
        self._observations: list[Any] = [None] * self.num_envs
        self.n_executions = 0
        """Submissions really executed so far."""

    # ---- EnvPool's face: episodes come and go one by one -------------------------------------------------------

    def reset_episodes(
        self,
        env_ids: Sequence[int],
        *,
        is_anchor: Sequence[bool] | None = None,
        seeds: Sequence[int | None] | None = None,
        options: Sequence[Mapping[str, Any] | None] | None = None,
    ) -> list[Any]:
        """Begin an episode in each of ``env_ids``; returns their first observations.

        Args:
            env_ids: which environments.
            is_anchor: whether each episode is really executed; default none, or all without a world model.
            seeds: one per environment.
            options: options of `reset`, one mapping per environment.
        """
        observations = []
        for position, env_id in enumerate(env_ids):
            row = self._rows[env_id]
            anchor = bool(is_anchor[position]) if is_anchor is not None else False
            row.is_anchor = anchor or self.world_model is None
            row.propensity, row.over = float(row.is_anchor), False
            row.submission = row.predicted = row.future = None
            row.predicted_scores, row.executed_scores = [], []
            seed = seeds[position] if seeds is not None else None
            observation, _ = row.env.reset(seed=seed, options=dict(options[position] or {}) if options else None)
            observations.append(observation)
        return observations

    def send(self, actions: Sequence[Any], env_ids: Sequence[int]) -> None:
        """Hand in one action for each of ``env_ids``. Anchors begin to execute, the rest is predicted in one batch.

        Raises:
            WorldModelError: if the world model fails. The episodes stay as they were before the call's actions, which
                may be sent again.
            gymnasium.error.ResetNeeded: if an episode has not begun.
        """
        submissions = {}
        for action, env_id in zip(actions, env_ids, strict=True):
            if self._rows[env_id].over:
                raise gym.error.ResetNeeded(f"environment {env_id} has no running episode: reset it first")
            submissions[env_id] = self._rows[env_id].env.submit(action)
        to_predict = {i: s for i, s in submissions.items() if s is not None and self.world_model is not None}
        predictions = predict_batch(self.world_model, list(to_predict.values())) if self.world_model else []
        outcomes = dict(zip(to_predict, predictions, strict=True))
        for env_id, submission in submissions.items():
            row = self._rows[env_id]
            row.submission, row.predicted, row.future = submission, outcomes.get(env_id), None
            if submission is not None and row.is_anchor:
                self._waiting.append(env_id)
            self._sent.append(env_id)
        self._feed_executor()

    def recv(self) -> Received:
        """The episodes that are ready: all that were sent ("lockstep"), or those there are, at least one ("async").

        Returns:
            Observations, rewards, terminated, truncated, infos and env_ids, each a list with one entry per episode, in
            the order of ``env_ids``. An info holds "submission", "predicted", "executed" and "outcome" (what the agent
            was told), and at the end of an episode "predicted_score" and "executed_score".

        Raises:
            ExecutorError: if executions failed too often in a row.
            ValueError: if nothing was sent.
        """
        if not self._sent:
            raise ValueError("recv: nothing was sent; call send first")
        ready = self._wait_for_ready()
        self._sent = [env_id for env_id in self._sent if env_id not in ready]
        columns: Received = ([], [], [], [], [], [])
        for env_id in ready:
            observation, reward, terminated, truncated, info = self._advance(env_id)
            for column, value in zip(columns, (observation, reward, terminated, truncated, info, env_id), strict=True):
                column.append(value)  # type: ignore[arg-type]
        return columns

    def _feed_executor(self) -> None:
        in_flight = sum(self._is_executing(env_id) for env_id in self._sent)
        while self._waiting and in_flight < self.max_in_flight:
            row = self._rows[self._waiting.popleft()]
            assert row.submission is not None  # only submissions wait
            row.future = self._execute(row, row.submission)
            in_flight += 1

    def _is_executing(self, env_id: int) -> bool:
        future = self._rows[env_id].future
        return future is not None and not future.done()

    def _execute(self, row: _Row, submission: Submission) -> Future[Outcome]:
        self.n_executions += 1
        if self.executor is not None:
            try:
                return self.executor.submit(submission)
            except Exception as error:
                return _completed(unknown_outcome(error))
        try:
            return _completed(row.env.execute(submission))
        except Exception as error:
            return _completed(unknown_outcome(error))

    def _wait_for_ready(self) -> list[int]:
        while True:
            self._feed_executor()
            waiting = set(self._waiting)
            open_ids = [i for i in self._sent if i in waiting or self._is_executing(i)]
            ready = sorted(set(self._sent) - set(open_ids))
            if not open_ids or (self.mode == "async" and ready):
                return ready
            futures = [future for i in open_ids if (future := self._rows[i].future) is not None]
            wait(futures, return_when=FIRST_COMPLETED)

    def _advance(self, env_id: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        row = self._rows[env_id]
        executed = None if row.future is None else self._result(row.future)
        told = executed
        if executed is None or (executed.score is None and row.predicted is not None):
            # A failed execution must not end the episode: the agent is told what was predicted, and the trajectory's
            # executed score stays unknown.
            told = row.predicted
        if told is not None and executed is None and self.proxy is not None:
            told = _recast(told, self.proxy.calibrate(told.score))
        observation, reward, terminated, truncated, info = row.env.advance(told)
        own = info.get("outcome")
        self._note_scores(row, executed, own)
        info = {**info, "submission": row.submission, "predicted": row.predicted, "executed": executed}
        info["outcome"] = told if told is not None else own
        if terminated or truncated:
            row.over = True
            info["predicted_score"] = row.env.episode_score(row.predicted_scores) if self.world_model else None
            info["executed_score"] = row.env.episode_score(row.executed_scores) if row.is_anchor else None
        return observation, float(reward), bool(terminated), bool(truncated), info

    def _note_scores(self, row: _Row, executed: Outcome | None, own: Outcome | None) -> None:
        """What the environment scored by itself is known to both streams without cost."""
        if row.submission is not None:
            row.predicted_scores.append(None if row.predicted is None else row.predicted.score)
            row.executed_scores.append(None if executed is None else executed.score)
        elif own is not None:
            row.predicted_scores.append(own.score)
            row.executed_scores.append(own.score)

    def _result(self, future: Future[Outcome]) -> Outcome:
        try:
            outcome = future.result()
        except (Exception, CancelledError) as error:
            outcome = unknown_outcome(error)
        self._failures = self._failures + 1 if outcome.score is None else 0
        if self._failures >= self.max_consecutive_failures:
            raise ExecutorError(
                f"{self._failures} executions in a row gave no score; the last one: {outcome.feedback or outcome.status}"
                f" {outcome.details.get('error', '')}\n  Without executions there are no anchors, and the run would go on"
                " as world-model-only training.\n  Mend the executor (`wmrl doctor` probes it) and resume the run."
            )
        return outcome

    # ---- Gymnasium's face: all environments in step ------------------------------------------------------------

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin an episode everywhere, or where ``options["reset_mask"]`` is true."""
        given = dict(options or {})
        mask = given.pop("reset_mask", np.ones(self.num_envs, bool))
        env_ids = [int(i) for i in np.flatnonzero(mask)]
        seeds = list(seed) if isinstance(seed, Sequence) else [None if seed is None else seed + i for i in range(self.num_envs)]
        draws = [self._draw_episode(env_id) for env_id in env_ids]
        observations = self.reset_episodes(
            env_ids,
            is_anchor=[anchor for anchor, _ in draws],
            seeds=[seeds[i] for i in env_ids],
            options=[given] * len(env_ids),
        )
        for env_id, observation, (_, propensity) in zip(env_ids, observations, draws, strict=True):
            self._observations[env_id] = observation
            self._rows[env_id].propensity = propensity
        return self._batch(self._observations), {}

    def _draw_episode(self, env_id: int) -> tuple[bool, float]:
        row = self._rows[env_id]
        row.episode += 1
        return (False, 0.0) if self.proxy is None else self.proxy.anchors.draw_episode(row.episode, str(env_id))

    def step(
        self, actions: Any
    ) -> tuple[Any, NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]:
        """One action for every environment. Episodes that ended must be reset first (no automatic reset)."""
        self.send(list(iterate(self.action_space, actions)), range(self.num_envs))
        rewards = np.zeros(self.num_envs)
        ended = np.zeros((2, self.num_envs), bool)
        infos: dict[str, Any] = {}
        while self._sent:
            for observation, reward, terminated, truncated, info, env_id in zip(*self.recv(), strict=True):
                self._observations[env_id], rewards[env_id] = observation, reward
                ended[:, env_id] = terminated, truncated
                infos = self._add_info(infos, info, env_id)
                if terminated or truncated:
                    self._record(env_id, info)
        return self._batch(self._observations), rewards, ended[0], ended[1], infos

    def _record(self, env_id: int, info: Mapping[str, Any]) -> None:
        row = self._rows[env_id]
        if self.proxy is not None and row.is_anchor:
            trajectory = Trajectory((), info["predicted_score"], info["executed_score"])
            self.proxy.record_episode(row.episode, str(env_id), trajectory, row.propensity)

    def _batch(self, observations: Sequence[Any]) -> Any:
        empty = create_empty_array(self.single_observation_space, self.num_envs)
        return concatenate(self.single_observation_space, observations, empty)

    def close_extras(self, **kwargs: Any) -> None:
        """Close the environments. The executor belongs to whoever made it."""
        for row in self._rows:
            row.env.close()


def expensive_env(env: gym.Env[Any, Any]) -> ExpensiveRewardEnv[Any, Any]:
    """The `ExpensiveRewardEnv` inside an environment, past the wrappers that `gymnasium.make` adds.

    Raises:
        TypeError: if there is none.
    """
    inner = env.unwrapped
    if not isinstance(inner, ExpensiveRewardEnv):
        raise TypeError(
            f"{type(inner).__name__} is not an ExpensiveRewardEnv: derive it from wmrl_gym.ExpensiveRewardEnv and write "
            "submit, execute and advance"
        )
    return inner


def unknown_outcome(error: BaseException) -> Outcome:
    """Outcome of an execution that failed for a reason outside the submission."""
    return Outcome(None, "unknown", "execution failed", details={"error": f"{type(error).__name__}: {error}"})


def _completed(outcome: Outcome) -> Future[Outcome]:
    future: Future[Outcome] = Future()
    future.set_result(outcome)
    return future


def _recast(outcome: Outcome, score: float | None) -> Outcome:
    return Outcome(score, outcome.status, outcome.feedback, outcome.source, outcome.seconds, outcome.details)
