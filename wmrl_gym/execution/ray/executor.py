"""Executing submissions on the machines of a Ray cluster."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import math
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from wmrl_gym.core import ExecutorError, ExpensiveRewardEnv, Outcome, Submission
from wmrl_gym.execution.faults import unknown_outcome

CLOSE_SECONDS = 10.0
"""Allowed to the process that speaks with the cluster for ending its workers."""
PAUSE_SECONDS = 1.0
"""Before the cluster is called again."""


class RayExecutor:
    """Executes on the machines of a Ray cluster, each worker one submission after the other in the same environment.

    A submission is in Ray only while a worker executes it; the others wait here. One whose worker or machine is lost is
    executed again, at most `retries` times, and is unknown after that: never 0. Submissions with the same key that are
    under way at the same time are executed once. An exception inside `execute` is no fault of the cluster: the outcome
    is unknown, as on this machine.

    A machine is refused, with the reason, where the environment cannot be made, its `preflight` fails, or its
    `environment_key` or `data_digests` are others than here. Data that are missing there are brought, once to each
    machine, if the environment names its `data_folders`.

    Ray runs in a process of its own, because it ends the process that loses the cluster's head. Then what ran is
    executed again as soon as the cluster answers, and is unknown if it does not.

    Args:
        make_environment: makes the environment, on whatever machine; also with other places for its data, which are
            given by name. Pickled with cloudpickle.
        max_workers: how many workers. None is as many as fit on the machines there are, those included that join later.
        address: of the cluster's head, as "host:port"; this machine must belong to the cluster. "auto" is the cluster
            that this machine belongs to.
        num_cpus: CPUs that a worker takes of a machine.
        num_gpus: GPUs that a worker takes.
        memory: bytes of memory that a worker takes; None does not count them.
        resources: custom resources that a worker takes, as they were named when Ray was started on a machine.
        retries: how often a submission is executed again whose worker or machine was lost.
        start_timeout: seconds within which a worker must stand, at the beginning and whenever all were lost.

    Raises:
        ImportError: if Ray is not installed.
        ExecutorError: if there is no cluster, or no worker stands in time; it says why.
        ValueError: for settings that make no sense, or an environment that executes only where it plays.
    """

    def __init__(
        self,
        make_environment: Callable[..., ExpensiveRewardEnv[Any, Any]],
        max_workers: int | None = None,
        address: str = "auto",
        num_cpus: float = 1.0,
        num_gpus: float = 0.0,
        memory: float | None = None,
        resources: Mapping[str, float] | None = None,
        retries: int = 3,
        start_timeout: float = 120.0,
    ) -> None:
        needs = {"CPU": num_cpus, "GPU": num_gpus, "memory": memory or 0.0, **(resources or {})}
        _check_settings(max_workers, needs, retries, start_timeout)
        self.max_workers, self.retries, self.start_timeout = max_workers, retries, start_timeout
        self._settings = _settings(make_environment, max_workers, address, needs)
        self._lock = threading.Lock()
        self._jobs: dict[str, _Job] = {}
        self._waiting: deque[_Job] = deque()
        self._running: dict[int, _Job] = {}
        self._numbers = itertools.count()
        self._standing, self._wanted = 0, 0
        self._none_since = time.monotonic()
        self._problems: deque[str] = deque(maxlen=5)
        self._connection: Connection | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the executor
        self._closed = False
        self._settled = threading.Event()
        """Set when the first worker stands, or none can."""
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="wmrl-ray", daemon=True)
        self._thread.start()
        self._settled.wait(start_timeout)
        if not self._standing:
            self.close()
            raise ExecutorError(
                f"no worker of the Ray cluster stands after {time.monotonic() - self._none_since:.0f} s"
                f"{self._reasons()}\n  Start a cluster with `ray start --head`, or mend what stands above: docs/ray.md."
            )

    @property
    def capacity(self) -> int:
        """How many submissions run at the same time."""
        return self.max_workers or max(self._wanted, 1)

    def submit(self, submission: Submission) -> Future[Outcome]:
        """Queue a submission, or join one with the same key that is under way. Its future never carries an exception.

        One that cannot be pickled is unknown, and the outcome says why.

        Raises:
            RuntimeError: if the executor is closed.
        """
        future: Future[Outcome] = Future()
        try:
            pickled = _pickled(submission)
        except Exception as error:
            future.set_running_or_notify_cancel()
            future.set_result(unknown_outcome(error))
            return future
        with self._lock:
            if self._closed:
                raise RuntimeError("RayExecutor is closed: make a new one")
            job = self._jobs.get(submission.key)
            if job is None:
                job = self._jobs[submission.key] = _Job(submission, pickled)
                self._waiting.append(job)
            elif job.began:
                future.set_running_or_notify_cancel()
            job.futures.append(future)
            self._hand_out()
        return future

    def close(self) -> None:
        """Cancel what waits, end what runs (its outcome is unknown), and wait until the workers are gone."""
        with self._lock:
            already, self._closed = self._closed, True
            jobs = list(self._jobs.values())
            self._jobs, self._running, self._waiting = {}, {}, deque()
            connection, process, is_used = self._connection, self._process, self._wanted > 0
            if connection is not None:
                with contextlib.suppress(OSError):  # which the process at the other end sees as the end
                    socket.socket(fileno=os.dup(connection.fileno())).shutdown(socket.SHUT_WR)
        self._closing.set()
        self._settled.set()
        for job in jobs:
            if job.began:
                job.answer(unknown_outcome(RuntimeError("the executor was closed"), job.seconds))
            else:
                for future in job.futures:
                    future.cancel()
        if already:
            return
        if process is not None:
            _wait_for_end(process, CLOSE_SECONDS if is_used else 0.0)
        if self._thread is not threading.current_thread():
            self._thread.join(CLOSE_SECONDS)
            self._log.close()

    def _hand_out(self) -> None:
        """Give waiting submissions to free workers. Called with the lock held."""
        while self._waiting and self._connection is not None and len(self._running) < self._standing:
            job = self._waiting.popleft()
            if not job.begin():  # nobody wants it any more
                del self._jobs[job.submission.key]
                continue
            self._running[number := next(self._numbers)] = job
            with contextlib.suppress(OSError):  # the thread that reads sees it, too, and takes back what runs
                self._connection.send((number, job.pickled))

    def _serve(self) -> None:
        while not self._closed:
            try:
                with self._process_of_cluster() as connection:
                    while not self._closed:
                        if connection.poll(0.5):
                            self._take_in(*connection.recv())
                        self._give_up_late()
            except Exception as error:  # whatever it is, this thread must go on: everybody waits for it
                self._lose_cluster(error)
            self._give_up_late()
            self._closing.wait(PAUSE_SECONDS)

    @contextlib.contextmanager
    def _process_of_cluster(self) -> Any:
        """The process that speaks with the cluster, begun anew."""
        ours, theirs = socket.socketpair()
        command = [sys.executable, "-m", "wmrl_gym.execution.ray.driver", str(theirs.fileno())]
        connection = Connection(ours.detach())
        with contextlib.closing(connection):
            with self._lock, theirs:
                if self._closed:
                    raise EOFError
                self._log.seek(0)
                self._log.truncate()
                process = self._process = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=self._log,
                    stderr=self._log,
                    pass_fds=[theirs.fileno()],
                    env=_environment_variables(),
                    start_new_session=True,  # Ctrl-C is for the trainer
                )
            try:
                connection.send(self._settings)
                with self._lock:
                    self._connection = connection
                yield connection
            finally:
                with self._lock:
                    self._connection = None
                if not self._closed:
                    process.kill()  # what it holds ends with it
                    process.wait()

    def _take_in(self, kind: str, *values: Any) -> None:
        """Act on a message of the process."""
        if kind == "workers":
            self._count_workers(*values)
        elif kind == "problem":
            self._note(values[0])
        elif kind == "failed":
            raise ConnectionError(values[0])
        elif kind == "returned":
            self._take_back(values[0], None)
        elif kind == "lost":
            self._take_back(*values)
        else:
            number, pickled = values
            with self._lock:
                job = self._forget(number)
                self._hand_out()
            if job is not None:
                job.answer(_unpickled(pickled, job))

    def _count_workers(self, standing: int, wanted: int) -> None:
        with self._lock:
            if self._standing and not standing:
                self._none_since = time.monotonic()
            self._standing, self._wanted = standing, wanted
            self._hand_out()
        if standing:
            self._settled.set()

    def _take_back(self, number: int, reason: str | None) -> None:
        """Queue again what a worker did not finish. With a reason it counts as an attempt; without, none was made."""
        with self._lock:
            job = self._running.pop(number, None)
            if job is None:
                return
            job.losses += reason is not None
            again = job.losses <= self.retries
            if again:
                self._waiting.appendleft(job)
            else:
                del self._jobs[job.submission.key]
            self._hand_out()
        if not again:
            lost = RuntimeError(f"the worker was lost {job.losses} times, the last time: {reason}")
            job.answer(unknown_outcome(lost, job.seconds))

    def _lose_cluster(self, error: BaseException) -> None:
        if self._closed:
            return
        is_told = type(error) is ConnectionError  # else it is one of the pipe
        reason = str(error) if is_told else f"the cluster was lost{self._last_words()}"
        self._note(reason)
        self._count_workers(0, 0)
        for number in reversed(list(self._running)):
            self._take_back(number, reason)
        self._settled.set()

    def _give_up_late(self) -> None:
        """Where no worker has stood for too long, what waits is unknown: the run is to stop, not to hang."""
        if self._closed or self._standing or time.monotonic() - self._none_since < self.start_timeout:
            return
        with self._lock:
            late, self._waiting = list(self._waiting), deque()
            for job in late:
                del self._jobs[job.submission.key]
        for job in late:
            if job.begin():
                reason = f"no worker of the Ray cluster has stood for {self.start_timeout:.0f} s{self._reasons()}"
                job.answer(unknown_outcome(ExecutorError(reason), job.seconds))

    def _forget(self, number: int) -> _Job | None:
        job = self._running.pop(number, None)
        if job is not None:
            del self._jobs[job.submission.key]
        return job

    def _note(self, problem: str) -> None:
        if problem not in self._problems:
            self._problems.append(problem)

    def _last_words(self) -> str:
        """What the process that is gone wrote last."""
        self._log.seek(0)
        said = [line.strip() for line in self._log.read().decode("utf-8", "replace").splitlines() if line.strip()]
        return f": {said[-1][:500]}" if said else ""

    def _reasons(self) -> str:
        needs = ", ".join(f"{name} {need:g}" for name, need in self._settings.needs.items())
        said = list(self._problems) or [f"no machine of the cluster has room for a worker, which takes {needs}"]
        return "".join("\n  " + problem.replace("\n", "\n  ") for problem in said)


@dataclasses.dataclass(eq=False)
class _Job:
    """A submission and everybody who waits for its outcome."""

    submission: Submission
    pickled: bytes
    """The submission as it travels."""
    futures: list[Future[Outcome]] = dataclasses.field(default_factory=list)
    began: float | None = None
    """When it began to run for the first time (`time.monotonic`)."""
    losses: int = 0

    @property
    def seconds(self) -> float:
        """Since it began."""
        return 0.0 if self.began is None else time.monotonic() - self.began

    def begin(self) -> bool:
        """Tell the futures that it runs; whether anybody still wants it."""
        if self.began is None:
            self.futures = [future for future in self.futures if future.set_running_or_notify_cancel()]
            if self.futures:
                self.began = time.monotonic()
        return self.began is not None

    def answer(self, outcome: Outcome) -> None:
        """Give everybody the outcome."""
        for future in self.futures:
            future.set_result(outcome)


def _settings(make_environment: Any, max_workers: int | None, address: str, needs: Mapping[str, float]) -> Any:
    """What the process that speaks with the cluster is told."""
    try:
        import ray
        from ray import cloudpickle
    except ImportError as error:
        raise ImportError("RayExecutor needs the package 'ray': pip install 'wmrl-gym[ray]'") from error
    from wmrl_gym.execution.ray.driver import Settings
    from wmrl_gym.execution.ray.worker import Order

    if address == "auto" and ray.is_initialized():
        address = ray.get_runtime_context().gcs_address
    order, folders = Order.of(make_environment)
    path = tuple(os.path.abspath(entry) for entry in sys.path)
    needed = {name: need for name, need in needs.items() if need > 0}
    return Settings(address, path, cloudpickle.dumps(order), tuple(folders), max_workers, needed)


def _check_settings(max_workers: int | None, needs: Mapping[str, float], retries: int, start_timeout: float) -> None:
    if max_workers is not None and max_workers < 1:
        raise ValueError(f"RayExecutor(max_workers={max_workers}): give at least 1, or None for as many as fit")
    if retries < 0 or not start_timeout > 0:
        raise ValueError(
            f"RayExecutor(retries={retries}, start_timeout={start_timeout}): give 0 or more, and more than 0"
        )
    wrong = [name for name, need in needs.items() if not 0 <= need < math.inf]
    if wrong:
        raise ValueError(f"a worker of RayExecutor takes {needs[wrong[0]]} of {wrong[0]}: give 0 or more")
    if max_workers is None and not any(needs.values()):
        raise ValueError("as many workers as fit would be infinitely many, as each takes nothing: give max_workers")


def _pickled(submission: Submission) -> bytes:
    from ray import cloudpickle

    return cloudpickle.dumps(submission)


def _unpickled(pickled: bytes, job: _Job) -> Outcome:
    from ray import cloudpickle

    try:
        return cloudpickle.loads(pickled)
    except Exception as error:
        return unknown_outcome(error, job.seconds)


def _wait_for_end(process: subprocess.Popen[bytes], seconds: float) -> None:
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:  # the cluster does not answer; it ends the workers of a driver that is gone
        process.kill()
        process.wait()


def _environment_variables() -> dict[str, str]:
    """Those of this process, with which the other one finds this package."""
    package_root = str(Path(__file__).resolve().parents[3])
    paths = [package_root, *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in paths if path)}
