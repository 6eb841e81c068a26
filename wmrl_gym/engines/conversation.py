"""From observations to token ids: the first prompt, and what stands between two turns.

A later prompt is the earlier prompt, the tokens the model really produced, and the tokens of the new observation.
Nothing that was produced is ever tokenised again, because decoding and encoding need not give the same tokens back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

ConversationTurns = Sequence[tuple[str, str]]
"""A conversation to learn from: (observation, answer) of each turn, in order."""

_ANSWER = "<<answer-of-an-earlier-turn>>"


@dataclass(frozen=True)
class Conversation:
    """Turns an episode's texts into token ids.

    Raises:
        ValueError: if `chat` is asked for and the tokenizer has no chat template.
    """

    tokenizer: Any
    """A Hugging Face tokenizer."""
    chat: bool = True
    """Use the tokenizer's chat template; False joins plain text with newlines."""
    system_prompt: str | None = None
    stop_ids: tuple[int, ...] = ()
    """Tokens that end a turn."""

    def __post_init__(self) -> None:
        if self.chat and not getattr(self.tokenizer, "chat_template", None):
            raise ValueError(
                "the tokenizer has no chat template.\n"
                "  Pass chat=False for a plain language model, or set tokenizer.chat_template."
            )

    def first_prompt(self, observation: str) -> NDArray[np.int64]:
        """Token ids of the prompt that opens an episode, shape (P,)."""
        if self.chat:
            return self._encode(self._render([{"role": "user", "content": observation}]))
        text = f"{self.system_prompt}\n" if self.system_prompt else ""
        ids = self._encode(f"{text}{observation}\n")
        bos = getattr(self.tokenizer, "bos_token_id", None)
        return ids if bos is None else np.concatenate([[bos], ids]).astype(np.int64)

    def next_prompt(
        self, prompt_ids: NDArray[np.int64], token_ids: NDArray[np.int64], observation: str
    ) -> NDArray[np.int64]:
        """Token ids of a later prompt, which extends the earlier prompt and what was produced, shape (P,)."""
        between = self._encode(self.text_between(observation))
        # The template closes the earlier answer with an end-of-turn token, which the model usually produced itself.
        if len(token_ids) and len(between) and token_ids[-1] == between[0] and int(between[0]) in self.stop_ids:
            between = between[1:]
        return np.concatenate([prompt_ids, token_ids, between]).astype(np.int64)

    def text_between(self, observation: str) -> str:
        """What the template puts after an answer so that the next observation follows and an answer is asked for."""
        if not self.chat:
            return f"\n{observation}\n"
        messages = [
            {"role": "user", "content": ""},
            {"role": "assistant", "content": _ANSWER},
            {"role": "user", "content": observation},
        ]
        return self._render(messages).rpartition(_ANSWER)[2]

    def decode(self, token_ids: NDArray[np.int64]) -> str:
        """The text of an answer, without special tokens."""
        return str(self.tokenizer.decode(token_ids.tolist(), skip_special_tokens=True))

    def _render(self, messages: list[dict[str, str]]) -> str:
        if self.system_prompt:
            messages = [{"role": "system", "content": self.system_prompt}, *messages]
        return str(self.tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True))

    def _encode(self, text: str) -> NDArray[np.int64]:
        return np.asarray(self.tokenizer(text, add_special_tokens=False)["input_ids"], dtype=np.int64)


def stop_tokens(model: Any, tokenizer: Any) -> tuple[int, ...]:
    """Token ids that end a turn: the tokenizer's and every one in the model's generation settings."""
    found: set[int] = set()
    settings = getattr(model, "generation_config", None)
    for value in (getattr(tokenizer, "eos_token_id", None), getattr(settings, "eos_token_id", None)):
        if isinstance(value, int):
            found.add(value)
        elif value is not None:
            found.update(int(item) for item in value)
    return tuple(sorted(found))
