"""What a fault outside the submission comes to: an unknown outcome, the same from every executor."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable

from wmrl_gym.core import Outcome, Submission


def outcome_of(execute: Callable[[Submission], Outcome], submission: Submission) -> Outcome:
    """What `execute` returns; an unknown outcome if it raises, or returns something else. Never raises."""
    started = time.monotonic()
    try:
        outcome = execute(submission)
        if not isinstance(outcome, Outcome):
            raise TypeError(f"execute returned {type(outcome).__name__}, not an Outcome")
        return outcome
    except BaseException as error:
        return unknown_outcome(error, time.monotonic() - started)


def unknown_outcome(error: BaseException, seconds: float = 0.0) -> Outcome:
    """Outcome of an execution that failed for a reason outside the submission: the reason is in its details."""
    return Outcome(
        score=None,
        status="unknown",
        feedback="execution failed for a reason outside the submission",
        seconds=seconds,
        details={"error": f"{type(error).__name__}: {error}", "traceback": "".join(traceback.format_exception(error))},
    )
