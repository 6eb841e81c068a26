"""A few simulator processes for many episodes.

A simulator takes seconds to build and gigabytes to keep, an episode's state takes kilobytes. So there are few
simulators, none of which belongs to an episode; and since a job's start is a snapshot, a process that hangs or dies is
replaced and its job done again, with the same result.
"""

from __future__ import annotations

import atexit
import contextlib
import dataclasses
import os
import signal
import socket
import subprocess
import sys
import threading
from collections import deque
from concurrent.futures import Future
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from wmrl_gym.envs.libero.jobs import Job, JobResult
from wmrl_gym.envs.libero.tasks import TaskReference

ATTEMPTS = 3
START_SECONDS = 300.0
"""Allowed for starting a process and building a task's simulator, beside the time-out of a job."""


class SimulatorError(RuntimeError):
    """A job failed for good: what it would have yielded is unknown."""


class _WorkerLost(Exception):
    """The process hung, died or reported an error."""


class SimulatorPool:
    """Processes that do jobs, started when they are needed.

    Args:
        workers: how many processes; each takes about 2 GB of memory with one task loaded.
        timeout: seconds after which a job that has not come back counts as hanging.
        tasks_per_worker: simulators a process keeps loaded.

    Raises:
        ValueError: for settings that make no sense.
    """

    def __init__(self, workers: int = 2, timeout: float = 120.0, tasks_per_worker: int = 2) -> None:
        if workers < 1 or timeout <= 0 or tasks_per_worker < 1:
            raise ValueError(
                f"workers is {workers}, timeout {timeout}, tasks_per_worker {tasks_per_worker}: all must be positive"
            )
        self.timeout = timeout
        self._queue: deque[_Queued] = deque()
        self._wake = threading.Condition()
        self._closed = False
        self._workers = [_Worker(tasks_per_worker) for _ in range(workers)]
        self._threads = [threading.Thread(target=self._serve, args=(w,), daemon=True) for w in self._workers]
        for thread in self._threads:
            thread.start()
        atexit.register(self.close)

    @property
    def process_ids(self) -> list[int]:
        """Of the processes that run now."""
        return [process.pid for worker in self._workers if (process := worker.process) is not None]

    @property
    def restarts(self) -> int:
        """How often a process had to be replaced."""
        return sum(worker.losses for worker in self._workers)

    def submit(self, job: Job) -> Future[JobResult]:
        """Queue a job. Its future raises `SimulatorError` if it failed for good."""
        future: Future[JobResult] = Future()
        with self._wake:
            if self._closed:
                raise SimulatorError("the pool of simulators is closed")
            self._queue.append(_Queued(job, future))
            self._wake.notify_all()
        return future

    def close(self) -> None:
        """Stop the processes. Jobs that wait are cancelled, those under way fail."""
        with self._wake:
            self._closed = True
            waiting, self._queue = self._queue, deque()
            self._wake.notify_all()
        for queued in waiting:
            queued.future.cancel()
        for worker in self._workers:
            worker.close()
        atexit.unregister(self.close)

    def _serve(self, worker: _Worker) -> None:
        while (queued := self._next(worker)) is not None:
            if not queued.future.set_running_or_notify_cancel():
                continue
            try:
                queued.future.set_result(self._run(worker, queued.job))
            except BaseException as error:
                queued.future.set_exception(error)
        worker.stop()

    def _next(self, worker: _Worker) -> _Queued | None:
        with self._wake:
            worker.is_idle = True
            self._wake.wait_for(lambda: self._closed or self._choose(worker) is not None)
            chosen = self._choose(worker)
            if self._closed or chosen is None:
                return None
            self._queue.remove(chosen)
            worker.is_idle = False
            # A job that was left to this worker may now be for another one.
            self._wake.notify_all()
            return chosen

    def _choose(self, worker: _Worker) -> _Queued | None:
        """The oldest job whose task is loaded here, else the oldest that no other idle process has loaded.

        Building a task's simulator costs as much as two hundred steps.
        """
        elsewhere = {task for other in self._workers if other.is_idle and other is not worker for task in other.loaded}
        loaded = (queued for queued in self._queue if queued.job.task in worker.loaded)
        others = (queued for queued in self._queue if queued.job.task not in elsewhere)
        return next(loaded, None) or next(others, None)

    def _run(self, worker: _Worker, job: Job) -> JobResult:
        problem = ""
        for _ in range(ATTEMPTS):
            try:
                return worker.run(job, self.timeout)
            except _WorkerLost as lost:
                problem = str(lost)
                worker.replace()
            if self._closed:
                raise SimulatorError("the pool of simulators was closed")
        raise SimulatorError(
            f"simulating task {job.task.index} of {job.task.suite} failed {ATTEMPTS} times, each in a fresh process\n"
            f"  the last time: {problem}"
        )


