"""What an update of a language model needs in memory: ``python benchmarks/causal_lm_memory.py``.

Random models of four sizes compute the gradients of four episodes that share their prompt. Every cell of the table is a
process of its own: the peak of its resident memory, less what it held after a tiny model's update, beside what
`policies.estimate_memory` foretells. About five minutes on one core; at most 8 GiB.

``--estimate CONFIG`` measures nothing: it foretells for a ``config.json``, a folder or a hub name, and prints a table::

    python benchmarks/causal_lm_memory.py --estimate folder/config.json --lora-rank 16 --dtype bfloat16 --gpu 24
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

TABLE = Path(__file__).parent / "results" / "causal_lm_memory.md"
SIZES: dict[str, tuple[str, dict[str, Any]]] = {
    "nano": ("llama", {"vocab_size": 2048, "hidden_size": 192, "intermediate_size": 512, "num_hidden_layers": 4,
                       "num_attention_heads": 4, "num_key_value_heads": 2}),
    "wide vocabulary": ("qwen3", {"vocab_size": 151_936, "hidden_size": 160, "intermediate_size": 480,
                                  "num_hidden_layers": 12, "num_attention_heads": 4, "num_key_value_heads": 2,
                                  "head_dim": 64}),
    "SmolLM2-135M's shape": ("llama", {"vocab_size": 49_152, "hidden_size": 576, "intermediate_size": 1536,
                                       "num_hidden_layers": 30, "num_attention_heads": 9, "num_key_value_heads": 3}),
    "Qwen3, 12 layers": ("qwen3", {"vocab_size": 151_936, "hidden_size": 1024, "intermediate_size": 3072,
                                   "num_hidden_layers": 12, "num_attention_heads": 16, "num_key_value_heads": 8,
                                   "head_dim": 128}),
}  # fmt: skip
WARM_UP = {"vocab_size": 64, "hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1, "head_dim": 8,
           "num_attention_heads": 4, "num_key_value_heads": 2}  # fmt: skip
EPISODES, PROMPT, ANSWER = 4, 256, 256
WAYS = {
    "as it is": {"gradient_checkpointing": False},
    "gradient checkpointing": {"gradient_checkpointing": True},
    "all logits at once": {"gradient_checkpointing": False, "plain": True},
}
TOO_LARGE = {("Qwen3, 12 layers", "all logits at once")}
"""Above 8 GiB."""
HEADINGS = ("model", "parameters", "update", "measured, MiB", "foretold, MiB", "measured / foretold", "CPU seconds")
MIB = 2**20


def new_config(size: str, **other: int) -> Any:
    """Configuration of one of the models."""
    from transformers import AutoConfig

    family, shape = SIZES[size]
    return AutoConfig.for_model(family, tie_word_embeddings=True, max_position_embeddings=2048, **shape | other)


def decisions(vocabulary: int) -> list[Any]:
    """Episodes of one group: the same prompt, different answers."""
    from wmrl_gym.core import Decision

    rng = np.random.default_rng(0)
    prompt = rng.integers(vocabulary, size=PROMPT)
    return [
        Decision("", "", prompt, rng.integers(vocabulary, size=ANSWER), np.zeros(ANSWER, np.float32))
        for _ in range(EPISODES)
    ]


def plain_log_probs(model: Any, batch: list[Any]) -> Any:
    """The plain way: every episode a row of its own, the logits of all of them at once."""
    import torch

    ids = torch.from_numpy(np.stack([np.concatenate([one.prompt_ids, one.token_ids]) for one in batch]))
    table = model(input_ids=ids[:, :-1], use_cache=False).logits.float().log_softmax(-1)
    entropy = -(table.exp() * table).sum(-1)
    log_probs = table.gather(-1, ids[:, 1:, None])[..., 0]
    return log_probs[:, PROMPT - 1 :], entropy[:, PROMPT - 1 :]


def measure(size: str, way: str) -> dict[str, float]:
    """Peak of this process's resident memory while gradients are computed, less what libraries took."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from wmrl_gym.policies.causal_lm import CausalLMPolicy
    from wmrl_gym.policies.nano import NANO_DIRECTORY

    torch.set_num_threads(1)
    tokenizer = AutoTokenizer.from_pretrained(NANO_DIRECTORY)

    def compute(config: Any, settings: dict[str, Any]) -> tuple[int, float]:
        model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
        if settings["gradient_checkpointing"]:
            (getattr(model, "activation_checkpointing_enable", None) or model.gradient_checkpointing_enable)()
        policy = CausalLMPolicy(model, tokenizer, chat=False)
        for parameter in policy.parameters():
            # As after the first of several micro-batches. Filled, for memory that is not written to is not resident.
            parameter.grad = torch.full_like(parameter, 0.0)
        batch = decisions(config.vocab_size)
        started = time.process_time()
        log_probs, entropy = plain_log_probs(model, batch) if "plain" in settings else policy.log_probs(batch)[:2]
        (log_probs + entropy).sum().backward()
        return sum(parameter.numel() for parameter in policy.parameters()), time.process_time() - started

    compute(new_config(size, **WARM_UP), WAYS[way])  # loads what libraries load when they are first used
    loaded = in_memory("VmRSS")
    parameters, seconds = compute(new_config(size), WAYS[way])
    return {"parameters": parameters, "bytes": in_memory("VmHWM") - loaded, "seconds": seconds}


