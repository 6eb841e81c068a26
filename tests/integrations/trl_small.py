"""A small world for tests inside TRL: a fast domain, a tiny untrained model, and a trainer that shows its advantages.

Run as a program it trains on several processes: see `main`.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any, ClassVar

import torch
from datasets import Dataset
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM
from trl import GRPOConfig, GRPOTrainer

from wmrl_gym import ExpensiveRewardEnv, Outcome, RewardProxyVectorEnv, Submission
from wmrl_gym.algorithms import group_advantages
from wmrl_gym.core import fingerprint
from wmrl_gym.envs import UnicodeText
from wmrl_gym.execution import LocalExecutor
from wmrl_gym.integrations import GroupScoring, OneTurn, TRLReward, TRLRollout
from wmrl_gym.policies import CausalLMPolicy
from wmrl_gym.policies.nano import NANO_DIRECTORY
from wmrl_gym.proxy import InverseVarianceFusion, IsotonicDebiaser, RandomAnchors, RewardProxy

TASKS = ["red", "green", "blue"]
N = 4
LOST = 0.4
"""Share of executions that give no score."""


def number(*parts: Any) -> float:
    """Between 0 and 1, the same for the same parts everywhere."""
    return int(fingerprint([str(part) for part in parts])[:8], 16) / 2**32


def true_score(submission: Submission) -> float | None:
    if number("lost", submission.key) < LOST:
        return None
    return round(number("truth", submission.key), 3)


class Words(ExpensiveRewardEnv[str, str]):
    """Say something about a colour, in up to ``turns`` turns. Every text is worth something else."""

    observation_space = action_space = UnicodeText(10_000)
    executed: ClassVar[list[str]] = []

    def __init__(self, turns: int = 1) -> None:
        self.turns = turns

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        self.task, self.turn, self.action = (options or {}).get("task", "none"), 0, ""
        return f"say {self.task}", {}

    def broken_reset(self, **given: Any) -> Any:
        raise OSError("no colours today")

    def submit(self, action: str) -> Submission | None:
        self.action = action
        return None if len(action) < 3 else Submission(self.task, action)

    def execute(self, submission: Submission) -> Outcome:
        Words.executed.append(submission.content)
        score = true_score(submission)
        if score is None:
            raise OSError("the line is dead")
        return Outcome(score, "valid")

    def advance(self, outcome: Outcome | None) -> tuple[str, float, bool, bool, dict[str, Any]]:
        self.turn += 1
        info = {} if outcome is not None else {"outcome": Outcome(0.0, "too_short", source="environment")}
        score = 0.0 if outcome is None else outcome.score
        return "again", float("nan") if score is None else score, self.turn >= self.turns, False, info


class Guess:
    """Near the truth, and with a memory: it counts what it was asked."""

    def __init__(self) -> None:
        self.asked = 0

    def predict(self, submissions: list[Submission]) -> list[Outcome]:
        self.asked += len(submissions)
        return [Outcome(self.guess(submission), "guessed") for submission in submissions]

    @staticmethod
    def guess(submission: Submission) -> float | None:
        error = number("error", submission.key)
        return None if error > 0.95 else number("truth", submission.key) ** 2 * 0.7 + 0.3 * error

    def state_dict(self) -> dict[str, Any]:
        return {"asked": self.asked}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.asked = state["asked"]


def proxy() -> RewardProxy:
    return RewardProxy(
        RandomAnchors(0.4), IsotonicDebiaser(min_pairs=8, refit_every=4), InverseVarianceFusion(warmup=1)
    )


def tokenizer() -> Any:
    return AutoTokenizer.from_pretrained(NANO_DIRECTORY)


def tiny_llama(seed: int = 0) -> Any:
    words = tokenizer()
    torch.manual_seed(seed)
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(words), hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2,
            num_key_value_heads=1, eos_token_id=words.eos_token_id, pad_token_id=words.pad_token_id, bos_token_id=None,
        )
    )  # fmt: skip


def settings(folder: Path | str, **changes: Any) -> GRPOConfig:
    values: dict[str, Any] = {
        "output_dir": str(folder),
        "per_device_train_batch_size": 4,
        "gradient_accumulation_steps": 4,
        "num_generations": N,
        "max_completion_length": 6,
        "max_steps": 3,
        "scale_rewards": "none",
        "loss_type": "grpo",
        "learning_rate": 1e-2,
        "use_cpu": True,
        "report_to": [],
        "logging_steps": 1,
        "save_strategy": "no",
        "bf16": False,
        "disable_tqdm": True,
        "ddp_backend": "gloo" if "WORLD_SIZE" in os.environ else None,
    }
    return GRPOConfig(**{**values, **changes})


class Watched(GRPOTrainer):
    """Remembers what it trains on."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.seen: list[dict[str, Any]] = []
        self.seen_in_evaluation: list[dict[str, Any]] = []

    def _generate_and_score_completions(self, inputs: Any) -> Any:
        training = self.model.training
        output = super()._generate_and_score_completions(inputs)
        assert self.model.training == training
        (self.seen if training else self.seen_in_evaluation).append(dict(output))
        return output

    @property
    def advantages(self) -> list[list[float]]:
        return [batch["advantages"].tolist() for batch in self.seen]


