"""Text in a script that talks to the judge instead of the machine: counted, and robbed of its control tokens.

Nobody can list all ways of asking a model for a good mark. What can be done for certain is done: control tokens lose
their meaning, invisible characters become visible, and whatever looks like an attempt is counted, so that a run in
which the agent learns this trick shows it.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize

from wmrl_gym.scriptcheck.limits import MAX_SOURCE

_NAMES = (
    "s|bos|eos|pad|unk|mask|think|tool_call|tool_response|tools|start_of_turn|end_of_turn|start_of_image|"
    "end_of_image|begin_of_text|end_of_text|im_start|im_end|eot|eom"
)
# Zero-width places, so that inserting a space there can never bring two halves of another token together.
_BREAKS = re.compile(
    rf"(?<=<)(?=[|｜])|(?<=[|｜])(?=>)|(?<=<)(?=/?(?:{_NAMES})>)|(?<=<)(?=</?SYS>>)"
    r"|(?<=\[)(?=/?(?:INST|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS|SYSTEM_PROMPT)\])",
    re.IGNORECASE,
)

_SUSPICIOUS: dict[str, re.Pattern[str]] = {
    "control token": re.compile(
        rf"<[|｜][^|｜<>\n]{{1,40}}[|｜]>|</?(?:{_NAMES})>|<</?SYS>>|\[/?INST\]", re.IGNORECASE
    ),
    "instruction": re.compile(
        r"\b(?:ignore|disregard|forget|override|bypass|skip)\b.{0,60}"
        r"\b(?:checks?|checkers?|instructions?|rules|prompts?|verdicts?|reviewers?|judges?|above)\b"
        r"|\b(?:answer|reply|respond|output|say|give)\b.{0,40}\b(?:pass|passes|passed|high|verdict|confidence)\b"
        r"|\b(?:system prompt|language model|you are an? (?:\w+ )?(?:judge|grader|checker|reviewer|assistant))\b",
        re.IGNORECASE,
    ),
    "forged verdict": re.compile(
        r"[\"']?\b(?:verdict|bucket|status|confidence)\b\\?[\"']?\s*[:=]\s*\\?[\"']?"
        r"(?:pass|passed|high|mid|valid|[01]?\.\d+|1)\b",
        re.IGNORECASE,
    ),
    "fake end of the code": re.compile(
        r"```|-{3,}\s*script\b|\bend of (?:the )?(?:code|script|submission)\b", re.IGNORECASE
    ),
}


def defang(text: str) -> str:
    """The text with control tokens of chat templates broken by a space, and unprintable characters spelled out.

    Unprintable are also lone surrogates, line separators that only some readers know, and marks that turn the
    direction of writing. Newlines and tabs stay.
    """
    text = _BREAKS.sub(" ", text)
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode("ascii") for c in text)


def suspicious_strings(script: str) -> list[str]:
    """Whatever in comments and string literals looks meant for a judge: "kind: excerpt", in order of the kinds.

    Code that does not parse, or is too long to be parsed in the trainer, is searched line by line.
    """
    texts = [" ".join(text.split()) for text in _written_texts(script)]
    return [
        f"{kind}: {match[0][:80]}"
        for kind, pattern in _SUSPICIOUS.items()
        for t in texts
        for match in pattern.finditer(t)
    ]


def _written_texts(script: str) -> list[str]:
    """Comments (neighbouring lines joined) and string literals (implicit concatenation joined)."""
    if len(script) > MAX_SOURCE:
        return script.splitlines()
    try:
        tree = ast.parse(script)
        tokens = [
            t
            for t in tokenize.generate_tokens(io.StringIO(script, newline=None).readline)
            if t.type == tokenize.COMMENT
        ]
    except (SyntaxError, ValueError, RecursionError, MemoryError, tokenize.TokenError):
        return script.splitlines()
    texts = [
        str(node.value) if isinstance(node.value, str) else node.value.decode("utf-8", "replace")
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)
    ]
    last_line = -1
    for token in tokens:
        comment = token.string.lstrip("#").strip()
        if token.start[0] == last_line + 1:
            texts[-1] += " " + comment
        else:
            texts.append(comment)
        last_line = token.start[0]
    return texts
