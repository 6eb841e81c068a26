"""The nano agent trained by TRL's GRPOTrainer on a plain CPU; three in four groups are scored without execution.

Run it with `python examples/trl_grpo.py` after `wmrl competitions prepare`; a number of steps may follow.
"""

import sys

import gymnasium as gym
from datasets import Dataset
from trl import GRPOConfig, GRPOTrainer

from wmrl_gym import IsotonicDebiaser, RandomAnchors, RewardProxy
from wmrl_gym.execution import LocalExecutor
from wmrl_gym.integrations import OneTurn, TRLReward
from wmrl_gym.policies import load_nano_agent
from wmrl_gym.world_models import StaticAnalysis

TASKS = ["titanic_survival", "diabetes_progression"]
env = gym.make("wmrl/MLEDojo-v0", competition=TASKS, max_turns=1, overview_style="compact", sandbox_start="warm")
one_turn = OneTurn(env)
proxy = RewardProxy(RandomAnchors(0.25), IsotonicDebiaser(min_pairs=16))
reward = TRLReward(proxy, StaticAnalysis(), one_turn, LocalExecutor(one_turn.execute, max_workers=2))
agent = load_nano_agent()
settings = GRPOConfig(
    "trl_grpo", scale_rewards="none", num_generations=4, per_device_train_batch_size=4, gradient_accumulation_steps=4,
    max_completion_length=160, max_steps=int(sys.argv[1]) if sys.argv[1:] else 20, learning_rate=1e-4, bf16=False,
    logging_steps=1, report_to=[], use_cpu=True,
)  # fmt: skip
data = Dataset.from_list(one_turn.rows([{"competition": task} for task in TASKS]) * 8)
trainer = reward.attach(GRPOTrainer(agent.model, reward, settings, data, processing_class=agent.tokenizer))
trainer.train()
for step in trainer.state.log_history[:-1]:
    print(f"step {step['step']}: reward {step['wmrl/reward']:.3f}, executed {step['wmrl/executed_share']:.0%}")
