"""The tables of an evaluation on the terminal, and as JSON, Markdown and LaTeX files."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from wmrl_gym.reporting.evaluation_tables import EvaluationTables
from wmrl_gym.reporting.markup import latex_escaped, latex_row, markdown_table
from wmrl_gym.runs.records.run_directory import write_atomically

MOST_TURNS = 8
"""Episodes of more turns (chunks of a robot's actions) are shown turn by turn in the JSON file only."""


def write_evaluation(
    folder: Path,
    stem: str,
    data: Mapping[str, Any],
    tables: EvaluationTables,
    settings: Mapping[str, Any] | None = None,
) -> list[Path]:
    """Write ``stem.json`` (episodes, summary and settings), ``stem.md`` and ``stem.tex``; return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    whole = {**data, "summary": tables.to_dict(), "settings": dict(settings or {})}
    texts = {"json": json.dumps(whole, indent=2), "md": markdown(tables), "tex": latex(tables)}
    paths = []
    for ending, text in texts.items():
        paths.append(folder / f"{stem}.{ending}")
        write_atomically(paths[-1], text)
    return paths


def markdown(tables: EvaluationTables) -> str:
    """As Markdown."""
    rows = [
        [f"**{cell}**" if row.kind != "task" and index == 0 else cell for index, cell in enumerate(tables.cells(row))]
        for row in tables.rows
    ]
    header, by_turn = tables.turn_lines()
    parts = [f"### {tables.title}", "\n".join(markdown_table(tables.headings(), rows, left=2))]
    if 1 < len(tables.turns) <= MOST_TURNS:
        parts.append("\n".join(markdown_table(header, by_turn)))
    parts.append("\n".join(f"- {note}" for note in tables.notes()))
    return "\n\n".join(parts) + "\n"


def latex(tables: EvaluationTables) -> str:
    """As LaTeX, with the package booktabs: the numbers without intervals, a rule before each kind of row."""
    headings = tables.headings()
    lines = [
        "% needs \\usepackage{booktabs}",
        "\\begin{table}",
        f"\\caption{{{latex_escaped(tables.title)}. {latex_escaped(' '.join(tables.notes()))}}}",
        f"\\begin{{tabular}}{{ll{'r' * (len(headings) - 2)}}}",
        "\\toprule",
        latex_row(headings),
    ]
    kind = None
    for row in tables.rows:
        if row.kind != kind:
            lines.append("\\midrule")
            kind = row.kind
        lines.append(latex_row(tables.cells(row, intervals=False)))
    return "\n".join([*lines, "\\bottomrule", "\\end{tabular}", "\\end{table}"]) + "\n"


def show(tables: EvaluationTables, console: Console) -> None:
    """On the terminal."""
    table = Table(title=tables.title, title_justify="left", box=box.SIMPLE_HEAVY)
    for index, heading in enumerate(_without_category(tables.headings())):
        table.add_column(heading, justify="left" if index == 0 else "right", no_wrap=True)
    kind = "task"
    for row in tables.rows:
        if row.kind != kind:
            table.add_section()
            kind = row.kind
        table.add_row(*_without_category(tables.cells(row, intervals=False)))
    console.print(table)
    if 1 < len(tables.turns) <= MOST_TURNS:
        header, lines = tables.turn_lines(intervals=False)
        by_turn = Table(box=box.SIMPLE_HEAVY)
        for index, heading in enumerate(header):
            by_turn.add_column(heading, justify="left" if index < 1 else "right", no_wrap=True)
        for line in lines:
            by_turn.add_row(*line)
        console.print(by_turn)
    for row in tables.rows:
        if row.kind == "average":
            number = tables.score_text(row.score)
            console.print(f" {tables.measure.replace('_', ' ')}, {row.name}: {number}", highlight=False, markup=False)
    for note in tables.notes():
        console.print(f" {note}", highlight=False, soft_wrap=True, markup=False)


def _without_category(cells: Sequence[str]) -> list[str]:
    return [cells[0], *cells[2:]]
