"""What a person sees while a run goes on: one line per step, and on a terminal a status line below."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.status import Status

from wmrl_gym.reporting.notation import duration


class Progress:
    """Prints steps as lines, so that a log file reads like the terminal; the status line exists on a terminal only.

    Args:
        total: number of steps.
        columns: metric name and heading of each column.
        console: where to print.
        every: so many steps make a line, and the last step another.
    """

    def __init__(
        self, total: int, columns: Sequence[tuple[str, str]], console: Console | None = None, every: int = 1
    ) -> None:
        self.console = console or Console()
        self._total, self._every = total, every
        self._columns = list(columns)
        self._status: Status | None = None
        self._begin = time.monotonic()
        self._first_step: int | None = None
        self._lines = 0

    def __enter__(self) -> Progress:
        """Start the clock and the status line."""
        self._begin = time.monotonic()
        if self.console.is_terminal:
            self._status = self.console.status("starting")
            self._status.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Take the status line away."""
        if self._status is not None:
            self._status.stop()
            self._status = None

    def stage(self, text: str) -> None:
        """Say what is going on: the status line on a terminal, else a line of its own."""
        if self._status is not None:
            self._status.update(text)
        else:
            self.console.print(text, highlight=False)

    def step(self, step: int, metrics: Mapping[str, Any]) -> None:
        """Print one step, if it is one of those that make a line.

        Args:
            step: its number, from 0.
            metrics: name -> number; a missing one is shown as "-".
        """
        if self._first_step is None:
            self._first_step = step
        if step % self._every and step != self._total - 1:
            return
        if self._lines % 20 == 0:
            headings = [f"{heading:>{_width(heading)}}" for _, heading in self._columns]
            self.console.print(f"{'step':>9} " + " ".join(headings), style="bold", highlight=False, soft_wrap=True)
        self._lines += 1
        cells = [f"{_number(metrics.get(name)):>{_width(heading)}}" for name, heading in self._columns]
        self.console.print(f"{f'{step + 1}/{self._total}':>9} " + " ".join(cells), highlight=False, soft_wrap=True)
        if self._status is not None:
            self._status.update(f"step {step + 2} of {self._total}, {self._remaining(step)} left")

    def _remaining(self, step: int) -> str:
        first = self._first_step or 0
        per_step = (time.monotonic() - self._begin) / (step - first + 1)
        return duration(per_step * (self._total - step - 1))


def _width(heading: str) -> int:
    return max(len(heading), 7)


def _number(value: Any) -> str:
    if value is None or (isinstance(value, float) and value != value):
        return "-"
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return f"{float(value):.3f}" if abs(float(value)) < 1000 else f"{float(value):.0f}"