class Kept(list):
    """Remembers all (prompt, completion) that were handed in, batch by batch, then hands them in."""

    def __init__(self, inner: Any) -> None:
        super().__init__()
        self.inner = inner
        self.execute = inner.execute

    def __call__(self, prompt: Any, completion: Any, row: Any) -> Any:
        given = self.inner(prompt, completion, row)
        self.append(given)
        return given


def one_turn(
    folder: Path | str, *, normalise_by_std: bool = False, model: Any = None, chat: bool = True,
    evaluation: Any = "executed", rows: int = 4, world_model: Any = None, **changes: Any,
) -> tuple[Watched, TRLReward]:  # fmt: skip
    hand_in = OneTurn(Words())
    data = Dataset.from_list(hand_in.rows([{"task": task} for task in TASKS], chat=chat) * rows)
    reward = TRLReward(
        GroupScoring(proxy(), normalise_by_std=normalise_by_std),
        world_model or Guess(),
        Kept(hand_in),
        LocalExecutor(hand_in.execute, 2),
        evaluation=evaluation,
    )
    trainer = Watched(
        model=model or tiny_llama(), reward_funcs=reward, args=settings(folder, **changes), train_dataset=data,
        eval_dataset=data.select(range(2)), processing_class=tokenizer(),
    )  # fmt: skip
    return reward.attach(trainer), reward


def several_turns(
    folder: Path | str, *, normalise_by_std: bool = False, policy: Any = None, n_environments: int = 16, turns: int = 2,
    evaluation: Any = "executed", **changes: Any,
) -> tuple[Watched, TRLRollout]:  # fmt: skip
    policy = policy or CausalLMPolicy(tiny_llama(), tokenizer(), max_new_tokens=5)
    words = Words(turns)
    vector_env = RewardProxyVectorEnv([lambda: Words(turns)] * n_environments, Guess(), LocalExecutor(words.execute, 2))
    rollout = TRLRollout(
        policy, vector_env, GroupScoring(proxy(), normalise_by_std=normalise_by_std),
        reset_options=lambda task: {"task": task}, evaluation=evaluation,
    )  # fmt: skip
    data = Dataset.from_dict({"prompt": TASKS * 4})
    trainer = Watched(
        model=policy.model, reward_funcs=rollout.reward, args=settings(folder, **changes), train_dataset=data,
        eval_dataset=data.select(range(2)), processing_class=policy.tokenizer, rollout_func=rollout,
    )  # fmt: skip
    return rollout.attach(trainer), rollout


def oracle(handed_in: list[Any], steps: int, normalise_by_std: bool = False) -> list[list[float]]:
    """What a proxy of its own makes of what was handed in, step by step; 0 where nothing is known, as TRL has it."""
    judge, per_step = proxy(), len(handed_in) // steps
    expected = []
    for step in range(steps):
        batch = handed_in[step * per_step : (step + 1) * per_step]
        groups = [batch[start : start + N] for start in range(0, per_step, N)]
        keys = [str(g) for g in range(len(groups))]
        draw = judge.draw(step, keys)
        scored = judge.score_arrays(
            step, keys, draw.is_anchor,
            [[Guess.guess(s) if isinstance(s, Submission) else s.score for s in group] for group in groups],
            [[true_score(s) if isinstance(s, Submission) else s.score for s in group] for group in groups],
            draw.propensity,
        )  # fmt: skip
        expected.append(values(scored, normalise_by_std))
    return expected


def values(scored: Any, normalise_by_std: bool = False) -> list[float]:
    """Group weight times advantage, in the order of the episodes."""
    flat = []
    for rewards, weight in zip(scored.rewards, scored.weights, strict=True):
        advantages = group_advantages(rewards, normalise_by_std=normalise_by_std)
        flat += [0.0 if a is None else float(weight) * a for a in advantages]
    return flat


def main(folder: str, jobs: str) -> None:
    """Train on this process among several, one job after the other, and write what it saw."""
    for name, kind, changes in json.loads(jobs):
        resume, fails = changes.pop("resume", None), changes.pop("fails", False)
        trainer, scorer = (one_turn if kind == "one" else several_turns)(changes.pop("folder", folder), **changes)
        rank = trainer.accelerator.process_index
        Words.executed.clear()
        seen: dict[str, Any] = {"error": None}
        if fails and rank == 1:
            Words.reset = Words.broken_reset  # type: ignore[method-assign]
        try:
            trainer.train(resume_from_checkpoint=resume)
        except Exception as error:
            if not fails:
                raise
            seen["error"] = f"{type(error).__name__}: {error}"
        seen |= {"advantages": trainer.advantages, "state": scorer.state_dict(), "executed": list(Words.executed)}
        if kind == "one":
            seen["handed_in"] = [
                [s.task_id, s.content] if isinstance(s, Submission) else s.score for s in scorer.hand_in
            ]
        Path(folder, f"{name}_{rank}.json").write_text(json.dumps(seen))


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(*sys.argv[1:])
