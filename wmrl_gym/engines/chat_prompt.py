"""From a prompt to what a model reads: control tokens made harmless, the chat template, token ids, a random seed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wmrl_gym.core import fingerprint
from wmrl_gym.engines.chat_template import knows_system, render, special_tokens
from wmrl_gym.engines.engine import Prompt

_CONTROL = re.compile(r"<\|[^<>|\s]{1,64}\|>")

NO_THINKING: Mapping[str, Any] = {"enable_thinking": False}
"""Template arguments of the paper's setting; templates that know no thinking overlook them."""


def disarm(text: str, control_tokens: Iterable[str] = ()) -> str:
    """Break up the model's control tokens in a message, by a space after their first character.

    A prompt quotes what an agent wrote. If that holds the token that ends a turn, a tokenizer would end the turn
    there, and the agent could speak with the system's voice.

    Args:
        text: content of a message.
        control_tokens: special tokens of the tokenizer at hand; anything like ``<|name|>`` is broken up in any case.
    """
    text = _CONTROL.sub(lambda match: f"{match[0][0]} {match[0][1:]}", text)
    for token in control_tokens:
        if len(token) > 1 and token in text:
            text = text.replace(token, f"{token[0]} {token[1:]}")
    return text


def chat_messages(prompt: Prompt, control_tokens: Iterable[str] = ()) -> list[dict[str, str]]:
    """The messages as plain dictionaries, disarmed."""
    tokens = tuple(control_tokens)
    return [{"role": message.role, "content": disarm(message.content, tokens)} for message in prompt.messages]


def encode(tokenizer: Any, prompt: Prompt, template_arguments: Mapping[str, Any] = NO_THINKING) -> NDArray[np.int64]:
    """Token ids of a prompt through the tokenizer's chat template, shape (P,).

    A template that knows no system's role gets what the system says before the user's first message; a tokenizer
    without a template gets the messages as plain text, joined by newlines.
    """
    messages = chat_messages(prompt, special_tokens(tokenizer).values())
    if getattr(tokenizer, "chat_template", None):
        fold = any(m["role"] == "system" for m in messages) and not knows_system(tokenizer, template_arguments)
        text = render(tokenizer, messages, template_arguments, fold=fold)
    else:
        text = "".join(f"{message['content']}\n" for message in messages)
    ids = np.asarray(tokenizer(text, add_special_tokens=False)["input_ids"], dtype=np.int64)
    if not len(ids):
        raise ValueError("the prompt is empty: give at least one message with content")
    return ids


def prompt_seed(prompt: Prompt, seed: int) -> int:
    """A seed in [0, 2**31) that depends on the prompt and on `seed`, and not on what else is in the batch."""
    return int(fingerprint((prompt, seed))[:8], 16) >> 1
