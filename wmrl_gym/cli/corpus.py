"""``wmrl corpus``: solutions by several authors with what really became of them."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Sequence
from typing import Any

from rich.console import Console

from wmrl_gym.cli.configuration import run_configured
from wmrl_gym.corpus.file import Record
from wmrl_gym.runs.corpus_drawing import CorpusDrawing


def corpus(plain: dict[str, Any]) -> int:
    """Write a corpus, going on with an interrupted call's work. Returns the exit code."""
    console = Console()
    drawing = CorpusDrawing.from_config(plain)
    output, count = drawing.config.output, drawing.config.count
    if drawing.finished() is not None:
        console.print(f"{output} is finished already, with these settings", highlight=False)
        return 0
    try:
        written = drawing.write(lambda done: console.print(f"{done} of {count} solutions", highlight=False))
    except KeyboardInterrupt:
        console.print("stopped; the same command goes on from here")
        return 130
    for line in summary(written.records):
        console.print(line, highlight=False)
    size = output.stat().st_size / 1e3
    console.print(f"wrote {output} ({size:.0f} kB): wmrl fidelity corpus={output}", highlight=False)
    return 0


def summary(records: Sequence[Record]) -> list[str]:
    """How many of which author ended how."""
    lines = []
    for author in sorted({record.author for record in records}):
        statuses = Counter(record.status for record in records if record.author == author)
        counts = ", ".join(f"{number} {status}" for status, number in statuses.most_common())
        lines.append(f"{author}: {statuses.total()} ({counts})")
    return lines


def run(options: argparse.Namespace) -> int:
    """``wmrl corpus``."""
    return run_configured(options, corpus)
