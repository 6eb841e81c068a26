"""What a person sees of a comparison: whose turn it is, and its steps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console


class SliceDisplay:
    """One line for each step, naming arm and seed, so that a log reads well although the arms take turns."""

    def __init__(self, console: Console, arm: str, seed: int, steps: int, success_status: str | None) -> None:
        self._console = console
        self._steps = steps
        self._shown = list(_SHOWN)
        if success_status is not None:
            self._shown.insert(3, (f"status/{success_status}", success_status))
        self._prefix = f"{arm} s{seed}"

    def stage(self, text: str) -> None:
        """Say what is going on."""
        self._print(text)

    def step(self, step: int, metrics: Mapping[str, Any]) -> None:
        """Show a finished step."""
        told = " ".join(f"{name} {_number(metrics.get(key))}" for key, name in self._shown)
        self._print(f"{step + 1}/{self._steps} {told}")

    def _print(self, text: str) -> None:
        self._console.print(f"{self._prefix} {text}", highlight=False, markup=False, soft_wrap=True)


_SHOWN = (
    ("reward", "reward"),
    ("predicted_score", "predicted"),
    ("executed_score", "executed"),
    ("executions", "executions"),
    ("seconds", "seconds"),
)


def _number(value: Any) -> str:
    return "-" if value is None else f"{float(value):.3g}"
