"""A Llama of some ten thousand random weights that reads and writes bytes, and a domain for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wmrl_gym.core import Outcome, Submission
from wmrl_gym.policies.causal_lm import CausalLMPolicy

from .letters import LetterEnv


def byte_tokenizer() -> Any:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    raw = Tokenizer(models.BPE(vocab={token: i for i, token in enumerate(["<end>", *alphabet])}, merges=[]))
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=raw, eos_token="<end>", pad_token="<end>")


def tiny_llama(tokenizer: Any, seed: int = 0) -> Any:
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
        max_position_embeddings=256,
        initializer_range=0.3,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
    )
    return LlamaForCausalLM(config)


def tiny_policy(max_new_tokens: int = 12, seed: int = 0) -> CausalLMPolicy:
    tokenizer = byte_tokenizer()
    return CausalLMPolicy(tiny_llama(tokenizer, seed), tokenizer, max_new_tokens, chat=False)


class Bytes(LetterEnv):
    """Letters for a policy that writes any bytes: worth is the share of characters with an even code point."""

    def execute(self, submission: Submission) -> Outcome:
        worth = sum(ord(character) % 2 == 0 for character in submission.content) / (len(submission.content) or 1)
        return Outcome(worth, "valid", f"got {worth:.3f}")

    class WorldModel:
        """Thinks the more of a text the more capital letters it holds."""

        def predict(self, submissions: Sequence[Submission]) -> list[Outcome]:
            texts = [submission.content for submission in submissions]
            shares = [sum(c.isupper() for c in text) / (len(text) or 1) for text in texts]
            worth = [0.5 * Bytes().execute(s).score + share for s, share in zip(submissions, shares, strict=True)]
            return [Outcome(score, "valid", f"got {score:.3f}", source="world_model") for score in worth]
