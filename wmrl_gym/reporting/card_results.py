"""A run's own evaluations side by side, with intervals, for the card of an exported agent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from wmrl_gym.reporting.evaluation_tables import EvaluationTables, Row, evaluation_tables
from wmrl_gym.reporting.markup import markdown_table


def card_results(evaluations: Mapping[str, Mapping[str, Any]]) -> str:
    """A Markdown table with a row for each task and a column for each evaluation.

    Args:
        evaluations: when -> an evaluation as plain data, as a run writes it.
    """
    tables = {when: evaluation_tables(data, title=when) for when, data in evaluations.items()}
    rows = {when: {(row.kind, row.name): row for row in table.rows} for when, table in tables.items()}
    keys = dict.fromkeys(key for found in rows.values() for key in found)
    lines = [[key[1], *(_cell(tables[when], rows[when].get(key)) for when in tables)] for key in keys]
    notes = [f"Measure: {', '.join(dict.fromkeys(table.measure.replace('_', ' ') for table in tables.values()))}."]
    notes.append("Failures count 0; brackets are 95 % bootstrap intervals over episodes.")
    notes += [
        f"{when.capitalize()}: {table.samples} episodes a task, {table.unknown} without a result."
        for when, table in tables.items()
    ]
    return "\n".join([*markdown_table(["task", *tables], lines), "", *(f"- {note}" for note in notes)])


def _cell(tables: EvaluationTables, row: Row | None) -> str:
    return "-" if row is None else tables.score_text(row.score)
