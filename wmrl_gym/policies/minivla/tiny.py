"""A MiniVLA of two million parameters with random weights: everything but what it knows is the real one's.

Example::

    policy = tiny_minivla(actions_per_decision=8)

It runs in milliseconds on a CPU, for tests and for cold starts on small data.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from wmrl_gym.policies.minivla.action_scale import ActionScale
from wmrl_gym.policies.minivla.action_tokens import BinnedActions
from wmrl_gym.policies.minivla.loading import load_minivla
from wmrl_gym.policies.minivla.model import MiniVLAConfig, MiniVLAModel
from wmrl_gym.policies.minivla.policy import MiniVLAPolicy
from wmrl_gym.policies.minivla.prompting import add_action_tokens, prompt_text

INSTRUCTIONS = (
    "put both the alphabet soup and the tomato sauce in the basket",
    "put both the cream cheese box and the butter in the basket",
    "turn on the stove and put the moka pot on it",
    "put the black bowl in the bottom drawer of the cabinet and close it",
    "put the white mug on the left plate and put the yellow and white mug on the right plate",
    "pick up the book and place it in the back compartment of the caddy",
    "put the white mug on the plate and put the chocolate pudding to the right of the plate",
    "put both the alphabet soup and the cream cheese box in the basket",
    "put both moka pots on the stove",
    "put the yellow and white mug in the microwave and close it",
)
"""LIBERO-Long's ten instructions, from whose words the tiny tokenizer learns its merges."""


def tiny_tokenizer(*, action_tokens: bool = True) -> Any:
    """A byte-level BPE tokenizer with Qwen's special tokens, for which the words of LIBERO-Long are single tokens.

    Args:
        action_tokens: whether the 256 action tokens are added, too.
    """
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    raw = Tokenizer(models.BPE())
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=1024,
        special_tokens=["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    raw.train_from_iterator([prompt_text(instruction) for instruction in INSTRUCTIONS], trainer)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=raw,
        eos_token="<|endoftext|>",
        pad_token="<|endoftext|>",
        additional_special_tokens=["<|im_start|>", "<|im_end|>"],
    )
    if action_tokens:
        add_action_tokens(tokenizer)
    return tokenizer


def tiny_config(vocabulary: int, image_size: int = 56, width: int = 192, layers: int = 3) -> MiniVLAConfig:
    """Settings of a tiny network: two blocks of width 96 in each vision backbone, and a small Qwen2.

    Args:
        vocabulary: rows of the embedding.
        image_size: side of the square it sees, a multiple of 14.
        width: of the language model, a multiple of 64.
        layers: of the language model.
    """
    vision = {
        "hidden_size": 96,
        "num_hidden_layers": 2,
        "num_attention_heads": 3,
        "image_size": image_size,
        "patch_size": 14,
    }
    return MiniVLAConfig(
        dino={**vision, "mlp_ratio": 2, "num_register_tokens": 4},
        siglip={**vision, "intermediate_size": 192},
        language={
            "vocab_size": vocabulary,
            "hidden_size": width,
            "intermediate_size": 3 * width,
            "num_hidden_layers": layers,
            "num_attention_heads": width // 64,
            "num_key_value_heads": 1,
            "max_position_embeddings": 1024,
            "tie_word_embeddings": True,
            "bos_token_id": None,
            "eos_token_id": None,
            "pad_token_id": None,
        },
    )


def tiny_minivla(
    seed: int = 0,
    *,
    actions_per_decision: int = 1,
    image_size: int = 56,
    width: int = 192,
    layers: int = 3,
    scale: ActionScale | None = None,
    train_vision: bool = True,
    **settings: Any,
) -> MiniVLAPolicy:
    """A policy with random weights.

    Args:
        seed: of the weights.
        actions_per_decision: actions in a chunk, n.
        image_size: side of the square it sees, a multiple of 14.
        width: of the language model, a multiple of 64.
        layers: of the language model.
        scale: of the actions; None leaves them as they are, for LIBERO's lie in [-1, 1].
        train_vision: whether the (random) vision backbones learn, too.
        settings: of `MiniVLAPolicy`.
    """
    tokenizer = tiny_tokenizer()
    vocabulary = -(-len(tokenizer) // 64) * 64
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = MiniVLAModel(tiny_config(vocabulary, image_size, width, layers))
    return MiniVLAPolicy(
        model,
        tokenizer,
        BinnedActions(len(tokenizer), actions_per_decision),
        scale or ActionScale.identity(),
        train_vision=train_vision,
        **settings,
    )


def load_tiny_minivla(
    path: str | Path | None = None,
    *,
    seed: int = 0,
    actions_per_decision: int = 8,
    train_vision: bool = True,
    image_size: int = 56,
    width: int = 192,
    layers: int = 3,
    cameras: Sequence[str] = ("agentview",),
    device: torch.device | str = "cpu",
    batch_size: int | None = None,
) -> MiniVLAPolicy:
    """A tiny policy from a folder (a cold start's, say), or a new one with random weights.

    Args:
        path: folder; None for new weights.
        seed: of new weights.
        actions_per_decision: actions in a chunk, n; a folder must have been written with the same.
        train_vision: whether the vision backbones learn, too.
        image_size: of new weights: side of the square it sees, a multiple of 14.
        width: of new weights: of the language model, a multiple of 64.
        layers: of new weights: of the language model.
        cameras: which pictures it sees.
        device: where the model is moved to.
        batch_size: most decisions made at the same time; None for all.

    Raises:
        ValueError: if the folder's policy decides on chunks of another length.
    """
    settings: dict[str, Any] = {
        "train_vision": train_vision,
        "cameras": cameras,
        "device": device,
        "batch_size": batch_size,
    }
    if path is None:
        settings |= {"image_size": image_size, "width": width, "layers": layers}
        return tiny_minivla(seed, actions_per_decision=actions_per_decision, **settings)
    policy = load_minivla(path, local_files_only=True, **settings)
    if policy.codec.actions_per_decision != actions_per_decision:
        raise ValueError(
            f"the policy in {path} decides on chunks of {policy.codec.actions_per_decision} actions, and "
            f"actions_per_decision is {actions_per_decision}: give the same number to policy and environment"
        )
    return policy
