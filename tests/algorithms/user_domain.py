"""What a user writes: a domain (three methods and `reset`), its registration, and training on it."""

import gymnasium as gym

from wmrl_gym import ExpensiveRewardEnv, Outcome, RandomAnchors, RewardProxy, RewardProxyVectorEnv, Submission
from wmrl_gym.algorithms.wmrl_grpo import WMRLGRPO, WMRLGRPOSettings


class Vowels(ExpensiveRewardEnv):
    observation_space = action_space = gym.spaces.Text(1000)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return "vowels", {}

    def submit(self, action):
        return Submission("vowels", action)

    def execute(self, submission):
        return Outcome(sum(map(submission.content.count, "aeiou")) / max(1, len(submission.content)), "measured")

    def advance(self, outcome):
        return "done", outcome.score, True, False, {}


gym.register("mine/Vowels-v0", Vowels)


def train(policy, world_model, on_step, **settings):
    environments = RewardProxyVectorEnv([lambda: gym.make("mine/Vowels-v0")] * 64, world_model)
    proxy, settings = RewardProxy(RandomAnchors(0.25)), WMRLGRPOSettings(**settings)
    WMRLGRPO(policy, environments, ["vowels"], proxy, settings, on_step=on_step).train()
