"""From observations to token ids: the first prompt, and what stands between two turns.

A later prompt is the earlier prompt, the tokens the model really produced, and the tokens of the new observation.
Nothing that was produced is ever tokenised again, because decoding and encoding need not give the same tokens back.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wmrl_gym.engines import chat_template
from wmrl_gym.engines.chat_prompt import disarm
from wmrl_gym.engines.chat_template import ANSWER, NEXT_QUESTION, QUESTION, THOUGHT_TAGS, TemplateRefusal
from wmrl_gym.engines.token_limit import leave_out_middle

ConversationTurns = Sequence[tuple[str, str]]
"""A conversation to learn from: (observation, answer) of each turn, in order."""

_OURS = ("add_generation_prompt", "chat_template", "continue_final_message", "conversation", "messages", "tokenize")
_NOTHING = "(nothing)"


@dataclass(frozen=True)
class Conversation:
    """Turns an episode's texts into token ids, and a model's tokens into text.

    How the tokenizer's chat template behaves is found out once, at construction, by rendering a short conversation.
    Where the template knows no system's role, the system prompt stands before the first observation.

    What the environment says cannot speak for anybody else: control tokens in it are broken up (`chat_prompt.disarm`).

    Raises:
        ValueError: if `chat` is asked for and the tokenizer has no chat template, or one that does not show what was
            said in earlier turns; if nothing names a token that ends a turn; or for settings that make no sense.
    """

    tokenizer: Any
    """A Hugging Face tokenizer."""
    chat: bool = True
    """Use the tokenizer's chat template; False joins plain text with newlines."""
    system_prompt: str | None = None
    stop_ids: tuple[int, ...] = ()
    """Tokens that end a turn; `end_of_turn` is added if it is missing."""
    template_arguments: Mapping[str, Any] = field(default_factory=dict)
    """Further arguments of the template, for example ``{"enable_thinking": False}``."""
    max_observation_tokens: int | None = None
    """Longest observation, in tokens of its text alone. Of a longer one the middle is left out, and a line says how
    many tokens it had. None for no limit."""
    end_of_turn: int = field(init=False)
    """The token that ends an answer: the one the template puts there, else the tokenizer's, else the model's."""
    opened_thought: str = field(init=False, default="")
    """What the template's prompt ends with if the answer begins inside a thought, for example ``"<think>\\n"``."""
    _folds_system: bool = field(init=False, default=False, repr=False)
    _refuses_nothing: bool = field(init=False, default=False, repr=False)
    _tags: Mapping[int, str] = field(init=False, default_factory=dict, repr=False)
    _control: tuple[str, ...] = field(init=False, default=(), repr=False)

    def __post_init__(self) -> None:
        if self.max_observation_tokens is not None and self.max_observation_tokens < 1:
            raise ValueError(
                f"max_observation_tokens is {self.max_observation_tokens}: give a positive number, or None for no limit"
            )
        ours = sorted(set(self.template_arguments) & set(_OURS))
        if ours:
            raise ValueError(f"template_arguments holds {', '.join(ours)}: that is set here and cannot be given")
        special = chat_template.special_tokens(self.tokenizer)
        thoughts = chat_template.thought_tokens(self.tokenizer)
        self._set("_control", tuple(dict.fromkeys([*special.values(), *thoughts.values()])))
        # What decoding would leave out, or give another name than the usual one.
        tags = {token: chat_template.usual_tag(tag) for token, tag in thoughts.items()}
        self._set("_tags", {token: tag for token, tag in tags.items() if token in special or tag != thoughts[token]})
        if self.chat:
            self._study_template()
        end = self._find_end()
        self._set("end_of_turn", end)
        self._set("stop_ids", self.stop_ids if end in self.stop_ids else (*self.stop_ids, end))

    def first_prompt(self, observation: str) -> NDArray[np.int64]:
        """Token ids of the prompt that opens an episode, shape (P,)."""
        observation = self._heard(observation)
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
        last = int(token_ids[-1]) if len(token_ids) else None
        if last in self.stop_ids and last in between:
            at = between.tolist().index(last)
            if not str(self.tokenizer.decode(between[:at].tolist())).strip():
                between = between[at + 1 :]
        return np.concatenate([prompt_ids, token_ids, between]).astype(np.int64)

    def text_between(self, observation: str) -> str:
        """What the template puts after an answer so that the next observation follows and an answer is asked for."""
        observation = self._heard(observation)
        if not self.chat:
            return f"\n{observation}\n"
        return self._render(_two_turns(observation)).partition(ANSWER)[2]

    def encode_answer(self, text: str) -> NDArray[np.int64]:
        """Token ids of an answer to learn from, shape (T,): the text and the end of the turn.

        Where the prompt opens a thought, a text that holds none closes it first, and one that opens a thought does not
        do so again.
        """
        opening = chat_template.tag_at(self.opened_thought)
        if opening is not None:
            closing = THOUGHT_TAGS[opening]
            if text.lstrip().startswith(opening):
                text = text.lstrip()[len(opening) :].lstrip("\n")
            elif closing not in text:
                text = f"{closing}\n\n{text}"
        return np.append(self._encode(text), self.end_of_turn).astype(np.int64)

    @property
    def thought_tags(self) -> tuple[str, str]:
        """What opens a thought of this model, and what closes it."""
        opening = chat_template.tag_at(self.opened_thought)
        if opening is None:
            known = chat_template.thought_tokens(self.tokenizer)
            opening = next((tag for tag in THOUGHT_TAGS if tag in known), next(iter(THOUGHT_TAGS)))
        return opening, THOUGHT_TAGS[opening]

    def encode(self, text: str) -> NDArray[np.int64]:
        """Token ids of a text as it stands, shape (T,)."""
        return self._encode(text)

    def decode(self, token_ids: NDArray[np.int64]) -> str:
        """The text of an answer, without special tokens.

        Thoughts stand between ``<think>`` and ``</think>``, also where the model's tags are special tokens or have
        another name. Where the prompt opened a thought, the text begins with that tag.
        """
        opening = chat_template.tag_at(self.opened_thought)
        pieces = [] if opening is None else ["<think>", self.opened_thought[len(opening) :]]
        plain: list[int] = []
        for token in token_ids.tolist():
            tag = self._tags.get(token)
            if tag is None:
                plain.append(token)
            else:
                pieces += [self._decode(plain), tag]
                plain = []
        return "".join([*pieces, self._decode(plain)])

    def is_inside_thought(self, token_ids: NDArray[np.int64]) -> bool:
        """Whether an answer that begins with these tokens, shape (T,), is inside a thought.

        The text is read and not the tokens: a tag that is no token of its own is joined with what stands around it.
        """
        return bool(chat_template.open_thought(self.decode(token_ids)))

    def _decode(self, token_ids: list[int]) -> str:
        # Some tokenizers clean up by default: they take the space out of " ." and " n't", which code may hold.
        return str(self.tokenizer.decode(token_ids, skip_special_tokens=True, clean_up_tokenization_spaces=False))

    def _heard(self, observation: str) -> str:
        """What the model reads of an observation."""
        observation = disarm(observation, self._control)
        if self.max_observation_tokens is not None:
            observation = leave_out_middle(self.tokenizer, observation, self.max_observation_tokens)
        return _NOTHING if self._refuses_nothing and not observation.strip() else observation

    def _render(self, messages: list[dict[str, str]]) -> str:
        if self.system_prompt:
            messages = [{"role": "system", "content": self.system_prompt}, *messages]
        return chat_template.render(self.tokenizer, messages, self.template_arguments, fold=self._folds_system)

    def _encode(self, text: str) -> NDArray[np.int64]:
        return np.asarray(self.tokenizer(text, add_special_tokens=False)["input_ids"], dtype=np.int64)

    def _set(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)

    def _study_template(self) -> None:
        """Find out what the template does with a system prompt, with earlier turns and with thoughts."""
        if not getattr(self.tokenizer, "chat_template", None):
            raise ValueError(
                "the tokenizer has no chat template.\n"
                "  Pass chat=False for a plain language model, or set tokenizer.chat_template."
            )
        ways = [False]
        if self.system_prompt:
            ways = [False, True] if chat_template.knows_system(self.tokenizer, self.template_arguments) else [True]
        problems: list[str | None] = []
        for way in ways:
            self._set("_folds_system", way)
            problems.append(self._problem())
            if problems[-1] is None:
                break
        else:
            self._set("_folds_system", ways[0])
            warnings.warn(str(problems[0]), RuntimeWarning, stacklevel=4)
        asked = self._render([{"role": "user", "content": QUESTION}])
        self._set("opened_thought", chat_template.open_thought(asked.rpartition(QUESTION)[2]))
        try:
            self._render([{"role": "user", "content": ""}])
        except TemplateRefusal:
            self._set("_refuses_nothing", True)

    def _problem(self) -> str | None:
        """How a rendered conversation differs from its turns one after the other, or None.

        Thoughts may differ: templates open one in the last turn, and leave those of earlier turns out.

        Raises:
            ValueError: if there is nothing between two turns that could be put there.
        """
        try:
            first = self._render([{"role": "user", "content": QUESTION}])
            whole = self._render(_two_turns(NEXT_QUESTION))
        except TemplateRefusal as error:
            raise ValueError(
                f"the chat template refuses a conversation of user, assistant and user: {error}\n"
                f"  template_arguments are {dict(self.template_arguments)}. Correct them, set another "
                "tokenizer.chat_template, or pass chat=False."
            ) from error
        before, _, between = whole.partition(ANSWER)
        if NEXT_QUESTION not in between:
            raise ValueError(
                "the chat template does not show an earlier answer and what the user said after it:\n"
                f"  {whole!r}\n"
                "  An episode has several turns. Set another tokenizer.chat_template, or pass chat=False."
            )
        if chat_template.without_last_thought(before).startswith(chat_template.without_last_thought(first)):
            return None
        return (
            "the chat template writes a turn differently once another one follows it:\n"
            f"  first    {first!r}\n  followed {before!r}\n"
            "  Later prompts go on from the first form, which is not what the model was trained with."
        )

    def _find_end(self) -> int:
        if self.chat:
            found = chat_template.end_of_turn(self.tokenizer, self.template_arguments)
            if found is not None:
                return found
        named = [*_ids(getattr(self.tokenizer, "eos_token_id", None)), *self.stop_ids]
        if not named:
            raise ValueError(
                "neither the chat template nor the tokenizer nor the model names a token that ends a turn: set "
                "tokenizer.eos_token, or give stop_ids"
            )
        return named[0]


def stop_tokens(model: Any, tokenizer: Any) -> tuple[int, ...]:
    """Token ids that end a turn: the chat template's, the tokenizer's and every one in the model's generation settings.

    Returns:
        In ascending order; empty if none is named anywhere.
    """
    settings = getattr(model, "generation_config", None)
    found = {
        *_ids(chat_template.end_of_turn(tokenizer)),
        *_ids(getattr(tokenizer, "eos_token_id", None)),
        *_ids(getattr(settings, "eos_token_id", None)),
    }
    return tuple(sorted(found))


def _ids(value: Any) -> list[int]:
    if value is None:
        return []
    return [value] if isinstance(value, int) else [int(item) for item in value]


def _two_turns(observation: str) -> list[dict[str, str]]:
    return [
        {"role": "user", "content": QUESTION},
        {"role": "assistant", "content": ANSWER},
        {"role": "user", "content": observation},
    ]
