"""Scoring finished trajectories with this library's environments, world models and executors."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from wmrl_gym.core import Executor, ExpensiveRewardEnv, Outcome, Submission, WorldModel
from wmrl_gym.proxy.anchor_execution import unknown_outcome
from wmrl_gym.proxy.episode import Episode
from wmrl_gym.proxy.prediction import predict_batch


@dataclass(frozen=True)
class FinishedTrajectory:
    """What a reward manager is given to score."""

    answer: str
    """The text that the policy produced."""
    data_source: str
    """verl's name for where the prompt comes from."""
    extra_info: Mapping[str, Any]
    """What the data set says of the prompt."""
    ground_truth: Any = None
    """verl's ``reward_model.ground_truth``, if the data set has one."""


class TrajectoryScorer(Protocol):
    """Scores one trajectory; also as an ``async`` function."""

    def __call__(self, trajectory: FinishedTrajectory, execute: bool, /) -> tuple[float | None, float | None]:
        """The scores (predicted, executed); None is unknown. The executed one is read only where `execute` is true."""
        ...


class EnvironmentScorer:
    """Plays an answer as the only action of an episode: predicted always, executed if it is an anchor.

    Safe to call from many threads: each plays an environment of its own, and what waits to be predicted is predicted
    in one batch.

    Args:
        environment: makes an `ExpensiveRewardEnv` for one task; called with ``option=task``.
        world_model: predicts outcomes.
        executor: executes anchors; None calls the environment's own `execute`, ``max_executions`` at a time.
        option: the environment's argument that takes a task's name, and the key of ``extra_info`` that holds it.
        max_executions: how many anchors this process executes at the same time without an executor.
    """

    def __init__(
        self,
        environment: Callable[..., ExpensiveRewardEnv[Any, Any]],
        world_model: WorldModel,
        executor: Executor | None = None,
        option: str = "competition",
        max_executions: int = 3,
    ) -> None:
        if max_executions < 1:
            raise ValueError(f"EnvironmentScorer(max_executions={max_executions}): give at least 1")
        self.environment, self.executor, self.option = environment, executor, option
        self._predictions = _Predictions(world_model)
        self._room = threading.BoundedSemaphore(max_executions)
        self._idle: dict[str, list[ExpensiveRewardEnv[Any, Any]]] = defaultdict(list)
        self._lock = threading.Lock()

    def __call__(self, trajectory: FinishedTrajectory, execute: bool, /) -> tuple[float | None, float | None]:
        """Play the answer.

        Raises:
            ValueError: if the data set does not say which task the prompt is of.
            WorldModelError: if the world model fails as a whole.
        """
        task = trajectory.extra_info.get(self.option)
        if not isinstance(task, str) or not task:
            raise ValueError(
                f"extra_info[{self.option!r}] of a prompt from {trajectory.data_source!r} is {task!r}: let the data "
                "set name the task there"
            )
        with self._borrowed(task) as environment:
            return self._play(environment, trajectory.answer, execute)

    def _play(
        self, environment: ExpensiveRewardEnv[Any, Any], answer: str, execute: bool
    ) -> tuple[float | None, float | None]:
        environment.reset(seed=0)
        episode = Episode(environment)
        episode.begin(is_anchor=execute, propensity=1.0)
        submission = episode.submit(answer)
        if submission is not None:
            execution = self._execute(environment, submission) if execute else None
            episode.predicted = self._predictions.predict(submission)
            episode.executed = None if execution is None else _outcome(execution)
        info = episode.advance(has_world_model=True)[-1]
        if not episode.over:
            info = episode.give_up("the answer has ended", has_world_model=True)
        return info["predicted_score"], info["executed_score"]

    def _execute(self, environment: ExpensiveRewardEnv[Any, Any], submission: Submission) -> Future[Outcome]:
        """Begin with an executor; without one, execute here and now."""
        future: Future[Outcome] = Future()
        try:
            if self.executor is not None:
                return self.executor.submit(submission)
            with self._room:
                future.set_result(environment.execute(submission))
        except Exception as error:
            future.set_result(unknown_outcome(error))
        return future

    @contextmanager
    def _borrowed(self, task: str) -> Iterator[ExpensiveRewardEnv[Any, Any]]:
        with self._lock:
            environment = self._idle[task].pop() if self._idle[task] else None
        if environment is None:
            environment = self.environment(**{self.option: task})
            environment.preflight()
        yield environment
        # One that raised is not used again: nobody knows what state it is in.
        with self._lock:
            self._idle[task].append(environment)


class _Predictions:
    """Whoever comes while the world model is busy waits, and is answered in one batch with all others that wait."""

    def __init__(self, world_model: WorldModel) -> None:
        self._world_model = world_model
        self._waiting: list[tuple[Submission, Future[Outcome]]] = []
        self._lock, self._turn = threading.Lock(), threading.Lock()

    def predict(self, submission: Submission) -> Outcome:
        future: Future[Outcome] = Future()
        with self._lock:
            self._waiting.append((submission, future))
        with self._turn:
            if not future.done():
                self._serve()
        return future.result()

    def _serve(self) -> None:
        with self._lock:
            batch, self._waiting = self._waiting, []
        try:
            outcomes = predict_batch(self._world_model, [submission for submission, _ in batch])
        except Exception as error:
            for _, future in batch:
                future.set_exception(error)
            return
        for (_, future), outcome in zip(batch, outcomes, strict=True):
            future.set_result(outcome)


def _outcome(execution: Future[Outcome]) -> Outcome:
    try:
        return execution.result()
    except Exception as error:
        return unknown_outcome(error)
