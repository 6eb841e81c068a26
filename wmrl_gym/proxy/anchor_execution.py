"""Executing anchors: a bounded number in flight, the same thing once, and a stop when execution is dead.

A single execution that fails is an unknown score, and the run goes on. Many in a row mean that there are no anchors any
more, and the run would silently turn into training on the world model alone.
"""

from __future__ import annotations

import dataclasses
import time
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, wait

from wmrl_gym.core import Executor, ExecutorError, Outcome, Submission

Execute = Callable[[Submission], Outcome]


def unknown_outcome(error: BaseException) -> Outcome:
    """Outcome of an execution that failed for a reason outside the submission."""
    return Outcome(None, "unknown", "execution failed", details={"error": f"{type(error).__name__}: {error}"})


class AnchorExecutions:
    """Executions under way, each under its ticket (a number that the caller chooses).

    Args:
        executor: runs them; None calls the function given to `request` at once, in this thread.
        max_in_flight: how many are handed to the executor at the same time; others wait in order.
        max_consecutive_failures: unknown scores in a row after which `raise_if_failing` raises.
        share: execute what is handed in twice before `forget` once. A policy repeats itself: about a tenth of the
            quickstart's executions repeat a script of the same step.
    """

    def __init__(
        self,
        executor: Executor | None,
        max_in_flight: int = 24,
        max_consecutive_failures: int = 16,
        *,
        share: bool = True,
    ) -> None:
        if max_in_flight < 1 or max_consecutive_failures < 1:
            raise ValueError(
                f"max_in_flight is {max_in_flight}, max_consecutive_failures {max_consecutive_failures}: give 1 or more"
            )
        self.executor = executor
        self.max_in_flight = max_in_flight
        self.max_consecutive_failures = max_consecutive_failures
        self.share = share
        self.n_started = 0
        """Submissions handed to the executor so far."""
        self._waiting: deque[tuple[int, Submission, Execute]] = deque()
        self._futures: dict[int, Future[Outcome]] = {}
        self._by_key: dict[str, Future[Outcome]] = {}
        self._repeated: set[int] = set()
        self._abandoned: set[Future[Outcome]] = set()
        self._failures = 0
        self._last_failure: Outcome | None = None

    def request(self, ticket: int, submission: Submission, execute: Execute) -> None:
        """Ask for an execution; it starts as soon as there is room."""
        self._waiting.append((ticket, submission, execute))
        self.start()

    def start(self) -> None:
        """Hand over waiting submissions while there is room."""
        self._abandoned = {future for future in self._abandoned if not future.done()}
        under_way = {future for future in self._futures.values() if not future.done()} | self._abandoned
        room = self.max_in_flight - len(under_way)
        while self._waiting and room > 0:
            ticket, submission, execute = self._waiting.popleft()
            known = self._by_key.get(submission.key) if self.share else None
            if known is not None and not _failed(known):
                self._futures[ticket] = known
                self._repeated.add(ticket)
                continue
            self._futures[ticket] = future = self._begin(submission, execute)
            if self.share:
                self._by_key[submission.key] = future
            self.n_started += 1
            room -= not future.done()

    def is_done(self, ticket: int) -> bool:
        """Whether `take` would answer at once."""
        return ticket in self._futures and self._futures[ticket].done()

    def wait_for_one(self, tickets: Iterable[int], deadline: float | None = None) -> None:
        """Wait until something moves: one of the tickets is done, or room has come for one that waits.

        Raises:
            TimeoutError: if nothing has by ``deadline`` (of `time.monotonic`). Nothing is lost then.
        """
        self.start()
        futures = {self._futures[ticket] for ticket in tickets if ticket in self._futures} | self._abandoned
        if futures:
            left = None if deadline is None else max(deadline - time.monotonic(), 0.0)
            if not wait(futures, left, return_when=FIRST_COMPLETED).done:
                raise TimeoutError
        self.start()

    def take(self, ticket: int) -> Outcome:
        """The outcome of a ticket that is done; an unknown one if execution failed in any way.

        One that was executed for another ticket took no seconds.
        """
        future = self._futures.pop(ticket)
        is_repeated = ticket in self._repeated
        self._repeated.discard(ticket)
        try:
            outcome = future.result()
            if not isinstance(outcome, Outcome):
                raise TypeError(f"the executor returned a {type(outcome).__name__}, not a wmrl_gym.Outcome")
        except Exception as error:
            outcome = unknown_outcome(error)
        if is_repeated:  # it cost nothing, and says nothing new about the executor
            return dataclasses.replace(outcome, seconds=0.0)
        failed = outcome.score is None
        self._failures = self._failures + 1 if failed else 0
        self._last_failure = outcome if failed else None
        return outcome

    def raise_if_failing(self) -> None:
        """Stop the run if execution is dead.

        Raises:
            ExecutorError: after ``max_consecutive_failures`` unknown scores in a row. Counting begins again then.
        """
        if self._failures < self.max_consecutive_failures or self._last_failure is None:
            return
        failures, last = self._failures, self._last_failure
        self._failures = 0
        name = "the environment's own execute" if self.executor is None else type(self.executor).__name__
        raise ExecutorError(
            f"{failures} executions in a row by {name} gave no score\n"
            f"  the last one: {last.status}: {last.details.get('error', last.feedback)}\n"
            "  Without executions there are no anchors, and the run would go on as world-model-only training. Mend the "
            "executor (`wmrl doctor` probes this machine) and resume the run."
        )

    def forget(self) -> None:
        """Execute anew what comes from now on, whatever was executed before."""
        self._by_key.clear()

    def discard(self, ticket: int) -> None:
        """Give up an execution. One that was handed over keeps its place until it ends.

        It is not cancelled: an executor may be serving it to others as well.
        """
        self._waiting = deque(item for item in self._waiting if item[0] != ticket)
        self._repeated.discard(ticket)
        future = self._futures.pop(ticket, None)
        if future is not None and not future.done() and future not in self._futures.values():
            self._abandoned.add(future)

    def _begin(self, submission: Submission, execute: Execute) -> Future[Outcome]:
        try:
            if self.executor is not None:
                return self.executor.submit(submission)
            outcome = execute(submission)
        except Exception as error:
            outcome = unknown_outcome(error)
        future: Future[Outcome] = Future()
        future.set_result(outcome)
        return future


def _failed(future: Future[Outcome]) -> bool:
    """Whether it is known that this gave no score."""
    if not future.done():
        return False
    if future.cancelled() or future.exception() is not None:
        return True
    outcome = future.result()
    return not isinstance(outcome, Outcome) or outcome.score is None
