"""A small real domain: guess a secret number in a few turns, and scorers for it that fail in chosen ways."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any

import gymnasium as gym
import numpy as np

from wmrl_gym.core import ExpensiveRewardEnv, Group, Outcome, Submission, Trajectory

PASS = 100
"""The action that hands in nothing: the environment itself scores it 0."""
LOOK = 101
"""The action that hands in nothing and is not scored."""


class GuessEnv(ExpensiveRewardEnv[Any, Any]):
    """Observe whether the last guess was too high or too low; a guess scores 1 minus its distance in hundredths."""

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012

    def __init__(self, turns: int = 2, secret: int | None = None) -> None:
        self.turns, self.fixed = turns, secret
        self.observation_space = gym.spaces.Box(-1.0, 2.0, (2,), np.float64)
        self.action_space = gym.spaces.Discrete(102)
        self.secret, self.turn, self.n_submits, self.n_executions = 50, 0, 0, 0
        self.told: list[Outcome | None] = []

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        drawn = int(self.np_random.integers(0, 100))
        self.secret = (options or {}).get("secret", self.fixed if self.fixed is not None else drawn)
        self.turn, self.told = 0, []
        return np.zeros(2), {"secret": self.secret}

    def submit(self, action: Any) -> Submission | None:
        self.n_submits += 1
        self.action = int(action)
        return None if self.action in (PASS, LOOK) else Submission("guess", self.action, {"secret": self.secret})

    def execute(self, submission: Submission) -> Outcome:
        self.n_executions += 1
        return truth(submission)

    def advance(self, outcome: Outcome | None) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.turn += 1
        self.told.append(outcome)
        info: dict[str, Any] = {"turn": self.turn}
        if self.action == PASS:
            outcome = info["outcome"] = Outcome(0.0, "passed", source="environment")
        score = None if outcome is None else outcome.score
        reward = 0.0 if outcome is None else float("nan") if score is None else score
        observation = np.array([np.sign(self.secret - self.action), -1.0 if score is None else np.clip(score, 0, 2)])
        return observation, reward, self.turn >= self.turns, False, info


def truth(submission: Submission) -> Outcome:
    return Outcome(1 - abs(submission.content - submission.context["secret"]) / 100, "guessed", seconds=0.5)


class HalvingModel:
    """Right about the order, wrong about the level: half the true score. Remembers its batches."""

    def __init__(self) -> None:
        self.batches: list[list[Submission]] = []

    def predict(self, submissions: Sequence[Submission]) -> list[Outcome]:
        self.batches.append(list(submissions))
        return [Outcome((truth(s).score or 0.0) / 2, "guessed", source="world_model") for s in submissions]


class ThreadExecutor:
    """Executes in threads, each waiting for `release` of its submission's content if `gated`."""

    capacity = 4

    def __init__(self, execute: Callable[[Submission], Outcome] = truth, gated: bool = False) -> None:
        self.execute, self.gated = execute, gated
        self.running, self.most_running, self.started = 0, 0, []
        self._gates: dict[Any, threading.Event] = {}
        self._lock = threading.Lock()

    def release(self, content: Any) -> None:
        self._gate(content).set()

    def _gate(self, content: Any) -> threading.Event:
        with self._lock:
            return self._gates.setdefault(content, threading.Event())

    def submit(self, submission: Submission) -> Future[Outcome]:
        future: Future[Outcome] = Future()
        with self._lock:
            self.running += 1
            self.most_running = max(self.most_running, self.running)
            self.started.append(submission.content)
        threading.Thread(target=self._run, args=(submission, future), daemon=True).start()
        return future

    def _run(self, submission: Submission, future: Future[Outcome]) -> None:
        if self.gated and not self._gate(submission.content).wait(10):
            raise AssertionError("a test forgot to release an execution")
        with self._lock:
            self.running -= 1
        try:
            future.set_result(self.execute(submission))
        except Exception as error:
            future.set_exception(error)

    def close(self) -> None:
        pass


def group(
    key: str,
    predicted: Sequence[float | None],
    executed: Sequence[float | None] | None = None,
    propensity: float = 0.1,
) -> Group:
    """A group of bare scores; an anchor if ``executed`` is given."""
    truths = [None] * len(predicted) if executed is None else executed
    trajectories = tuple(Trajectory((), p, e) for p, e in zip(predicted, truths, strict=True))
    return Group(key, key, executed is not None, propensity, trajectories)
