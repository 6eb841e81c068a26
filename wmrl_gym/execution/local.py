"""Executing submissions on this machine, a bounded number at a time."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future

from wmrl_gym.core import Outcome, Submission
from wmrl_gym.execution.faults import outcome_of
from wmrl_gym.execution.launch import stop_sandboxes_of

Work = tuple[Submission, "Future[Outcome]"]


class LocalExecutor:
    """Threads of this process, each running one submission after the other.

    Threads suffice: each waits for a sandbox, which is a process of its own. They live as long as the executor, because
    the kernel kills a sandbox together with the *thread* that started it.

    Args:
        execute: finds the outcome of a submission. If it raises, the outcome is unknown: nothing is lost, and the
            exception is in ``details["error"]``.
        max_workers: how many run at the same time.
    """

    def __init__(self, execute: Callable[[Submission], Outcome], max_workers: int = 1) -> None:
        if max_workers < 1:
            raise ValueError(f"LocalExecutor(max_workers={max_workers}): give at least 1")
        self.execute = execute
        self.max_workers = max_workers
        self._work: queue.SimpleQueue[Work | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._closed = False

    @property
    def capacity(self) -> int:
        """How many submissions run at the same time."""
        return self.max_workers

    def submit(self, submission: Submission) -> Future[Outcome]:
        """Queue a submission. Its future never carries an exception.

        Raises:
            RuntimeError: if the executor is closed.
        """
        future: Future[Outcome] = Future()
        with self._lock:
            if self._closed:
                raise RuntimeError("LocalExecutor is closed: make a new one")
            self._work.put((submission, future))
            if len(self._threads) < self.max_workers:
                thread = threading.Thread(target=self._serve, name=f"wmrl-executor-{len(self._threads)}", daemon=True)
                self._threads.append(thread)
                thread.start()
        return future

    def close(self) -> None:
        """Cancel what waits, kill what runs (its outcome is unknown), and wait for the threads."""
        with self._lock:
            self._closed = True
            while not self._work.empty():
                work = self._work.get()
                if work is not None:
                    work[1].cancel()
            for _ in self._threads:
                self._work.put(None)
        others = [thread for thread in self._threads if thread is not threading.current_thread()]
        deadline = time.monotonic() + 30.0
        while any(thread.is_alive() for thread in others) and time.monotonic() < deadline:
            # Again and again: a thread may be about to start a sandbox that is not yet known.
            stop_sandboxes_of([thread.ident for thread in others if thread.ident is not None])
            for thread in others:
                thread.join(0.05)

    def _serve(self) -> None:
        while (work := self._work.get()) is not None:
            submission, future = work
            if future.set_running_or_notify_cancel():
                future.set_result(outcome_of(self.execute, submission))
