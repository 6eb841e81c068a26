"""What a mistake is: an edit of a script that would run, and what the sandbox would say to it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from wmrl_gym.corpus.generator.scripts import Plan


@dataclass(frozen=True)
class Faulty:
    """A script with a mistake and the sandbox's words for it."""

    script: str
    complaint: str
    """For example "KeyError: 'target'", "timeout", "invalid: ..." or "no code"."""


Edit = Callable[[Plan, str, np.random.Generator], Faulty | None]


@dataclass(frozen=True)
class Mistake:
    """One kind of mistake."""

    name: str
    check: int
    """Which of the eight checks should catch it: 1 imports and names, 2 calls, 3 files and columns, 4 shapes and
    dtypes, 5 compute budget, 6 other runtime errors, 7 submission, 0 no runnable code at all."""
    status: str
    """What execution says: "no_code", "syntax_error", "runtime_error", "timeout" or "invalid_submission"."""
    weight: float
    edit: Edit


MISTAKES: list[Mistake] = []


def mistake(check: int, status: str = "runtime_error", weight: float = 1.0) -> Callable[[Edit], Edit]:
    """Decorator: register an edit as a mistake of its name; `weight` says how often authors make it."""

    def register(edit: Edit) -> Edit:
        MISTAKES.append(Mistake(edit.__name__, check, status, weight, edit))
        return edit

    return register


def replaced(script: str, old: str, new: str, complaint: str, count: int = 1) -> Faulty | None:
    """The script with `old` replaced; None if it does not hold `old`."""
    return Faulty(script.replace(old, new, count), complaint) if old in script else None


def without_line(script: str, line: str) -> str:
    """The script without the first such line."""
    return script.replace(line + "\n", "", 1)
