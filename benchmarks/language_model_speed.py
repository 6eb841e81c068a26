"""How fast a language model generates and learns here, beside TRL's GRPOTrainer, on the same model and the same tokens.

    pip install -e '.[trl]' datasets
    python benchmarks/language_model_speed.py --model nano --rounds 3
    python benchmarks/language_model_speed.py --model llama30m --rounds 3

Both take turns in one process on one thread, so that other work on the machine falls on both; what counts is the ratio.
Generation: groups of samples of real opening prompts. Update: one gradient of the GRPO loss on what was generated.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from torch.nn.utils.rnn import pad_sequence

from wmrl_gym.algorithms import GRPOSettings, PolicyUpdate
from wmrl_gym.core import Decision, Trajectory, Turn
from wmrl_gym.policies import CausalLMPolicy, load_nano_agent

GROUPS, SAMPLES = 4, 8


def opening_observations() -> list[str]:
    """First observations of bundled competitions, in the compact style."""
    from wmrl_gym.envs import MLEDojoEnv
    from wmrl_gym.envs.mle_dojo.catalogue import prepare

    names = ("diabetes_progression", "breast_cancer_diagnosis", "titanic_survival", "penguin_body_mass")
    with TemporaryDirectory() as root:
        for name in names:
            prepare(name, Path(root))
        env = MLEDojoEnv(list(names), data_root=root, overview_style="compact")
        return [env.reset(seed=0, options={"competition": name})[0] for name in names]


def policy_of(model: str, max_new_tokens: int) -> CausalLMPolicy:
    """The shipped agent, or a random Llama of 30 million parameters with its tokenizer."""
    nano = load_nano_agent(max_new_tokens=max_new_tokens)
    if model == "nano":
        return nano
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(nano.tokenizer), hidden_size=512, intermediate_size=1536, num_hidden_layers=10,
        num_attention_heads=8, num_key_value_heads=4, max_position_embeddings=1024, bos_token_id=None,
        eos_token_id=nano.tokenizer.eos_token_id, pad_token_id=nano.tokenizer.pad_token_id,
    )  # fmt: skip
    return CausalLMPolicy(LlamaForCausalLM(config), nano.tokenizer, max_new_tokens)


def trl_trainer(policy: CausalLMPolicy, folder: str) -> Any:
    """TRL's trainer around the same model."""
    from datasets import Dataset
    from trl import GRPOConfig, GRPOTrainer

    settings = GRPOConfig(
        output_dir=folder, per_device_train_batch_size=GROUPS * SAMPLES, num_generations=SAMPLES, beta=0.0,
        max_completion_length=policy.max_new_tokens, temperature=1.0, loss_type="grpo", use_cpu=True, bf16=False,
        report_to=[], gradient_checkpointing=False,
    )  # fmt: skip
    data = Dataset.from_list([{"prompt": [{"role": "user", "content": "-"}]}] * SAMPLES)
    return GRPOTrainer(
        model=policy.model, reward_funcs=lambda **_: [0.0], args=settings, train_dataset=data,
        processing_class=policy.tokenizer,
    )  # fmt: skip


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds, and what came back."""
    started = time.perf_counter()
    result = work()
    return time.perf_counter() - started, result


def trl_inputs(policy: CausalLMPolicy, decisions: list[Decision], advantages: torch.Tensor) -> dict[str, Any]:
    """What TRL's loss takes, for the same decisions."""
    pad = policy.conversation.end_of_turn

    def padded(rows: list[np.ndarray], side: str) -> tuple[torch.Tensor, torch.Tensor]:
        tensors = [torch.from_numpy(row) for row in rows]
        ids = pad_sequence(tensors, batch_first=True, padding_value=pad, padding_side=side)
        mask = pad_sequence([torch.ones_like(t) for t in tensors], batch_first=True, padding_side=side)
        return ids, mask

    prompts, prompt_mask = padded([d.prompt_ids for d in decisions], "left")
    answers, answer_mask = padded([d.token_ids for d in decisions], "right")
    old, _ = padded([d.log_probs for d in decisions], "right")
    return {
        "prompt_ids": prompts, "prompt_mask": prompt_mask, "completion_ids": answers, "completion_mask": answer_mask,
        "advantages": advantages, "old_per_token_logps": old.float(), "num_items_in_batch": answer_mask.sum(),
    }  # fmt: skip


def main() -> None:
    """Print one line per round, and the medians."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=["nano", "llama30m"], default="nano")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--max-new-tokens", type=int, default=96)
    options = parser.parse_args()
    torch.set_num_threads(1)
    policy = policy_of(options.model, options.max_new_tokens)
    observations = [text for text in opening_observations() for _ in range(SAMPLES)]
    count = len(observations)
    advantages = torch.from_numpy(np.random.default_rng(0).normal(size=count)).float()
    update = PolicyUpdate(
        policy, None, GRPOSettings(kl_coefficient=0, entropy_coefficient=0), learning_rate=1e-6, microbatch=count
    )
    print(f"{options.model}: {sum(p.numel() for p in policy.parameters()):,} parameters, {count} answers a round")
    ratios: list[tuple[float, float]] = []
    with TemporaryDirectory() as folder:
        trainer = trl_trainer(policy, folder)
        chats = [[{"role": "user", "content": text}] for text in observations]
        for number in range(options.rounds + 1):
            seeds = [(number, i) for i in range(count)]
            own, decisions = timed(lambda seeds=seeds: policy.act(observations, histories=[()] * count, seeds=seeds))
            theirs, generated = timed(lambda: trainer._generate(chats))
            policy.model.eval()
            own_tokens = sum(len(d.token_ids) for d in decisions)
            their_tokens = sum(len(ids) for ids in generated[1])
            generation = (own_tokens / own) / (their_tokens / theirs)
            learnable = [
                (Trajectory((Turn(d, None, None, None, 0.0),), None, None), float(a))
                for d, a in zip(decisions, advantages, strict=True)
            ]
            own_update, _ = timed(lambda learnable=learnable: update._optimise(learnable, None))
            inputs = trl_inputs(policy, decisions, advantages)

            def their_update(inputs: dict[str, Any] = inputs) -> None:
                policy.model.zero_grad(set_to_none=True)
                trainer._compute_loss(policy.model, inputs).backward()
                torch.nn.utils.clip_grad_norm_(policy.model.parameters(), 1.0)

            trl_update, _ = timed(their_update)
            if number:  # the first round warms up
                ratios.append((generation, trl_update / own_update))
                print(
                    f"round {number}: generation {own_tokens / own:.0f} against {their_tokens / theirs:.0f} tokens a "
                    f"second ({generation:.2f} times), update {own_update:.2f} against {trl_update:.2f} s "
                    f"({trl_update / own_update:.2f} times as fast)",
                    flush=True,
                )
    medians = np.median(ratios, axis=0)
    print(f"medians: generation {medians[0]:.2f}, update {medians[1]:.2f} times as fast as TRL")


if __name__ == "__main__":
    main()
