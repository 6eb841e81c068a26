"""The script as a language model is shown it: without comments, numbered as in the original, cut to a length."""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Sequence

from wmrl_gym.world_models.llm_static_checker.injection import defang


def listing(script: str, max_chars: int, *, strip_comments: bool = True) -> str:
    """A script that compiles, as numbered lines: "12| code". Blank lines are left out, their numbers too.

    Because every line begins with its number, no line of the script can look like the end of the listing.

    Args:
        script: Python source.
        max_chars: most characters of code; longer ones lose whole lines in the middle, with a note.
        strip_comments: leave out comments and docstrings: they mean nothing to the machine, and so should mean nothing
            to the judge.
    """
    lines = source_lines(script)
    if strip_comments:
        lines = without_comments(lines)
    numbered = [(number, defang(line.rstrip())) for number, line in enumerate(lines, start=1) if line.strip()]
    return "\n".join(_cut(numbered, max_chars))


def source_lines(script: str) -> list[str]:
    """Lines as Python counts them, which is not how `str.splitlines` does."""
    return script.replace("\r\n", "\n").replace("\r", "\n").split("\n")


def without_comments(lines: Sequence[str]) -> list[str]:
    """The same number of lines, without comments and without strings that stand alone as statements.

    Such a string, a docstring for example, is replaced by ``...``, so that a body made of nothing else still is one.
    """
    source = "\n".join(lines)
    kept = list(lines)
    # Comments first: they end their line, so cutting them moves nothing that stands before.
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            kept[row - 1] = kept[row - 1][:column]
    strings = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Expr) and _is_string(node.value)]
    for node in sorted(strings, key=lambda node: (node.lineno, node.col_offset), reverse=True):
        _replace(kept, node)
    return kept


def _is_string(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and isinstance(value.value, str | bytes)


def _replace(lines: list[str], node: ast.Expr) -> None:
    first, last = node.lineno - 1, (node.end_lineno or node.lineno) - 1
    # Python's columns are bytes of UTF-8.
    head = lines[first].encode()[: node.col_offset].decode()
    tail = lines[last].encode()[node.end_col_offset :].decode()
    lines[first : last + 1] = [f"{head}...{tail}", *[""] * (last - first)]


def _cut(numbered: Sequence[tuple[int, str]], max_chars: int) -> list[str]:
    longest = max(80, max_chars // 4)
    shown = [(number, _cut_line(line, longest)) for number, line in numbered]
    if sum(len(line) + 1 for _, line in shown) <= max_chars:
        return [f"{number}| {line}" for number, line in shown]
    head = _as_many_as_fit(shown, max_chars * 2 // 5)
    tail = _as_many_as_fit(shown[::-1], max_chars - max_chars * 2 // 5)
    left_out = shown[head : len(shown) - tail]
    note = f"(lines {left_out[0][0]} to {left_out[-1][0]} are left out here)"
    lines = [f"{number}| {line}" for number, line in shown]
    return [*lines[:head], note, *lines[len(lines) - tail :]]


def _as_many_as_fit(lines: Sequence[tuple[int, str]], room: int) -> int:
    for count, (_, line) in enumerate(lines):
        room -= len(line) + 1
        if room < 0:
            return count
    return len(lines)


def _cut_line(line: str, longest: int) -> str:
    if len(line) <= longest:
        return line
    half = longest // 2 - 20
    return f"{line[:half]} (... {len(line) - 2 * half} characters left out ...) {line[-half:]}"
