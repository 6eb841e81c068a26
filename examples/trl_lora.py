"""A low-rank adapter of SmolLM2-135M trained by TRL, over two turns that our own rollout plays, on a plain CPU.

Run it with `python examples/trl_lora.py`, after `wmrl competitions prepare` and what docs/smollm2.md installs; a number
of steps and of tokens in an answer may follow.
"""

import sys

import gymnasium as gym
from datasets import Dataset
from trl import GRPOConfig, GRPOTrainer

from wmrl_gym import RandomAnchors, RewardProxy, RewardProxyVectorEnv
from wmrl_gym.integrations import TRLRollout
from wmrl_gym.policies import load_smollm2
from wmrl_gym.world_models import StaticAnalysis

steps, tokens = [int(word) for word in sys.argv[1:]] or (4, 320)
tasks = ["titanic_survival", "diabetes_progression"]
make = {"id": "wmrl/MLEDojo-v0", "competition": tasks, "max_turns": 2, "overview_style": "compact"}
environments = RewardProxyVectorEnv([lambda: gym.make(**make)] * 4, StaticAnalysis(feedback_style="compact"))
policy = load_smollm2(max_new_tokens=tokens, lora_rank=8)
proxy = RewardProxy(RandomAnchors(0.25))
rollout = TRLRollout(policy, environments, proxy, reset_options=lambda task: {"competition": task})
settings = GRPOConfig(
    "trl_lora", scale_rewards="none", num_generations=2, per_device_train_batch_size=2, gradient_accumulation_steps=2,
    max_steps=steps, learning_rate=1e-4, bf16=False, logging_steps=1, report_to=[], use_cpu=True,
)  # fmt: skip
parts = {"processing_class": policy.tokenizer, "rollout_func": rollout}
trainer = GRPOTrainer(policy.model, rollout.reward, settings, Dataset.from_dict({"prompt": tasks}), **parts)
rollout.attach(trainer).train()
for step in trainer.state.log_history[:-1]:
    print(f"step {step['step']}: reward {step['wmrl/reward']:.3f}, executed {step['wmrl/executed_share']:.0%}")
