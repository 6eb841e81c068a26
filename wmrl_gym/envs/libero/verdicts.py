"""What the simulator found, kept apart from the submissions it is about.

A submission shows what a camera saw; whether the goal was reached is the private answer. It is known as soon as the
episode was simulated, and lies here until somebody executes the submission.
"""

from __future__ import annotations

import threading
from collections import OrderedDict

from wmrl_gym.core import Outcome, Submission

CAPACITY = 65536


class Verdicts:
    """Outcomes by the key of their submission, the latest `capacity` ones."""

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._capacity = capacity
        self._outcomes: OrderedDict[str, Outcome] = OrderedDict()
        self._lock = threading.Lock()

    def record(self, submission: Submission, outcome: Outcome) -> None:
        """Keep the outcome of a submission."""
        with self._lock:
            self._outcomes[submission.key] = outcome
            self._outcomes.move_to_end(submission.key)
            if len(self._outcomes) > self._capacity:
                self._outcomes.popitem(last=False)

    def find(self, submission: Submission) -> Outcome:
        """The outcome of a submission, with an unknown score if this process never simulated it."""
        with self._lock:
            outcome = self._outcomes.get(submission.key)
        if outcome is not None:
            return outcome
        return Outcome(
            None,
            "unknown",
            details={
                "error": f"submission {submission.key[:12]} of task {submission.task_id!r} was not simulated in this "
                f"process, or too long ago: LIBERO's verdict cannot be had from frames alone"
            },
        )


VERDICTS = Verdicts()
"""Of this process."""
