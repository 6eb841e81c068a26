"""A Gymnasium wrapper that answers most episodes of one environment with predictions."""

from __future__ import annotations

from typing import Any

import gymnasium as gym

from wmrl_gym.core import Executor, WorldModel
from wmrl_gym.proxy.anchor_execution import AnchorExecutions
from wmrl_gym.proxy.episode import Episode, expensive_env
from wmrl_gym.proxy.prediction import predict_batch
from wmrl_gym.proxy.reward_proxy import RewardProxy


class RewardProxyWrapper(gym.Wrapper[Any, Any, Any, Any], gym.utils.RecordConstructorArgs):
    """Each episode is either an anchor, really executed as well as predicted, or predicted alone.

    In a predicted episode the reward comes from the calibrated score. In an anchor the environment is told the truth,
    and at its end the pair of scores goes to the proxy. Which episodes are anchors depends on the proxy's seed and the
    episode's number alone. Other wrappers go around this one: inside, they would see no step.

    Args:
        env: an `ExpensiveRewardEnv`, as `gymnasium.make` returns it.
        proxy: anchoring and debiasing (a single episode has no group to fuse).
        world_model: predicts outcomes.
        executor: executes anchors; None calls the environment's own `execute`.
        max_consecutive_failures: unknown executions in a row after which `ExecutorError` stops the run.
    """

    def __init__(
        self,
        env: gym.Env[Any, Any],
        proxy: RewardProxy,
        world_model: WorldModel,
        executor: Executor | None = None,
        max_consecutive_failures: int = 16,
    ) -> None:
        gym.utils.RecordConstructorArgs.__init__(
            self,
            _disable_deepcopy=True,  # the proxy is shared, and executors cannot be copied
            proxy=proxy,
            world_model=world_model,
            executor=executor,
            max_consecutive_failures=max_consecutive_failures,
        )
        gym.Wrapper.__init__(self, env)
        self.proxy, self.world_model = proxy, world_model
        self.episode_number = -1
        self._episode = Episode(expensive_env(env))
        self._executions = AnchorExecutions(executor, max_consecutive_failures=max_consecutive_failures, share=False)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode and decide whether it is an anchor."""
        observation, info = self.env.reset(seed=seed, options=options)
        self.episode_number += 1
        is_anchor, propensity = self.proxy.anchors.draw_episode(self.episode_number, "episode")
        self._episode.begin(is_anchor=is_anchor, propensity=propensity)
        self._executions.discard(0)
        return observation, {**info, "is_anchor": is_anchor}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Submit, predict (and execute, in an anchor), advance.

        Returns:
            Gymnasium's five; for the info see `Episode.advance`.

        Raises:
            WorldModelError: if the world model fails.
            ExecutorError: if executions failed too often in a row.
            gymnasium.error.ResetNeeded: if the episode has not begun.
        """
        episode = self._episode
        if episode.over:
            raise gym.error.ResetNeeded("RewardProxyWrapper: the episode has ended or not begun; call reset first")
        # A submission that is still here waits for a world model that failed: its action stands.
        submission = episode.submission or episode.submit(action)
        if submission is not None:
            episode.predicted = predict_batch(self.world_model, [submission])[0]
            if episode.is_anchor and episode.executed is None:
                self._executions.request(0, submission, episode.env.execute)
                self._executions.wait_for_one([0])
                episode.executed = self._executions.take(0)
            self._executions.raise_if_failing()
        step = episode.advance(has_world_model=True, proxy=self.proxy)
        if episode.over:
            episode.record(self.proxy, self.episode_number, "episode", step[-1])
        return step
