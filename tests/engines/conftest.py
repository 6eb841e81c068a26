"""A Llama of random weights that reads and writes bytes, and prompts that begin alike."""

from __future__ import annotations

from typing import Any

import pytest

from wmrl_gym.engines.engine import Message, Prompt

TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)

VERDICT = {
    "type": "object",
    "properties": {
        "passed": {"type": "boolean"},
        "exception": {"enum": ["KeyError", "ValueError", None]},
        "reason": {"type": "string", "maxLength": 12},
    },
    "required": ["passed", "exception", "reason"],
    "additionalProperties": False,
}


@pytest.fixture(scope="session")
def tokenizer() -> Any:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    raw = Tokenizer(models.BPE(vocab={token: i for i, token in enumerate(alphabet)}, merges=[]))
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw.decoder = decoders.ByteLevel()
    raw.add_special_tokens(["<|im_end|>", "<|im_start|>"])
    return PreTrainedTokenizerFast(tokenizer_object=raw, eos_token="<|im_end|>", chat_template=TEMPLATE)


@pytest.fixture(scope="session")
def model(tokenizer: Any) -> Any:
    return tiny_llama(tokenizer)


def tiny_llama(tokenizer: Any, seed: int = 0, **settings: Any) -> Any:
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(seed)
    config = LlamaConfig(
        # Wider than the tokenizer, as real models' tables are.
        vocab_size=len(tokenizer) + 14,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=2048,
        initializer_range=0.3,  # peaked distributions, so that a wrong position shows
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        **settings,
    )
    return LlamaForCausalLM(config).eval()


def prompt(text: str, schema: Any = None, system: str = "You check scripts.") -> Prompt:
    return Prompt((Message("system", system), Message("user", text)), schema)


def checks(scripts: int = 3, schema: Any = None) -> list[Prompt]:
    """Three questions about each of some scripts of one task."""
    task = "The table holds the columns age, fare and sex; predict who survived. "
    shared = [f"{task}Script {i}: {'x = 1; ' * (5 + i)}" for i in range(scripts)]
    return [prompt(f"{beginning}Question {j}?", schema) for beginning in shared for j in range(3)]
