"""Reads an action off a language model's text.

A fenced block of Python is code to execute; ``<action>request_info</action>`` asks for the listing of the data;
anything else is malformed (paper, "The agent").
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

ActionKind = Literal["execute", "request_info", "malformed"]

# An unclosed fence runs to the end of the text: generation may have been cut right there.
_CODE = re.compile(
    r"```(?:python3?|py)[ \t]*\r?\n(?P<code>.*?)(?:```[ \t]*\r?$|\Z)", re.DOTALL | re.MULTILINE | re.IGNORECASE
)
_REQUEST = re.compile(r"<action>\s*request_info\s*</action>", re.IGNORECASE)
_THOUGHT = re.compile(r"<think>.*?</think>", re.DOTALL)


@dataclass(frozen=True)
class Action:
    """What an agent wants."""

    kind: ActionKind
    code: str = ""
    """The script, for "execute"."""
    problem: str = ""
    """What was wrong, for "malformed"."""


def parse_action(text: str) -> Action:
    """Read one action; never raises.

    Of several code blocks the last counts: models sketch first and write the whole script at the end. Code wins over
    a request in the same text. What stands between ``<think>`` and ``</think>`` is not looked at.
    """
    text = _THOUGHT.sub("", text)
    blocks = [match["code"] for match in _CODE.finditer(text)]
    written = [code for code in blocks if code.strip()]
    if written:
        return Action("execute", code=written[-1])
    if _REQUEST.search(text):
        return Action("request_info")
    if blocks:
        return Action("malformed", problem="the ```python block is empty")
    return Action("malformed", problem="the answer holds no ```python block")
