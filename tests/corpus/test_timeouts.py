from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

from tests.corpus.made import record
from wmrl_gym.core import Outcome, Submission
from wmrl_gym.corpus.timeouts import confirm_timeouts


class Scripted:
    """Executes by a list of statuses."""

    capacity = 1

    def __init__(self, *statuses: str) -> None:
        self.statuses = list(statuses)
        self.executed: list[str] = []

    def submit(self, submission: Submission) -> Future[Outcome]:
        self.executed.append(submission.content)
        status = self.statuses.pop(0)
        score = {"valid": 0.9, "timeout": 0.1, "unknown": None}[status]
        future: Future[Outcome] = Future()
        future.set_result(Outcome(score, status, details={"percentile": 0.8 if status == "valid" else None}))
        return future

    def close(self) -> None:
        pass


COMPETITIONS: Any = {"t": SimpleNamespace(overview="public")}


def test_timeout_of_a_busy_moment_is_replaced_by_what_comes_of_the_script_when_it_is_alone() -> None:
    records = [record("valid"), record("timeout", script="slow", exception="TimeoutError", author="nano", episode=3)]
    executor = Scripted("timeout", "valid")
    kept, changed = confirm_timeouts(records, COMPETITIONS, executor, 3)
    assert kept is records[0] and executor.executed == ["slow", "slow"]
    assert (changed.status, changed.score, changed.percentile, changed.exception) == ("valid", 0.9, 0.8, None)
    assert (changed.author, changed.episode, changed.script) == ("nano", 3, "slow")


def test_timeout_that_repeats_is_believed_and_a_fault_of_the_machine_is_not() -> None:
    slow = record("timeout", exception="TimeoutError")
    assert confirm_timeouts([slow], COMPETITIONS, Scripted("timeout", "timeout"), 2) == [slow]
    assert confirm_timeouts([slow], COMPETITIONS, Scripted("unknown"), 1) == [slow]
    assert confirm_timeouts([slow], COMPETITIONS, Scripted(), 0) == [slow]
