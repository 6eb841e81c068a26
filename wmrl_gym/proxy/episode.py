"""One episode of an `ExpensiveRewardEnv` whose outcomes come from a world model, from execution, or from both."""

from __future__ import annotations

import dataclasses
from typing import Any

import gymnasium as gym
from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker

from wmrl_gym.core import ExpensiveRewardEnv, Outcome, Submission
from wmrl_gym.proxy.reward_proxy import RewardProxy

Step = tuple[Any, float, bool, bool, dict[str, Any]]


def expensive_env(env: gym.Env[Any, Any]) -> ExpensiveRewardEnv[Any, Any]:
    """The `ExpensiveRewardEnv` inside an environment, past the checks that `gymnasium.make` wraps around it.

    Raises:
        TypeError: if there is none, or if another wrapper stands between: it would never see a step.
    """
    inner = env.unwrapped
    if not isinstance(inner, ExpensiveRewardEnv):
        raise TypeError(
            f"{type(inner).__name__} is not an ExpensiveRewardEnv: derive it from wmrl_gym.ExpensiveRewardEnv and "
            "write submit, execute and advance"
        )
    while env is not inner:
        if not isinstance(env, OrderEnforcing | PassiveEnvChecker):
            raise TypeError(
                f"wrapper {type(env).__name__} would be skipped: the proxy drives {type(inner).__name__} by submit and "
                "advance, not by step. Put that wrapper around the proxy instead."
            )
        env = env.env  # type: ignore[attr-defined]
    return inner


@dataclasses.dataclass
class Episode:
    """An episode being played: submit, let `predicted` and `executed` be filled in, advance."""

    env: ExpensiveRewardEnv[Any, Any]
    is_anchor: bool = False
    """Whether submissions are really executed."""
    propensity: float = 0.0
    over: bool = True
    submission: Submission | None = None
    predicted: Outcome | None = None
    executed: Outcome | None = None
    status: str = ""
    """Status of the last execution."""
    seconds: float = 0.0
    """Seconds of execution so far."""
    _predicted_scores: list[float | None] = dataclasses.field(default_factory=list)
    _executed_scores: list[float | None] = dataclasses.field(default_factory=list)

    def begin(self, *, is_anchor: bool, propensity: float) -> None:
        """Forget the episode before; the caller resets the environment."""
        self.is_anchor, self.propensity, self.over = is_anchor, propensity, False
        self.submission = self.predicted = self.executed = None
        self.status, self.seconds = "", 0.0
        self._predicted_scores, self._executed_scores = [], []

    def submit(self, action: Any) -> Submission | None:
        """Take an action; what it hands in, if anything, waits for its outcomes."""
        self.submission = self.env.submit(action)
        self.predicted = self.executed = None
        return self.submission

    def advance(self, *, has_world_model: bool, proxy: RewardProxy | None = None) -> Step:
        """Tell the environment the truth where it is known, else the prediction.

        A failed execution does not end the episode if there is a prediction to go on with, but leaves its executed
        score unknown. If there is none, the episode is truncated.

        Args:
            has_world_model: whether there are predictions; if not, the episode has no predicted score.
            proxy: calibrates what is told of a prediction; None tells it as it is.

        Returns:
            What the environment's `advance` returned, and in the info also "submission", "predicted", "executed",
            "outcome" (what was told, or what the environment scored by itself), "is_anchor", and at the end of an
            episode "predicted_score" and "executed_score".
        """
        predicted, executed = self.predicted, self.executed
        if predicted is not None and proxy is not None:
            predicted = dataclasses.replace(predicted, score=proxy.calibrate(predicted.score))
        is_lost = predicted is None and executed is not None and executed.score is None
        told = predicted if executed is None or (executed.score is None and not is_lost) else executed
        observation, reward, terminated, truncated, info = self.env.advance(told)
        own = info.get("outcome") if self.submission is None else None
        self._note_scores(own)
        info = {**info, "is_anchor": self.is_anchor, "submission": self.submission}
        info |= {"predicted": self.predicted, "executed": executed, "outcome": own if self.submission is None else told}
        self.over = bool(terminated or truncated or is_lost)
        if self.over:
            info |= self._episode_scores(has_world_model)
        self.submission = self.predicted = self.executed = None
        return observation, float(reward), bool(terminated), bool(truncated or is_lost), info

    def give_up(self, reason: str, *, has_world_model: bool) -> dict[str, Any]:
        """End the episode because the agent does not go on; what was achieved so far counts.

        Returns:
            The info: "gave_up" (the reason), "is_anchor", "predicted_score", "executed_score".
        """
        self.over = True
        return {"gave_up": reason, "is_anchor": self.is_anchor, **self._episode_scores(has_world_model)}

    def _episode_scores(self, has_world_model: bool) -> dict[str, float | None]:
        return {
            "predicted_score": self.env.episode_score(self._predicted_scores) if has_world_model else None,
            "executed_score": self.env.episode_score(self._executed_scores) if self.is_anchor else None,
        }

    def _note_scores(self, own: Outcome | None) -> None:
        if self.submission is not None:
            self._predicted_scores.append(None if self.predicted is None else self.predicted.score)
            self._executed_scores.append(None if self.executed is None else self.executed.score)
        elif own is not None:
            # What the environment scored by itself is known to both streams.
            self._predicted_scores.append(own.score)
            self._executed_scores.append(own.score)
        if self.executed is not None:
            self.status = str(self.executed.status)
            self.seconds += self.executed.seconds

    def record(self, proxy: RewardProxy, step: int, key: str, info: dict[str, Any]) -> None:
        """Give a finished episode to the proxy, to count and to learn from."""
        proxy.record_episode(
            step,
            key,
            predicted=info["predicted_score"],
            executed=info["executed_score"],
            is_anchor=self.is_anchor,
            propensity=self.propensity,
            status=self.status,
            seconds=self.seconds,
        )
