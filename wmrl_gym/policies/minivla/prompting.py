"""The question the model is asked, and the tokens it answers with (Qwen's chat format as MiniVLA was trained on it).

In the original's training data <|im_end|> and <|endoftext|> follow the action tokens. Nothing here asks for or learns
them, because a decision has a fixed length.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

SYSTEM_PROMPT = "You are Qwen, created by Alibaba Cloud. You are a helpful assistant."
EXTRA_TOKENS = 256


def prompt_text(instruction: str) -> str:
    """The prompt of one decision; the instruction is lower-cased as in training."""
    return (
        f"<|im_start|>system\n{SYSTEM_PROMPT}<|im_end|>\n"
        f"<|im_start|>user\nWhat action should the robot take to {instruction.lower()}?<|im_end|>\n"
        "<|im_start|>assistant\n"
    )


def prompt_ids(tokenizer: Any, instruction: str) -> NDArray[np.int64]:
    """Token ids of the prompt, shape (P,). The image goes behind the first of them; Qwen has no token to begin with."""
    return np.asarray(tokenizer(prompt_text(instruction))["input_ids"], np.int64)


def add_action_tokens(tokenizer: Any) -> None:
    """Append the 256 tokens that stand for actions, unless they are there.

    Raises:
        ValueError: if only some of them are there, for then ids would not be where the model expects them.
    """
    added = tokenizer.add_tokens([f"<|extra_{i}|>" for i in range(EXTRA_TOKENS)])
    if added not in (0, EXTRA_TOKENS):
        raise ValueError(
            f"the tokenizer holds {EXTRA_TOKENS - added} of the {EXTRA_TOKENS} action tokens already: give the "
            "tokenizer of the bare language model, or one to which all of them were added"
        )
