"""Rows of text as tables in Markdown and LaTeX."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

_LATEX = {
    "\\": r"\textbackslash{}",
    "_": r"\_",
    "%": r"\%",
    "&": r"\&",
    "#": r"\#",
    "$": r"\$",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
}


def markdown_table(headings: Sequence[str], rows: Iterable[Sequence[str]], left: int = 1) -> list[str]:
    """The lines of a Markdown table, whose first `left` columns are flush left and the others right."""
    rule = ["---" if index < left else "---:" for index in range(len(headings))]
    return ["| " + " | ".join(cells) + " |" for cells in (headings, rule, *rows)]


def latex_row(cells: Sequence[str]) -> str:
    """One line of a LaTeX ``tabular``."""
    return " & ".join(map(latex_escaped, cells)) + r" \\"


def latex_escaped(text: str) -> str:
    """Text that LaTeX shows as it is."""
    return "".join(_LATEX.get(character, character) for character in text)
