"""Reads an action off a language model's text.

A fenced block of Python is code to execute; ``<action>request_info</action>`` asks for the listing of the data;
anything else is malformed (paper, "The agent").
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

ActionKind = Literal["execute", "request_info", "malformed"]

# Possessive, and from the first backtick of a run only, so that no text takes more than one pass.
_MARK = re.compile(
    r"(?P<think><think>)|(?P<thought></think>)"
    r"|(?<!`)(?P<fence>`{3,}+)"
    r"(?:(?P<end>[ \t]*+\r?$)|[ \t]*+\{?\.?(?:python[\d.]*+|py)(?=[\s:,}])(?P<rest>[^`\n]*+)\n)",
    re.MULTILINE | re.IGNORECASE,
)
_REQUEST = re.compile(r"<action>\s*+request_info\s*+</action>", re.IGNORECASE)
# "```python import os": the line that belongs to the fence is code already.
_FIRST_IMPORT = re.compile(r"[ \t]*(?:import|from)[ \t]")
_FENCE_LINE = re.compile(r"^[ \t]*+(?P<fence>`{3,}+)(?P<label>[^`\n]*+)$\n?", re.MULTILINE)
_BLANK = re.compile(r"(?:[ \t]*+(?:#[^\n]*+)?\r?\n)*+")
_STATEMENT = re.compile(
    r"import[ \t]+[\w.]+[ \t]*(?:$|[,;#\r\n]|as\b)|from[ \t]+[\w.]+[ \t]+import\b"
    r"|(?:async[ \t]+)?(?:def|class)[ \t]+\w+[ \t]*[(:\[]|@\w"
    r"|(?:try|if|for|while|with)\b[^\n]*:[ \t]*(?:$|[#\r\n])"
    r"|[rbfuRBFU]{0,2}(?:\"\"\"|''')"
    # a call, an assignment, one with a type or to several names
    r"|[A-Za-z_][\w.]*+(?:\[[^\]\n]*+\])?+(?:\(|[ \t]*(?:[-+*/%|&]?=(?!=)|[:,][ \t]*\w[^\n=]*+=(?!=)))"
)


@dataclass(frozen=True)
class Action:
    """What an agent wants."""

    kind: ActionKind
    code: str = ""
    """The script, for "execute"."""
    problem: str = ""
    """What was wrong, for "malformed"."""


def parse_action(text: str) -> Action:
    """Read one action; never raises, and takes time in proportion to the text.

    Code is what stands in a fence labelled ``python``, ``python3`` or ``py``; a space before the label and attributes
    after it (``title="x"``) change nothing. A fence that is never closed runs to the end of the text, because
    generation may have been cut right there. Of several blocks the last counts: models sketch first and write the
    whole script at the end. Code wins over a request in the same text.

    A fence without a label counts where there is neither a labelled one nor a request, if it looks like Python: if its
    first line that is neither empty nor a comment begins as a statement does (an import, a definition, an assignment,
    a call). It is looked at and not compiled, so a listing or an error message that is quoted is no script, and text
    that merely begins like Python is a script with a syntax error.

    Thoughts are not looked at. One begins at ``<think>``, or at the beginning of the text where a ``</think>`` has no
    such tag before it (the prompt may have opened it), and ends at ``</think>``; one that never ends is an answer
    without code. Tags inside a block of code belong to the code.
    """
    found = _read(text)
    written = [code for code in found.blocks if code.strip()]
    if written:
        return Action("execute", code=written[-1])
    if _REQUEST.search(found.spoken):
        return Action("request_info")
    unlabelled = _unlabelled(found.spoken)
    if unlabelled:
        return Action("execute", code=unlabelled[-1])
    if found.blocks:
        return Action("malformed", problem="the ```python block is empty")
    if found.thinking:
        return Action("malformed", problem="the thought never ends, and nothing follows it")
    return Action("malformed", problem="the answer holds no ```python block")


@dataclass(frozen=True)
class _Found:
    """What an answer holds besides thoughts."""

    blocks: list[str]
    """Labelled as Python, in order."""
    spoken: str
    """Everything outside thoughts and blocks."""
    thinking: bool
    """Whether the text ends inside a thought."""


def _read(text: str) -> _Found:
    """One pass over fences and tags; `where` is what the text is inside of."""
    blocks: list[str] = []
    spoken: list[str] = []
    where: Literal["speech", "thought", "code"] = "speech"
    start = 0  # of the present piece of speech, or of code
    fence, first = "", ""  # of the present block: its backticks, and code on their line
    inner = False  # whether the present block holds an opening tag without its end
    stray: int | None = None  # where a thought ended, if the present block turns out to be a draft inside it
    for mark in _MARK.finditer(text):
        opens = mark["fence"] is not None and mark["end"] is None
        if where == "thought":
            if mark["thought"]:
                where, start = "speech", mark.end()
        elif where == "speech":
            if mark["thought"]:  # all that was said until here was a thought
                blocks, spoken, start = [], [], mark.end()
            elif mark["think"]:
                spoken.append(text[start : mark.start()])
                where = "thought"
            elif opens:
                spoken.append(text[start : mark.start()])
                where, start, fence, first = "code", mark.end(), mark["fence"], _first_line(mark)
                inner, stray = False, None
        elif mark["think"]:
            inner = True
        elif mark["thought"]:
            inner, stray = False, stray if inner else mark.end()
        elif opens and stray is not None:  # nobody writes a fence in a fence after the end of a thought
            blocks, spoken = [], [text[stray : mark.start()]]
            start, fence, first = mark.end(), mark["fence"], _first_line(mark)
            inner, stray = False, None
        elif mark["end"] is not None and len(mark["fence"]) >= len(fence):
            blocks.append(first + text[start : mark.start()])
            where, start = "speech", mark.end()
    if where == "code" and stray is not None:
        return _Found([], text[stray:], False)
    if where == "code":
        blocks.append(first + text[start:])
    elif where == "speech":
        spoken.append(text[start:])
    return _Found(blocks, "\n".join(spoken), where == "thought")


def _first_line(mark: re.Match[str]) -> str:
    rest = mark["rest"]
    return f"{rest.strip()}\n" if _FIRST_IMPORT.match(rest) else ""


def _unlabelled(text: str) -> list[str]:
    """Blocks without a label that look like Python."""
    blocks: list[tuple[str, str]] = []
    start, fence, label = None, "", ""
    for mark in _FENCE_LINE.finditer(text):
        if start is not None and len(mark["fence"]) < len(fence):
            continue
        closes = start is not None and not mark["label"].strip()
        if start is not None:
            blocks.append((label, text[start : mark.start()]))
        start, fence, label = (None, "", "") if closes else (mark.end(), mark["fence"], mark["label"].strip())
    if start is not None:
        blocks.append((label, text[start:]))
    return [code for label, code in blocks if not label and _looks_like_python(code)]


def _looks_like_python(code: str) -> bool:
    blank = _BLANK.match(code)
    return _STATEMENT.match(code, blank.end() if blank else 0) is not None
