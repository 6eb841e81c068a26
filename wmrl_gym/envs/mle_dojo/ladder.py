"""The reward ladder: what became of a script, turned into one number between 0 and 1.

Real execution and every world model climb the same ladder, so that their scores can be compared pair by pair
(paper: "shared by real execution and world model").
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum


class Status(StrEnum):
    """What became of one submitted script."""

    NO_CODE = "no_code"
    SYNTAX_ERROR = "syntax_error"
    RUNTIME_ERROR = "runtime_error"
    TIMEOUT = "timeout"
    OUT_OF_MEMORY = "out_of_memory"
    INVALID_SUBMISSION = "invalid_submission"
    VALID = "valid"
    UNKNOWN = "unknown"
    """Nobody knows, for example because the machine failed. It has no score, which is not the same as the score 0."""


@dataclass(frozen=True)
class RewardLadder:
    """Scores of the rungs. A valid submission scores ``valid_base + valid_span * percentile``.

    A valid submission that beats nobody (percentile 0) is still valid, and scores `valid_base`.
    """

    no_code: float = 0.0
    """No code block, or code that does not compile."""
    runtime_error: float = 0.1
    """The script crashed, ran out of time or out of memory."""
    invalid_submission: float = 0.2
    """It ran to its end, but left no submission that can be graded."""
    valid_base: float = 0.5
    """A valid submission that beats nobody."""
    valid_span: float = 0.5
    """What a valid submission gains on the way from percentile 0 to 1."""

    def score(self, status: Status | str, percentile: float | None = None) -> float | None:
        """Score of a status, None if it is unknown.

        Args:
            status: a `Status` or its value.
            percentile: share of the leaderboard that a valid submission reaches, 0 to 1. Needed if it is valid.

        Raises:
            ValueError: for a status that is not one, or a valid submission without a percentile in [0, 1].
        """
        status = Status(status)
        if status is Status.UNKNOWN:
            return None
        if status is not Status.VALID:
            return self._failure_score(status)
        if percentile is None or not math.isfinite(percentile) or not 0.0 <= percentile <= 1.0:
            raise ValueError(f"a valid submission needs a percentile between 0 and 1 to be scored, not {percentile}")
        return self.valid_base + self.valid_span * percentile

    def _failure_score(self, status: Status) -> float:
        if status in (Status.NO_CODE, Status.SYNTAX_ERROR):
            return self.no_code
        if status is Status.INVALID_SUBMISSION:
            return self.invalid_submission
        return self.runtime_error