@dataclasses.dataclass(eq=False)
class _Queued:
    job: Job
    future: Future[JobResult]


class _Worker:
    """One process, seen from here. Everything but `close` is called by the one thread that serves it."""

    def __init__(self, capacity: int) -> None:
        self.process: subprocess.Popen[bytes] | None = None
        self.loaded: tuple[TaskReference, ...] = ()
        self.is_idle = False
        self.losses = 0
        self._capacity = capacity
        self._connection: Connection | None = None
        self._is_closed = False
        self._lock = threading.Lock()
        """Held while a process begins or ends: none may begin after `close`."""

    def run(self, job: Job, timeout: float) -> JobResult:
        is_loaded = job.task in self.loaded
        connection = self._connection or self._start()
        try:
            connection.send(job)
            kind, value = self._receive(connection, timeout if is_loaded else START_SECONDS + timeout)
            if kind == "loaded":
                self.loaded = value
                kind, value = self._receive(connection, timeout)
        except (EOFError, OSError) as error:
            raise _WorkerLost(f"the process ended ({self._end()})") from error
        if kind == "failed":
            raise _WorkerLost(value)
        return value

    def _receive(self, connection: Connection, timeout: float) -> Any:
        if not connection.poll(timeout):
            raise _WorkerLost(f"no answer within {timeout:.0f} seconds")
        # `recv` waits for the rest of an answer that has begun, and a process may be stopped in the middle of one.
        # The watchdog knows its process: should it fire as the answer comes, it must not kill a later one.
        process, too_late = self.process, threading.Event()

        def kill() -> None:
            too_late.set()
            if process is not None:
                process.kill()

        watchdog = threading.Timer(timeout, kill)
        watchdog.daemon = True  # an interpreter that ends meanwhile does not wait for it
        watchdog.start()
        try:
            return connection.recv()
        except (EOFError, OSError) as error:
            if too_late.is_set():
                raise _WorkerLost(f"it stopped in the middle of its answer for {timeout:.0f} seconds") from error
            raise
        finally:
            watchdog.cancel()

    def _start(self) -> Connection:
        ours, theirs = socket.socketpair()
        command = [sys.executable, "-m", "wmrl_gym.envs.libero.worker", str(theirs.fileno()), str(self._capacity)]
        with self._lock, theirs:
            self._connection = Connection(ours.detach())
            if self._is_closed:
                raise _WorkerLost("closed")
            try:
                self.process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    pass_fds=[theirs.fileno()],
                    env=_environment(),
                    start_new_session=True,  # Ctrl-C is for the trainer, which finishes its step with these processes
                )
            except OSError as error:
                raise _WorkerLost(f"the process could not be started: {error}") from error
        return self._connection

    def replace(self) -> None:
        """Kill what is there; the next job starts another one."""
        self.losses += 1
        self.stop()

    def close(self) -> None:
        """Kill the process, from any thread; no other one is started. The pipe is left to the thread that reads it."""
        with self._lock:
            self._is_closed = True
            if self.process is not None:
                self.process.kill()
                self.process.wait()

    def stop(self) -> None:
        """Kill the process and let go of everything."""
        with self._lock:
            process, connection = self.process, self._connection
            self.process, self._connection, self.loaded = None, None, ()
        if process is not None:
            process.kill()
            process.wait()
        if connection is not None:
            with contextlib.suppress(OSError):
                connection.close()

    def _end(self) -> str:
        if self.process is None:
            return "closed"
        with contextlib.suppress(subprocess.TimeoutExpired):
            code = self.process.wait(5.0)
            return signal.Signals(-code).name if code < 0 else f"exit code {code}"
        return "still running, but it closed its pipe"


def _environment() -> dict[str, str]:
    """Environment variables of a process, which must be there before mujoco is imported."""
    package_root = str(Path(__file__).resolve().parents[3])
    paths = [package_root, *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    defaults = {"MUJOCO_GL": "egl", "OMP_NUM_THREADS": "1"}
    return defaults | os.environ | {"PYTHONPATH": os.pathsep.join(path for path in paths if path)}
