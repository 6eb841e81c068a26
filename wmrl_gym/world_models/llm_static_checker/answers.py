"""From whatever a model wrote to the JSON objects that may be its answer.

Nothing here believes anything about the text: it may be cut off, wrapped in prose or fences, nested a thousand deep,
written like Python, or not be text at all. What cannot be read without guessing is not read.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from typing import Any

MAX_CHARS = 100_000
"""Of a longer answer only the head is looked at."""

_MAX_STARTS = 100
_MAX_NODES = 1000
_MAX_DEPTH = 20

CONFLICT = object()
"""Value of a key that stands twice in an object, with two different values: of no type, so no field accepts it."""


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        found[key] = CONFLICT if key in found and found[key] != value else value
    return found


# NaN and Infinity are not JSON; as None they are values of the wrong type. Raw newlines in a string do no harm.
_DECODER = json.JSONDecoder(object_pairs_hook=_pairs, parse_constant=lambda name: None, strict=False)


def as_text(answer: object) -> str:
    """The answer as text that can be written to a file: bytes decoded, lone surrogates replaced, length limited."""
    if isinstance(answer, bytes | bytearray):
        return bytes(answer[: 4 * MAX_CHARS]).decode("utf-8", "replace")[:MAX_CHARS]
    return writable(answer[:MAX_CHARS]) if isinstance(answer, str) else ""


def writable(text: str) -> str:
    """The text with lone surrogates replaced: they cannot be encoded."""
    return text.encode("utf-8", "replace").decode("utf-8")


def candidates(text: str, key: str, *, finished: bool) -> tuple[list[dict[str, Any]], bool]:
    """Objects with `key` in an answer.

    Args:
        text: the answer.
        key: what the object looked for must have.
        finished: whether the model ended by itself; False if it was cut off.

    Returns:
        (objects, whether the answer had to be repaired to find them).
    """
    whole = _decode(text.strip())
    if isinstance(whole, dict) and key in whole:
        return [whole], False
    text = _after_thinking(text)
    found = [item for value in _values(text) for item in _having(value, key)]
    if not found:
        found = [item for value in _mended(text, finished) for item in _having(value, key)]
    return found, True


def _decode(text: str) -> Any:
    # A RecursionError is nesting, a ValueError also a number of thousands of digits.
    try:
        return _DECODER.decode(text)
    except (ValueError, RecursionError, MemoryError):
        return None


def _after_thinking(text: str) -> str:
    """Without the thoughts; an answer that was cut off in the midst of them holds nothing but drafts."""
    if "</think>" in text:
        return text.rpartition("</think>")[2]
    return "" if "<think>" in text else text


def _values(text: str) -> Iterator[Any]:
    """Every complete object in a text, outermost ones only."""
    position, starts = text.find("{"), 0
    while position >= 0 and starts < _MAX_STARTS:
        starts += 1
        try:
            value, end = _DECODER.raw_decode(text, position)
        except (ValueError, RecursionError, MemoryError):
            end = position + 1
        else:
            yield value
        position = text.find("{", end)


def _having(value: Any, key: str) -> list[dict[str, Any]]:
    """The outermost objects with that key inside a value, without recursion."""
    found, waiting, seen = [], [value], 0
    while waiting and seen < _MAX_NODES:
        item = waiting.pop(0)
        seen += 1
        if isinstance(item, dict) and key in item:
            found.append(item)
        elif isinstance(item, dict):
            waiting.extend(item.values())
        elif isinstance(item, list):
            waiting.extend(item)
    return found


def _mended(text: str, finished: bool) -> Iterator[Any]:
    start = re.search(r"\{\s*[\"']", text)
    if start is None:
        return
    body = text[start.start() :]
    python = _as_python(body)
    if python is not None:
        yield python
        return
    last_comma, depth = _scan(body)
    closed = None
    if finished and depth == 1:
        # The model thought that it was done: only the brace is missing.
        closed = _decode(body.rstrip() + "}")
    elif last_comma is not None and (not finished or re.fullmatch(r",\s*\}\s*(```\s*)?", body[last_comma:])):
        # What was cut off goes, up to the last member that is certainly complete; so does a trailing comma.
        closed = _decode(body[:last_comma] + "}")
    if closed is not None:
        yield closed


def _as_python(body: str) -> Any:
    """The answer of a model that wrote a dictionary of Python's: single quotes, None, trailing commas."""
    body = body[: body.rfind("}") + 1]
    if _scan(body)[1] != 0 or body.count("{") + body.count("[") + body.count("(") > _MAX_DEPTH:
        return None
    try:
        value = ast.literal_eval(body)
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        return None
    return value if isinstance(value, dict) else None


def _scan(body: str) -> tuple[int | None, int]:
    """(place of the last comma between members of the outer object, how many brackets are still open at the end)."""
    depth, quoted, escaped = 0, False, False
    comma: int | None = None
    for place, char in enumerate(body):
        if quoted:
            escaped, quoted = char == "\\" and not escaped, quoted and (char != '"' or escaped)
        elif char == '"':
            quoted = True
        elif char in "{[":
            depth += 1
        elif char in "}]":
            depth -= 1
        elif char == "," and depth == 1:
            comma = place
    return comma, depth + (1 if quoted else 0)
