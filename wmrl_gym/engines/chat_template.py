"""What a chat template does with a conversation, found out by rendering one.

Templates have no other way to say whether they know a system's role, which token ends a turn, or that an answer
begins inside a thought.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

ChatMessages = Sequence[Mapping[str, str]]

QUESTION, ANSWER, NEXT_QUESTION = "FIRST-QUESTION-OF-ALL", "ANSWER-TO-THE-FIRST-QUESTION", "QUESTION-AFTER-THE-FIRST"
"""Stand for what is said. Without spaces and brackets, which some templates rewrite."""
_INSTRUCTION = "INSTRUCTION-TO-THE-ASSISTANT"

THOUGHT_TAGS: Mapping[str, str] = {
    "<think>": "</think>",
    "[THINK]": "[/THINK]",
    "<seed:think>": "</seed:think>",
}
"""What opens a thought, and what closes it."""
_TAG = re.compile("|".join(re.escape(tag) for pair in THOUGHT_TAGS.items() for tag in pair))


class TemplateRefusal(ValueError):
    """The template does not take these messages."""


def render(
    tokenizer: Any,
    messages: ChatMessages,
    arguments: Mapping[str, Any] | None = None,
    *,
    ask: bool = True,
    fold: bool = False,
) -> str:
    """A conversation as the template writes it.

    Args:
        tokenizer: whose template.
        messages: with "role" and "content".
        arguments: further arguments of the template, for example ``{"enable_thinking": False}``.
        ask: end with what makes the model answer.
        fold: put what the system says before the first message of the user, for templates that know no system.

    Raises:
        TemplateRefusal: with the template's own words.
    """
    try:
        return str(
            tokenizer.apply_chat_template(
                fold_system(messages) if fold else [dict(message) for message in messages],
                tokenize=False,
                add_generation_prompt=ask,
                **dict(arguments or {}),
            )
        )
    except Exception as error:  # a template is a program, and may fail in any way
        raise TemplateRefusal(f"{type(error).__name__}: {error}") from error


def fold_system(messages: ChatMessages) -> list[dict[str, str]]:
    """The messages without a system: what it said stands before the first message of the user."""
    said = "\n\n".join(message["content"] for message in messages if message["role"] == "system")
    others = [dict(message) for message in messages if message["role"] != "system"]
    if not said:
        return others
    for message in others:
        if message["role"] == "user":
            message["content"] = f"{said}\n\n{message['content']}"
            return others
    return [{"role": "user", "content": said}, *others]


def knows_system(tokenizer: Any, arguments: Mapping[str, Any] | None = None) -> bool:
    """Whether the template takes a system's message, and shows it."""
    messages = [{"role": "system", "content": _INSTRUCTION}, {"role": "user", "content": QUESTION}]
    try:
        return _INSTRUCTION in render(tokenizer, messages, arguments)
    except TemplateRefusal:
        return False


def end_of_turn(tokenizer: Any, arguments: Mapping[str, Any] | None = None) -> int | None:
    """The token that the template puts after an answer; None if it puts none there, or there is no template."""
    if not getattr(tokenizer, "chat_template", None):
        return None
    messages = [{"role": "user", "content": QUESTION}, {"role": "assistant", "content": ANSWER}]
    try:
        tail = render(tokenizer, messages, arguments, ask=False).partition(ANSWER)[2]
    except TemplateRefusal:
        return None
    ids = [int(token) for token in tokenizer(tail.lstrip(), add_special_tokens=False)["input_ids"]]
    special = special_tokens(tokenizer)
    for token in ids:
        if token in special:
            return token
    # Some models were given their end of turn as an added token that is not called special.
    return ids[0] if ids and ids[0] in (getattr(tokenizer, "added_tokens_decoder", None) or {}) else None


def special_tokens(tokenizer: Any) -> dict[int, str]:
    """Every control token of a tokenizer, by id; also those that have no name there (``<|reserved|>``)."""
    ids, texts = getattr(tokenizer, "all_special_ids", ()), getattr(tokenizer, "all_special_tokens", ())
    found = {int(token): str(text) for token, text in zip(ids, texts, strict=True)}
    for token, added in (getattr(tokenizer, "added_tokens_decoder", None) or {}).items():
        if getattr(added, "special", False):
            found[int(token)] = str(added)
    return found


def thought_tokens(tokenizer: Any) -> dict[int, str]:
    """Tags of thoughts that are tokens of their own, special or not, by id."""
    tags = {tag for pair in THOUGHT_TAGS.items() for tag in pair}
    added = (getattr(tokenizer, "added_tokens_decoder", None) or {}).items()
    return {int(token): str(text) for token, text in added if str(text) in tags}


def tag_at(text: str) -> str | None:
    """The tag with which a text opens a thought, or None."""
    return next((tag for tag in THOUGHT_TAGS if text.startswith(tag)), None)


def usual_tag(tag: str) -> str:
    """``<think>`` for what opens a thought, ``</think>`` for what closes one."""
    return "<think>" if tag in THOUGHT_TAGS else "</think>"


def open_thought(text: str) -> str:
    """The end of a text from the tag on that opens a thought; "" if the text does not end inside one."""
    last = None
    for tag in _TAG.finditer(text):
        last = tag
    return text[last.start() :] if last is not None and last[0] in THOUGHT_TAGS else ""


def without_last_thought(text: str) -> str:
    """A text without the space and the tags of thoughts at its end."""
    for tag in reversed(list(_TAG.finditer(text))):
        if text[tag.end() :].strip():
            break
        text = text[: tag.start()]
    return text.rstrip()
