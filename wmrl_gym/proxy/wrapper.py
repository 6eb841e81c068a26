"""A Gymnasium wrapper that answers most steps of one environment with a prediction."""

from __future__ import annotations

from typing import Any

import gymnasium as gym

from wmrl_gym.core import Executor, Outcome, Trajectory, WorldModel
from wmrl_gym.proxy.prediction import predict_batch
from wmrl_gym.proxy.reward_proxy import RewardProxy
from wmrl_gym.proxy.vector_env import expensive_env, unknown_outcome


class RewardProxyWrapper(gym.Wrapper[Any, Any, Any, Any], gym.utils.RecordConstructorArgs):
    """Each episode is either an anchor, really executed as well as predicted, or predicted alone.

    In a predicted episode the reward comes from the calibrated score. In an anchor the environment is told the truth,
    and at its end the pair of scores goes to the proxy. Which episodes are anchors depends on the proxy's seed and the
    episode's number alone. Wrappers between this one and the environment do not see the steps: put it innermost.

    Args:
        env: an environment whose innermost is an `ExpensiveRewardEnv`.
        proxy: anchoring and debiasing (a single episode has no group to fuse).
        world_model: predicts outcomes.
        executor: executes anchors; None calls the environment's own `execute`.
    """

    def __init__(
        self,
        env: gym.Env[Any, Any],
        proxy: RewardProxy,
        world_model: WorldModel,
        executor: Executor | None = None,
    ) -> None:
        gym.utils.RecordConstructorArgs.__init__(self, proxy=proxy, world_model=world_model, executor=executor)
        gym.Wrapper.__init__(self, env)
        self._inner = expensive_env(env)
        self.proxy, self.world_model, self.executor = proxy, world_model, executor
        self.episode = -1
        self.is_anchor = False

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode and decide whether it is an anchor."""
        self.episode += 1
        self.is_anchor, self._propensity = self.proxy.anchors.draw_episode(self.episode, "episode")
        self._predicted: list[float | None] = []
        self._executed: list[float | None] = []
        observation, info = self.env.reset(seed=seed, options=options)
        return observation, {**info, "is_anchor": self.is_anchor}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Submit, predict (and execute, in an anchor), advance."""
        submission = self._inner.submit(action)
        predicted = executed = told = None
        if submission is not None:
            predicted = predict_batch(self.world_model, [submission])[0]
            told = self._calibrated(predicted)
            if self.is_anchor:
                executed = self._execute(submission)
                told = executed if executed.score is not None else predicted
        observation, reward, terminated, truncated, info = self._inner.advance(told)
        self._note(submission is not None, predicted, executed, info.get("outcome"))
        if (terminated or truncated) and self.is_anchor:
            scores = (self._inner.episode_score(scores) for scores in (self._predicted, self._executed))
            self.proxy.record_episode(self.episode, "episode", Trajectory((), *scores), self._propensity)
        info = {**info, "is_anchor": self.is_anchor, "predicted": predicted, "executed": executed}
        return observation, reward, terminated, truncated, info

    def _calibrated(self, predicted: Outcome) -> Outcome:
        score = self.proxy.calibrate(predicted.score)
        return Outcome(
            score, predicted.status, predicted.feedback, predicted.source, predicted.seconds, predicted.details
        )

    def _execute(self, submission: Any) -> Outcome:
        try:
            if self.executor is not None:
                return self.executor.submit(submission).result()
            return self._inner.execute(submission)
        except Exception as error:
            return unknown_outcome(error)

    def _note(self, submitted: bool, predicted: Outcome | None, executed: Outcome | None, own: Outcome | None) -> None:
        if submitted:
            self._predicted.append(None if predicted is None else predicted.score)
            self._executed.append(None if executed is None else executed.score)
        elif own is not None:
            self._predicted.append(own.score)
            self._executed.append(own.score)