def in_memory(field: str) -> int:
    """Bytes of this process that are in memory now ("VmRSS"), or were at most ("VmHWM").

    ``getrusage`` would not do: its peak begins with that of the process that started this one.
    """
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(f"{field}:"))


def foretell(size: str, checkpointing: bool) -> int:
    """What `estimate_memory` says of the same update."""
    from wmrl_gym.policies import estimate_memory

    found = estimate_memory(
        new_config(size),
        gradient_checkpointing=checkpointing,
        microbatch=EPISODES,
        prompt_tokens=PROMPT,
        answer_tokens=ANSWER,
        batch_size=1,
    )
    return found.update - found.moments


def table() -> str:
    """Measure all cells, one process each."""
    from wmrl_gym.reporting.markup import markdown_table

    rows = []
    for size in SIZES:
        for way, settings in WAYS.items():
            if (size, way) in TOO_LARGE:
                rows.append([size, "", way, "not run: above 8 GiB", "", "", ""])
                continue
            command = [sys.executable, __file__, "--cell", size, way]
            done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
            if done.returncode:
                raise RuntimeError(f"{size}, {way}: ended with {done.returncode}\n{done.stderr[-2000:]}")
            found = json.loads(done.stdout.splitlines()[-1])
            told = None if "plain" in settings else foretell(size, settings["gradient_checkpointing"])
            ratio = [] if told is None else [f"{told / MIB:,.0f}", f"{found['bytes'] / told:.2f}"]
            rows.append(
                [size, f"{found['parameters'] / 1e6:.0f}M", way, f"{found['bytes'] / MIB:,.0f}"]
                + (ratio or ["", ""])
                + [f"{found['seconds']:.0f}"]
            )
            print(rows[-1], flush=True)
    tokens = PROMPT + EPISODES * ANSWER
    lines = [
        "# What an update of a language model needs in memory",
        "",
        "[What the settings mean, and what larger models need](../../docs/language_models.md).",
        "Made by `python benchmarks/causal_lm_memory.py`: random models in float32, one core, a process for each line.",
        f"Gradients of {EPISODES} episodes of {PROMPT + ANSWER} tokens that share a prompt of {PROMPT} (the prompt is "
        f"run once: {tokens:,} tokens).",
        "Measured is the peak of resident memory less that after a tiny model's update: weights, gradients, and what",
        "the update needs. AdamW's moments, twice the weights, are not in it. *As it is*: logits a part at a time, as",
        "`policy.log_probs` computes them; *all logits at once*: a row for each episode, the logits of all of them.",
        "",
        *markdown_table(HEADINGS, rows),
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cell", nargs=2, metavar=("SIZE", "WAY"), help="measure one cell in this process")
    parser.add_argument("--estimate", metavar="CONFIG", help="folder, config.json or hub name")
    parser.add_argument("--lora-rank", type=int)
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--compute-dtype")
    parser.add_argument("--gradient-checkpointing", action="store_true")
    parser.add_argument("--microbatch", type=int, default=4, help="episodes at the same time")
    parser.add_argument("--prompt-tokens", type=int, default=1024, help="of the opening prompt")
    parser.add_argument("--answer-tokens", type=int, default=512, help="longest answer of a turn")
    parser.add_argument("--episode-tokens", type=int, help="of all turns together; by default one turn")
    parser.add_argument("--batch-size", type=int, default=8, help="rows generated at the same time")
    parser.add_argument("--reference", action="store_true", help="the loss has a KL term")
    parser.add_argument("--gpu", type=float, metavar="GIB", help="say whether a GPU of this size holds it")
    parser.add_argument("--table", type=Path, default=TABLE)
    options = parser.parse_args()
    if options.cell:
        print(json.dumps(measure(*options.cell)))
        return
    if options.estimate:
        from wmrl_gym.policies import estimate_memory

        others = ("cell", "estimate", "gpu", "table")
        found = estimate_memory(options.estimate, **{k: v for k, v in vars(options).items() if k not in others})
        print(found)
        if options.gpu is not None:
            print(f"{'fits' if found.fits(options.gpu) else 'does not fit'} a GPU of {options.gpu:g} GiB")
        return
    options.table.parent.mkdir(parents=True, exist_ok=True)
    options.table.write_text(table(), encoding="utf-8")
    print("\n" + options.table.read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
