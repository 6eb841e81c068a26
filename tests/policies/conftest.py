"""A tiny random Llama with a chat template: enough to check the arithmetic of any causal language model."""

from __future__ import annotations

from typing import Any

import pytest

from wmrl_gym.policies.causal_lm import CausalLMPolicy

TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


@pytest.fixture(scope="session")
def tokenizer() -> Any:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    raw = Tokenizer(models.BPE())
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=300,
        special_tokens=["<|im_end|>", "<|im_start|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    raw.train_from_iterator(["a small text about a small model"], trainer)
    return PreTrainedTokenizerFast(tokenizer_object=raw, eos_token="<|im_end|>", chat_template=TEMPLATE)


def tiny_model(tokenizer: Any, seed: int = 0, **settings: Any) -> Any:
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=512,
        initializer_range=0.3,  # peaked distributions, so that a wrong position shows
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        **settings,
    )
    return LlamaForCausalLM(config)


@pytest.fixture
def policy(tokenizer: Any) -> CausalLMPolicy:
    return CausalLMPolicy(tiny_model(tokenizer), tokenizer, max_new_tokens=24)
