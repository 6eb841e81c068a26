"""What an experiment hands back, and how the results page is written from it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.theory.measuring import Estimate
from wmrl_gym.reporting.markup import markdown_table

Cell = str | float | int | None | Estimate


@dataclass(frozen=True)
class Settings:
    """How much is run."""

    seeds: int = 6
    steps: int = 1500
    """Training steps of the longest runs."""
    repetitions: int = 3000
    """Gradient estimates at a fixed policy."""
    maps: int = 64
    """Maps fitted per number of pairs."""

    @classmethod
    def quick(cls) -> Settings:
        return cls(seeds=2, steps=300, repetitions=300, maps=4)


@dataclass(frozen=True)
class Table:
    """Rows of predicted against measured."""

    header: Sequence[str]
    rows: Sequence[Sequence[Any]]
    """Each entry a `Cell`."""

    def markdown(self) -> str:
        rows = [[cell_text(cell) for cell in row] for row in self.rows]
        return "\n".join(markdown_table(self.header, rows, left=len(self.header)))


@dataclass(frozen=True)
class Section:
    """One experiment's part of the results page."""

    title: str
    parts: Sequence[str | Table]
    figures: Sequence[str] = ()
    """File names of the plots, which lie next to the page."""

    def markdown(self) -> str:
        body = [part.markdown() if isinstance(part, Table) else part for part in self.parts]
        images = [f"![{self.title}]({name})" for name in self.figures]
        return "\n\n".join([f"## {self.title}", *images, *body])


def cell_text(cell: Cell) -> str:
    if cell is None:
        return "–"
    return f"{cell:.3g}" if isinstance(cell, float) else str(cell)


def yes_or_no(answer: bool) -> str:
    return "yes" if answer else "no"


def write_page(path: Path, command: str, settings: Settings, sections: Sequence[Section]) -> None:
    head = (
        "# The theory's predictions, measured\n\n"
        f"Written by `{command}` ({settings.seeds} seeds, {settings.steps} steps, {settings.repetitions} gradient "
        "estimates at a fixed policy). What it means is in [docs/theory.md](../../docs/theory.md). "
        "Brackets are 95 % intervals (from few seeds, these are somewhat too narrow); predictions are computed "
        "from the problem, never fitted to the runs."
    )
    path.write_text("\n\n".join([head, *[section.markdown() for section in sections]]) + "\n", encoding="utf-8")
