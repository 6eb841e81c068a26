"""Make the nano agent from nothing: ``python benchmarks/train_nano_agent.py``.

Draws the corpus, learns the tokenizer, trains the model on a stream of fresh conversations and writes the checkpoint.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

import torch

from wmrl_gym.algorithms.supervised import SupervisedSettings, SupervisedStep, fine_tune
from wmrl_gym.corpus.generator.tasks import training_tasks
from wmrl_gym.policies.nano import NANO_DIRECTORY, save_nano_agent
from wmrl_gym.policies.nano_new_agent import corpus, new_nano_agent


def main(arguments: Sequence[str] | None = None) -> None:
    """Train and write the checkpoint."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=1600)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--learning-rate", type=float, default=3e-3)
    parser.add_argument("--matrix-learning-rate", type=float, default=4e-3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--data-root", type=Path, default=None, help="folder of prepared competitions")
    parser.add_argument("--output", type=Path, default=NANO_DIRECTORY)
    options = parser.parse_args(arguments)
    torch.set_num_threads(options.threads)

    tasks = training_tasks(options.data_root)
    policy = new_nano_agent(tasks, options.seed)
    settings = SupervisedSettings(
        steps=options.steps,
        batch_size=options.batch_size,
        learning_rate=options.learning_rate,
        matrix_learning_rate=options.matrix_learning_rate,
        warmup_steps=min(50, options.steps // 10),
        seed=options.seed,
    )
    count = sum(parameter.numel() for parameter in policy.parameters())
    print(f"{len(tasks)} competitions, {len(policy.tokenizer)} tokens, {count:,} parameters", flush=True)

    def log(step: SupervisedStep) -> None:
        if step.step % 25 == 0 or step.step == options.steps - 1:
            print(
                json.dumps({"step": step.step, "loss": round(step.loss, 4), "seconds": round(step.seconds, 1)}),
                flush=True,
            )

    fine_tune(policy, corpus(tasks, options.seed + 1), settings, log)
    save_nano_agent(policy, options.output)
    print(f"wrote {options.output}")


if __name__ == "__main__":
    main()
