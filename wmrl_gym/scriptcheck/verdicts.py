"""The eight checks of a script and the verdict that each one gives (paper, "The world model").

Static analysis and language models give the same verdicts, so that they can be compared check by check.
"""

from __future__ import annotations

import dataclasses
from enum import StrEnum
from typing import Any


class Check(StrEnum):
    """What can go wrong with a script, in the paper's order."""

    IMPORTS_AND_NAMES = "imports_and_names"
    API_CALLS = "api_calls"
    FILES_AND_COLUMNS = "files_and_columns"
    SHAPES_AND_DTYPES = "shapes_and_dtypes"
    COMPUTE_BUDGET = "compute_budget"
    OTHER_RUNTIME = "other_runtime"
    SUBMISSION = "submission"
    QUALITY = "quality"


RUNTIME_CHECKS: tuple[Check, ...] = (
    Check.IMPORTS_AND_NAMES,
    Check.API_CALLS,
    Check.FILES_AND_COLUMNS,
    Check.SHAPES_AND_DTYPES,
    Check.COMPUTE_BUDGET,
    Check.OTHER_RUNTIME,
)


@dataclasses.dataclass(frozen=True)
class Verdict:
    """What one check says about one script."""

    check: Check
    passed: bool | None
    """None is "no opinion": the check could not tell, and nothing is held against the script."""
    confidence: float = 1.0
    """How sure it is, 0 to 1."""
    exception: str | None = None
    """Class of the exception the script would die of, for example "KeyError"."""
    second: str | None = None
    """The second most likely class."""
    line: int | None = None
    """Line of the script, from 1."""
    feedback: str = ""
    """What the sandbox would print about it."""
    reason: str = ""
    """Why, in one or two sentences."""
    order: int = 0
    """Position of the fault in the order of execution: of several, the script dies of the first."""

    def as_dict(self) -> dict[str, Any]:
        """Plain data, for `Outcome.details`."""
        return dataclasses.asdict(self) | {"check": str(self.check)}
