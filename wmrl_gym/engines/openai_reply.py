"""What a chat server's reply says: an answer, an answer without the text that was asked for, or nothing of use."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Any

from wmrl_gym.engines.engine import Answer, ShortfallReason

_CONTEXT_STATUSES = (400, 413, 422)
_CONTEXT_CODES = ("context_length_exceeded", "exceed_context_size_error")
# OpenAI, vLLM, SGLang, llama.cpp, TGI, Anthropic, Mistral, Gemini: each in its own words.
_CONTEXT_WORDS = re.compile(
    r"maximum (?:context|model|prompt) length|context (?:length|window|size)[^.\n]{0,80}exceed"
    r"|(?:exceed|longer|larger|greater)[^.\n]{0,80}context (?:length|window|size)"
    r"|(?:prompt|input|context)s?(?: is| are)? too (?:long|large)|input token count[^.\n]{0,40}exceed"
    r"|reduce the length of the (?:messages|prompt|input)|`?inputs`? tokens \+ `?max_new_tokens`? must be",
    re.IGNORECASE,
)


class BrokenReply(ValueError):
    """The server said something that is no chat completion."""


def read_completion(completion: Any) -> Answer:
    """An answer from a completion, of which nothing is taken on trust: the client library checks no types.

    Raises:
        BrokenReply: if it is no chat completion, or holds neither a text nor a reason why there is none.
    """
    try:
        choice = completion.choices[0]
        message = choice.message
        content = message.content
        ended = choice.finish_reason
    except (AttributeError, TypeError, IndexError, KeyError) as error:
        raise BrokenReply(f"the reply is no chat completion: {str(completion)[:200]!r}") from error
    if content == []:
        content = None
    text = "" if content is None else _text(content)
    reason = _shortfall(message, ended, content, text)
    if text is None or (content is None and reason is None):
        raise BrokenReply(f"the reply holds no text (finish_reason {ended!r}, content {str(content)[:200]!r})")
    usage = getattr(completion, "usage", None)
    details = getattr(usage, "prompt_tokens_details", None)
    return Answer(
        # Lone surrogates are legal in JSON, and nowhere that the text may be written to later.
        text=text.encode("utf-8", "replace").decode("utf-8"),
        prompt_tokens=_count(usage, "prompt_tokens"),
        cached_tokens=_count(details, "cached_tokens"),
        generated_tokens=_count(usage, "completion_tokens"),
        finished=ended not in ("length", "content_filter"),
        reason=reason,
    )


def says_context_is_full(error: Exception) -> bool:
    """Whether the server refused a request because it and its answer do not fit into the model's context."""
    if getattr(error, "status_code", None) not in _CONTEXT_STATUSES:
        return False
    body = getattr(error, "body", None)
    # No more than what the server says itself: some send the request back with it, and prompts may hold any words.
    said = [body.get(name) for name in ("code", "type", "message", "detail")] if isinstance(body, Mapping) else [body]
    words = [item[:2000] for item in said if isinstance(item, str)]
    return any(word in _CONTEXT_CODES or _CONTEXT_WORDS.search(word) for word in words)


def retry_after(error: Exception) -> float | None:
    """Seconds that the server asks to wait; None if it does not say, or says it unintelligibly."""
    headers = getattr(getattr(error, "response", None), "headers", None) or {}
    said = str(headers.get("retry-after", "")).strip()
    try:
        seconds = float(said)
    except ValueError:
        try:
            seconds = max(0.0, parsedate_to_datetime(said).timestamp() - time.time())
        except (ValueError, TypeError, OverflowError):
            return None
    return seconds if math.isfinite(seconds) and seconds >= 0 else None


def _text(content: Any) -> str | None:
    """The text of a message, also where it comes in parts; None if it is no text at all."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list) or not all(isinstance(_field(part, "type"), str) for part in content):
        return None
    texts = [_field(part, "text") for part in content if _field(part, "type") in ("text", "output_text")]
    return "".join(text for text in texts if isinstance(text, str))


def _shortfall(message: Any, ended: Any, content: Any, text: str | None) -> ShortfallReason | None:
    """Why the text is not the answer that was asked for."""
    kinds = [_field(part, "type") for part in content] if isinstance(content, list) else []
    if ended == "length":
        return "length"
    if ended == "content_filter" or "refusal" in kinds or _holds(message, "refusal"):
        return "refusal"
    if ended in ("tool_calls", "function_call") or _holds(message, "tool_calls") or _holds(message, "function_call"):
        return "tool_calls"
    thoughts = kinds or _holds(message, "reasoning_content") or _holds(message, "reasoning")
    return "thoughts" if thoughts and not text else None


def _holds(message: Any, name: str) -> bool:
    value = getattr(message, name, None)
    return bool(value) and not isinstance(value, int | float)


def _field(part: Any, name: str) -> Any:
    return part.get(name) if isinstance(part, Mapping) else getattr(part, name, None)


def _count(holder: Any, name: str) -> int | None:
    value = getattr(holder, name, None)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
