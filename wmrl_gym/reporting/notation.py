"""How the numbers of a measure are written: shares of 1 as percentages, whatever has another range as it is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from wmrl_gym.core import Measure


@dataclass(frozen=True)
class Notation:
    """Numbers of one measure as text."""

    is_share: bool

    def value(self, number: float) -> str:
        """A number by itself: ``41.2%`` or ``-3.25``."""
        return f"{number:.1%}" if self.is_share else f"{number:.4g}"

    def bound(self, number: float) -> str:
        """A number beside one that shows the unit: ``38.0`` or ``-4.5``."""
        return f"{100 * number:.1f}" if self.is_share else f"{number:.4g}"

    def change(self, number: float) -> str:
        """A difference of two numbers, with its sign, shares in percentage points: ``+3.1`` or ``+0.25``."""
        return f"{100 * number:+.1f}" if self.is_share else f"{number:+.4g}"


PERCENT, PLAIN = Notation(is_share=True), Notation(is_share=False)


def notation_of(measure: Measure, *, successes: bool = False) -> Notation:
    """How a measure is written.

    Args:
        measure: what it is.
        successes: whether every episode has 0 or 1: then a mean is a share of them, whatever the measure is called.
    """
    return PERCENT if successes or measure.is_share else PLAIN


def measure_of(evaluation: Mapping[str, Any]) -> Measure:
    """The measure of an evaluation's plain data; a plain number where it does not say."""
    return Measure(**evaluation.get("measure") or {"name": "score"})


def are_successes(values: Iterable[float]) -> bool:
    """Whether every episode has 0 or 1."""
    return all(value in (0.0, 1.0) for value in values)


def duration(seconds: float) -> str:
    """Seconds as a person says them: "42 s", "3 min 20 s", "1 h 05 min"."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
