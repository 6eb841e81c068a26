"""Letters whose executions are written down; at a given one of them the process is killed."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from tests.algorithms.letters import LetterEnv
from wmrl_gym.core import Outcome, Submission

LOG, KILL_AT = "COUNTED_LETTERS_LOG", "COUNTED_LETTERS_KILL_AT"
"""Environment variables: settings would be told apart by `wmrl evaluate`."""


class CountedLetters(LetterEnv):
    """One character in the log for each execution."""

    def execute(self, submission: Submission) -> Outcome:
        log = Path(os.environ[LOG])
        with log.open("a") as file:
            file.write(submission.content)
        if log.stat().st_size == int(os.environ.get(KILL_AT, "0")):
            os.kill(os.getpid(), signal.SIGKILL)
        return super().execute(submission)
