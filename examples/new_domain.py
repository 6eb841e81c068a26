"""A new domain in 30 lines of code: write short lines. Measuring is slow (a pause), a look at the first line is not."""

import time

import gymnasium as gym

from wmrl_gym import ExpensiveRewardEnv, Outcome, RandomAnchors, RewardProxy, RewardProxyVectorEnv, Submission
from wmrl_gym.algorithms import WMRLGRPO, WMRLGRPOSettings
from wmrl_gym.envs import UnicodeText
from wmrl_gym.policies import load_nano_agent


def score(lines: list[str]) -> Outcome:
    return Outcome(score=1 / (1 + max((len(line) for line in lines), default=100) / 20), status="measured")


class ShortLines(ExpensiveRewardEnv[str, str]):
    observation_space = action_space = UnicodeText(10_000)

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[str, dict]:
        super().reset(seed=seed)
        return "write", {}

    def submit(self, action: str) -> Submission:
        return Submission("short_lines", action)

    def execute(self, submission: Submission) -> Outcome:
        time.sleep(0.01)
        return score(submission.content.splitlines())

    def advance(self, outcome: Outcome) -> tuple[str, float, bool, bool, dict]:
        return "", outcome.score, True, False, {}


class FirstLine:
    def predict(self, submissions: list[Submission]) -> list[Outcome]:
        return [score(submission.content.splitlines()[:1]) for submission in submissions]


gym.register(id="mine/ShortLines-v0", entry_point=ShortLines)
settings = WMRLGRPOSettings(steps=3, groups_per_step=4, group_size=4, learning_rate=1e-4)
environments = RewardProxyVectorEnv([lambda: gym.make("mine/ShortLines-v0")] * 16, FirstLine())
proxy = RewardProxy(RandomAnchors(0.25))
trainer = WMRLGRPO(load_nano_agent(max_new_tokens=40), environments, ["short_lines"], proxy, settings)
trainer.on_step = lambda step, metrics: print(f"step {step}: reward {metrics['reward']:.3f}")
trainer.train()
