"""The nano agent: a language model of two million parameters that writes scikit-learn scripts, shipped as package data.

It is a Llama with its own tokenizer, cold-started on the corpus of `corpus.generator` (regenerate it with
``python benchmarks/train_nano_agent.py``). It reads the *compact* overview and compact feedback.
"""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import torch

from wmrl_gym.policies.causal_lm import CausalLMPolicy
from wmrl_gym.policies.causal_lm_loading import load_causal_lm

NANO_DIRECTORY = Path(__file__).parent / "nano_agent"
MAX_NEW_TOKENS = 160
"""Scripts are about 55 tokens long; the longest of the corpus are below this."""


def load_nano_agent(
    directory: str | Path | None = None,
    *,
    max_new_tokens: int = MAX_NEW_TOKENS,
    device: torch.device | str = "cpu",
    batch_size: int | None = None,
) -> CausalLMPolicy:
    """The shipped agent, or one of the same kind from another directory. Needs no network.

    Args:
        directory: a saved nano agent; None is the shipped one.
        max_new_tokens: longest answer, in tokens.
        device: where it computes.
        batch_size: conversations that are generated at the same time; None is all of them.

    Raises:
        FileNotFoundError: if there is no checkpoint.
    """
    folder = NANO_DIRECTORY if directory is None else Path(directory)
    if not (folder / "model.safetensors").is_file():
        raise FileNotFoundError(
            f"no nano agent in {folder}\n"
            "  It ships with the package. To train it again: python benchmarks/train_nano_agent.py"
        )
    return load_causal_lm(folder, max_new_tokens, device=device, batch_size=batch_size, local_files_only=True)


def new_nano_model(tokenizer: Any, seed: int = 0) -> Any:
    """An untrained model for a tokenizer: a Llama of 4 layers, width 192, 4 heads that share 2 key-value heads.

    It can already copy: see `policies.nano_induction`.
    """
    from transformers import LlamaConfig, LlamaForCausalLM

    from wmrl_gym.policies.nano_induction import plant_induction

    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=192,
        intermediate_size=512,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=1024,
        tie_word_embeddings=True,
        initializer_range=192**-0.5,
        rope_parameters={"rope_type": "default", "rope_theta": 500_000.0},
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    model = LlamaForCausalLM(config)
    plant_induction(model, seed)
    return model


def save_nano_agent(policy: CausalLMPolicy, directory: str | Path) -> None:
    """Write a checkpoint in half precision: half the size, and close enough to go on from."""
    half = copy.deepcopy(policy.model).half()
    half.save_pretrained(directory)
    policy.tokenizer.save_pretrained(directory)
