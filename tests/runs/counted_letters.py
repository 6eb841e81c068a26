"""Letters whose executions are written down; from a given one of them on, the process is killed or gives no score."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from tests.algorithms.letters import LetterEnv
from wmrl_gym.core import SCORE, Measure, Outcome, Submission

LOG, KILL_AT, LOSE_AT = "COUNTED_LETTERS_LOG", "COUNTED_LETTERS_KILL_AT", "COUNTED_LETTERS_LOSE_AT"
"""Environment variables: settings would be told apart by `wmrl evaluate`."""


class CountedLetters(LetterEnv):
    """One character in the log for each execution. There are two measures, so that another can be chosen."""

    measures = (SCORE, Measure("worth"))

    def execute(self, submission: Submission) -> Outcome:
        log = Path(os.environ[LOG])
        with log.open("a") as file:
            file.write(submission.content)
        size = log.stat().st_size
        if size >= int(os.environ.get(KILL_AT, "1000000")):
            os.kill(os.getpid(), signal.SIGKILL)
        if size >= int(os.environ.get(LOSE_AT, "1000000")):
            return Outcome(None, "unknown", "the machine failed")
        return super().execute(submission)
