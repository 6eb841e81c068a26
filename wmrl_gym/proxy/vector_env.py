"""Many episodes at once: predictions in one batch, anchors really executed beside them.

Two faces of the same thing. Gymnasium's `VectorEnv` (`reset`, `step`) for code that knows nothing of groups, and
EnvPool's `send`/`recv` for a trainer: `recv` hands back the episodes that are ready, and nobody waits for an anchor but
the anchor.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space, concatenate, create_empty_array, iterate
from numpy.typing import NDArray

from wmrl_gym.core import Executor, ExpensiveRewardEnv, WorldModel
from wmrl_gym.proxy.anchor_execution import AnchorExecutions
from wmrl_gym.proxy.episode import Episode, expensive_env
from wmrl_gym.proxy.prediction import predict_batch
from wmrl_gym.proxy.reward_proxy import RewardProxy

Mode = Literal["lockstep", "async"]


@dataclass(frozen=True, eq=False)
class Received:
    """One step of one episode, come back: Gymnasium's five values, and whose they are."""

    observation: Any
    reward: float
    """NaN where the score is unknown."""
    terminated: bool
    truncated: bool
    info: dict[str, Any]
    """See `Episode.advance`."""
    env_id: int


class RewardProxyVectorEnv(VectorEnv[Any, Any, Any]):
    """Drives environments of one kind in this process; only predictions and executions are expensive, and both batch.

    Args:
        env_fns: make the environments.
        world_model: predicts outcomes; None executes everything.
        executor: really executes the anchors; None calls the environment's own `execute`, one after the other.
        proxy: calibrates what is told of predictions, and draws and records anchors for episodes begun by `reset`. A
            trainer that scores groups itself leaves it None and marks anchors in `reset_episodes`.
        mode: "lockstep" waits for all episodes at each `recv`, which makes a run repeatable bit for bit; "async" hands
            back what is ready.
        max_in_flight: executions that are handed to the executor at the same time; default the proxy's, else 24.
        max_consecutive_failures: unknown executions in a row after which `ExecutorError` stops the run.
        share_executions: execute the same submission once, until all episodes are over and new ones begin. An
            evaluation executes everything.
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
        max_in_flight: int | None = None,
        max_consecutive_failures: int = 16,
        share_executions: bool = True,
    ) -> None:
        if not env_fns:
            raise ValueError("RewardProxyVectorEnv got no env_fns: give at least one")
        if mode not in get_args(Mode):
            raise ValueError(f"mode is {mode!r}: choose 'lockstep' or 'async'")
        if max_in_flight is None:
            max_in_flight = 24 if proxy is None else proxy.anchors.max_in_flight
        self._episodes = [Episode(expensive_env(make())) for make in env_fns]
        self.num_envs = len(self._episodes)
        self.single_observation_space = self._episodes[0].env.observation_space
        self.single_action_space = self._episodes[0].env.action_space
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self.world_model, self.proxy, self.mode = world_model, proxy, mode
        self._executions = AnchorExecutions(
            executor, max_in_flight, max_consecutive_failures, share=share_executions
        )
        self._sent: set[int] = set()
        self._episode_numbers = [-1] * self.num_envs
        self._observations: list[Any] = [None] * self.num_envs

    @property
    def executor(self) -> Executor | None:
        """Who executes the anchors."""
        return self._executions.executor

    @property
    def n_executions(self) -> int:
        """Submissions handed to execution so far; a trainer sets it when it resumes."""
        return self._executions.n_started

    @n_executions.setter
    def n_executions(self, count: int) -> None:
        self._executions.n_started = count

    @property
    def domain(self) -> type[ExpensiveRewardEnv[Any, Any]]:
        """What kind of environment is played: its class."""
        return type(self._episodes[0].env)

    # ---- EnvPool's face: episodes come and go one by one -------------------------------------------------------

    def reset_episodes(
        self,
        env_ids: Sequence[int],
        *,
        is_anchor: Sequence[bool] | None = None,
        seeds: Sequence[int | None] | None = None,
        options: Sequence[Mapping[str, Any] | None] | None = None,
    ) -> list[Any]:
        """Begin an episode in each of ``env_ids``, giving up one that may be running there.

        Args:
            env_ids: which environments.
            is_anchor: whether each episode is really executed; default none, or all if there is no world model.
            seeds: one per environment.
            options: options of `reset`, one mapping per environment.

        Returns:
            The first observation of each.

        Raises:
            ValueError: if an episode would be neither predicted nor executed, or the lengths differ.
        """
        return [observation for observation, _ in self._begin(env_ids, is_anchor, None, seeds, options)]

    def _begin(
        self,
        env_ids: Sequence[int],
        is_anchor: Sequence[bool] | None,
        propensities: Sequence[float] | None,
        seeds: Sequence[int | None] | None,
        options: Sequence[Mapping[str, Any] | None] | None,
    ) -> list[tuple[Any, dict[str, Any]]]:
        anchors = [self.world_model is None] * len(env_ids) if is_anchor is None else [bool(a) for a in is_anchor]
        if self.world_model is None and not all(anchors):
            raise ValueError(
                "an episode that is no anchor needs a world model to predict it, and this vector environment has none\n"
                "  Mark all episodes as anchors (an anchor fraction of 1), or give it a world_model."
            )
        columns = (
            env_ids,
            anchors,
            propensities if propensities is not None else [float(anchor) for anchor in anchors],
            seeds if seeds is not None else [None] * len(env_ids),
            options if options is not None else [None] * len(env_ids),
        )
        begun = []
        others = set(range(self.num_envs)) - set(env_ids)
        if all(self._episodes[i].over for i in others):
            self._executions.forget()
        for env_id, anchor, propensity, seed, option in list(zip(*columns, strict=True)):
            episode = self._episodes[env_id]
            self._sent.discard(env_id)
            self._executions.discard(env_id)
            begun.append(episode.env.reset(seed=seed, options=None if option is None else dict(option)))
            episode.begin(is_anchor=anchor, propensity=propensity)
        return begun

    def send(self, actions: Sequence[Any], env_ids: Sequence[int]) -> None:
        """Hand in one action for each of ``env_ids``: anchors begin to execute, then all is predicted in one batch.

        Raises:
            WorldModelError: if the world model fails. Nothing is lost: the actions stand, anchors go on executing, and
                either the same `send` or `recv` asks the world model again.
            gymnasium.error.ResetNeeded: if an episode has not begun.
            ValueError: if an environment has not yet given back what was sent before.
        """
        by_id = dict(zip(env_ids, actions, strict=True))
        is_retry = bool(self._unpredicted())
        if len(by_id) != len(env_ids) or (not is_retry and self._sent & set(by_id)):
            busy = sorted(self._sent & set(by_id))
            raise ValueError(
                f"send: an environment occurs twice in {list(env_ids)}, or still waits ({busy}): recv first"
            )
        for env_id in by_id:
            if self._episodes[env_id].over:
                raise gym.error.ResetNeeded(f"environment {env_id} has no running episode: reset it first")
        fresh = {env_id: action for env_id, action in by_id.items() if env_id not in self._sent}
        for env_id, action in fresh.items():
            self._episodes[env_id].env.prepare(action)
        for env_id, action in fresh.items():
            episode = self._episodes[env_id]
            submission = episode.submit(action)
            self._sent.add(env_id)
            if submission is not None and episode.is_anchor:
                self._executions.request(env_id, submission, episode.env.execute)
        self._predict()

    def recv(self, timeout: float | None = None) -> list[Received]:
        """The episodes that are ready: all that were sent ("lockstep"), or those there are, at least one ("async").

        Args:
            timeout: seconds to wait for executions; None waits as long as they take.

        Returns:
            One entry per episode, in ascending order of ``env_id``.

        Raises:
            ExecutorError: if executions failed too often in a row.
            TimeoutError: if executions took longer; what they will return can still be received later.
            WorldModelError: if the world model failed in `send`, and does so again.
            ValueError: if nothing was sent.
        """
        if not self._sent:
            raise ValueError("recv: nothing was sent; call send first")
        self._predict()
        ready = self._wait_for_ready(None if timeout is None else time.monotonic() + timeout)
        for env_id in ready:
            if self._is_executing(env_id):
                self._episodes[env_id].executed = self._executions.take(env_id)
        self._executions.start()
        self._executions.raise_if_failing()
        received = []
        for env_id in ready:
            self._sent.remove(env_id)
            step = self._episodes[env_id].advance(has_world_model=self.world_model is not None, proxy=self.proxy)
            received.append(Received(*step, env_id))
        return received

    def give_up(self, env_id: int, reason: str) -> dict[str, Any]:
        """End a running episode because its agent does not go on. What it achieved so far counts.

        Args:
            env_id: of the episode, which waits for nothing.
            reason: stands in the info as "gave_up".

        Returns:
            The last info of the episode; see `Episode.give_up`.

        Raises:
            ValueError: if an action of it was sent and not received.
        """
        if env_id in self._sent:
            raise ValueError(f"give_up: environment {env_id} still waits for what was sent: recv first")
        return self._episodes[env_id].give_up(reason, has_world_model=self.world_model is not None)

    def _unpredicted(self) -> list[Episode]:
        sent = [self._episodes[env_id] for env_id in sorted(self._sent)]
        return [e for e in sent if self.world_model is not None and e.submission is not None and e.predicted is None]

    def _predict(self) -> None:
        episodes = self._unpredicted()
        if self.world_model is not None and episodes:
            outcomes = predict_batch(self.world_model, [e.submission for e in episodes if e.submission is not None])
            for episode, outcome in zip(episodes, outcomes, strict=True):
                episode.predicted = outcome

    def _is_executing(self, env_id: int) -> bool:
        episode = self._episodes[env_id]
        return episode.is_anchor and episode.submission is not None and episode.executed is None

    def _wait_for_ready(self, deadline: float | None) -> list[int]:
        while True:
            running = [i for i in sorted(self._sent) if self._is_executing(i) and not self._executions.is_done(i)]
            ready = sorted(self._sent - set(running))
            if not running or (self.mode == "async" and ready):
                return ready
            try:
                self._executions.wait_for_one(running, deadline)
            except TimeoutError:
                tasks = [f"{i} ({s.task_id})" for i in running if (s := self._episodes[i].submission) is not None]
                raise TimeoutError(f"recv: no execution came back in time; waiting for {', '.join(tasks)}") from None

    # ---- Gymnasium's face: all environments in step ------------------------------------------------------------

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin an episode everywhere, or where ``options["reset_mask"]`` is true.

        With a proxy, each episode is drawn as an anchor or not by its environment and its number. Without, those of
        ``options["is_anchor"]`` (shape (num_envs,)) are. Other options go to the environments.
        """
        given = dict(options or {})
        env_ids = [int(i) for i in np.flatnonzero(given.pop("reset_mask", np.ones(self.num_envs, bool)))]
        marked = given.pop("is_anchor", None)
        seeds = [seed + i for i in range(self.num_envs)] if isinstance(seed, int) else seed
        anchors: list[bool] | None = None if marked is None else [bool(marked[i]) for i in env_ids]
        propensities = None
        for env_id in env_ids:
            self._episode_numbers[env_id] += 1
        if self.proxy is not None:
            draws = [self.proxy.anchors.draw_episode(self._episode_numbers[i], str(i)) for i in env_ids]
            anchors, propensities = [anchor for anchor, _ in draws], [propensity for _, propensity in draws]
        own_seeds = None if seeds is None else [seeds[i] for i in env_ids]
        begun = self._begin(env_ids, anchors, propensities, own_seeds, [given] * len(env_ids))
        infos: dict[str, Any] = {}
        for env_id, (observation, info) in zip(env_ids, begun, strict=True):
            self._observations[env_id] = observation
            infos = self._add_info(infos, info, env_id)
        return self._batch(), infos

    def step(
        self, actions: Any
    ) -> tuple[Any, NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]:
        """One action for every environment. Episodes that ended must be reset first (no automatic reset).

        After a `WorldModelError`, the same call tries again.
        """
        self.send(list(iterate(self.action_space, actions)), range(self.num_envs))
        rewards = np.zeros(self.num_envs)
        ended = np.zeros((2, self.num_envs), bool)
        infos: dict[str, Any] = {}
        while self._sent:
            for back in self.recv():
                env_id = back.env_id
                self._observations[env_id], rewards[env_id] = back.observation, back.reward
                ended[:, env_id] = back.terminated, back.truncated
                infos = self._add_info(infos, back.info, env_id)
                if self.proxy is not None and (back.terminated or back.truncated):
                    episode, number = self._episodes[env_id], self._episode_numbers[env_id]
                    episode.record(self.proxy, number, str(env_id), back.info)
        return self._batch(), rewards, ended[0], ended[1], infos

    def _batch(self) -> Any:
        empty: Any = create_empty_array(self.single_observation_space, self.num_envs)
        return concatenate(self.single_observation_space, self._observations, empty)

    def close_extras(self, **kwargs: Any) -> None:
        """Give up what waits and close the environments. The executor belongs to whoever made it."""
        for env_id, episode in enumerate(self._episodes):
            self._executions.discard(env_id)
            episode.env.close()
