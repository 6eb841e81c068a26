"""Remembering outcomes: the same submission in the same surroundings is executed once, by whoever comes first.

One JSON file per outcome, named by its content address: readable with a pager, written by rename, so that a process
killed at any moment leaves either a whole file or none. Each carries a digest of what it says: a file that was damaged,
or in which somebody changed a number, is not believed, and the submission is executed again.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import hashlib
import json
import math
import os
import threading
import warnings
from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from wmrl_gym.core import Executor, Outcome, Submission, fingerprint

DETERMINISTIC_STATUSES = frozenset({"no_code", "syntax_error", "runtime_error", "invalid_submission", "valid"})
"""Outcomes that a second run would repeat. A timeout, a lack of memory or a fault of the machine is none."""

FORMAT = 2
FIELD_TYPES: dict[str, type | tuple[type, ...]] = {
    **{"score": (int, float), "seconds": (int, float), "details": dict},
    **{"status": str, "feedback": str, "source": str},
}


class CachedExecutor:
    """An executor that asks a directory first. The directory may be shared by threads, processes and runs.

    Args:
        inner: who executes what is not known yet.
        directory: where outcomes are kept.
        environment_key: everything beside the submission that decides its outcome, see `environment_key`.
        statuses: which outcomes are kept; never one without a score.
    """

    def __init__(
        self,
        inner: Executor,
        directory: Path | str,
        environment_key: str,
        statuses: Collection[str] = DETERMINISTIC_STATUSES,
    ) -> None:
        self.inner = inner
        self.directory = Path(directory)
        self.environment_key = environment_key
        self.statuses = frozenset(statuses)
        self.hits = 0
        """Submissions answered from the directory, or by an execution that was already on its way."""
        self.misses = 0
        """Submissions handed to `inner`."""
        self._lock = threading.Lock()
        self._in_flight: dict[str, Future[Outcome]] = {}
        self.directory.mkdir(parents=True, exist_ok=True)

    @property
    def capacity(self) -> int:
        """How many submissions run at the same time."""
        return self.inner.capacity

    def submit(self, submission: Submission) -> Future[Outcome]:
        """Answer from the directory, join an execution under way, or execute. Never waits."""
        key = fingerprint((submission.key, self.environment_key))
        future: Future[Outcome] = Future()
        with self._lock:
            leader = self._in_flight.get(key)
            known = self._read(key) if leader is None else None
            if leader is None and known is None:
                self._in_flight[key] = future
            else:
                self.hits += 1
        if leader is not None:
            leader.add_done_callback(lambda done: _copy(done, future))
        elif known is not None:
            future.set_result(known)
        else:
            self._lead(key, submission, future)
        return future

    def close(self) -> None:
        """Close the inner executor. What is remembered stays."""
        self.inner.close()

    def _lead(self, key: str, submission: Submission, future: Future[Outcome]) -> None:
        try:
            lock = _try_lock(self._path(key, "lock"))
            if lock is not None:
                self._execute(key, submission, future, lock)
            else:  # another process is executing it: wait without holding up the caller
                threading.Thread(target=self._follow, args=(key, submission, future), daemon=True).start()
        except BaseException:
            with self._lock:
                self._in_flight.pop(key, None)
            raise

    def _follow(self, key: str, submission: Submission, future: Future[Outcome]) -> None:
        try:
            lock = _wait_for_lock(self._path(key, "lock"))
            self._execute(key, submission, future, lock)
        except BaseException as error:
            with self._lock:
                self._in_flight.pop(key, None)
            future.set_exception(error)

    def _execute(self, key: str, submission: Submission, future: Future[Outcome], lock: int) -> None:
        """Ask once more now that nobody else can be writing, then execute."""
        known = self._read(key)
        if known is not None:
            with self._lock:
                self.hits += 1
            self._finish(key, lock)
            future.set_result(known)
            return
        with self._lock:
            self.misses += 1
        try:
            executing = self.inner.submit(submission)
        except BaseException:
            self._finish(key, lock)
            raise

        def done(executed: Future[Outcome]) -> None:
            try:
                if not executed.cancelled() and executed.exception() is None:
                    self._write(key, executed.result())
            finally:
                self._finish(key, lock)
                _copy(executed, future)

        executing.add_done_callback(done)

    def _finish(self, key: str, lock: int) -> None:
        with self._lock:
            self._in_flight.pop(key, None)
        _release(self._path(key, "lock"), lock)

    def _path(self, key: str, suffix: str) -> Path:
        return self.directory / key[:2] / f"{key}.{suffix}"

    def _read(self, key: str) -> Outcome | None:
        """The outcome kept under a key; None if there is none, or what is there cannot be trusted."""
        path = self._path(key, "json")
        try:
            content = json.loads(path.read_text("utf-8"))
            if isinstance(content, dict) and content.get("format") == 1:  # an earlier version's, without a digest
                return None
            outcome = _believed(content, key)
            if not self._keeps(outcome):
                raise ValueError(f"no outcome of status {outcome.status!r} is kept here")
            return outcome
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            warnings.warn(
                f"wmrl: {path} is no outcome that can be believed ({type(error).__name__}: {error})\n"
                "  it is ignored, and the submission executed again.",
                RuntimeWarning,
                stacklevel=3,
            )
            return None

    def _write(self, key: str, outcome: Outcome) -> None:
        if not self._keeps(outcome):
            return
        fields = {field.name: getattr(outcome, field.name) for field in dataclasses.fields(outcome)}
        try:
            said = {**fields, "details": dict(outcome.details)}
            text = json.dumps({"format": FORMAT, "key": key, "digest": _digest(key, said), "outcome": said})
        except (TypeError, ValueError, RecursionError):  # details that are not plain data would not come back the same
            return
        path = self._path(key, "json")
        temporary = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}")
        with contextlib.suppress(OSError):  # a full disk costs the cache, not the run
            path.parent.mkdir(exist_ok=True)
            temporary.write_text(text, "utf-8")
            os.replace(temporary, path)

    def _keeps(self, outcome: Outcome) -> bool:
        return outcome.score is not None and outcome.status in self.statuses


def _believed(content: Any, key: str) -> Outcome:
    """The outcome in a file's content.

    Raises:
        ValueError, KeyError, TypeError: if it is not what `CachedExecutor` wrote under this key.
    """
    if content["format"] != FORMAT or content["key"] != key:
        raise ValueError("it is of another version, or another submission's")
    said = content["outcome"]
    if content["digest"] != _digest(key, said):
        raise ValueError("its digest does not fit what it says")
    outcome = Outcome(**said)
    for field, kinds in FIELD_TYPES.items():
        value = getattr(outcome, field)
        if not isinstance(value, kinds) or isinstance(value, bool):
            raise TypeError(f"{field} is {value!r:.80}")
    if not (math.isfinite(outcome.seconds) and outcome.seconds >= 0.0):
        raise ValueError(f"seconds is {outcome.seconds}")
    return outcome


def _digest(key: str, said: Mapping[str, Any]) -> str:
    return hashlib.sha256(f"{key}\n{json.dumps(said)}".encode()).hexdigest()


def _copy(source: Future[Outcome], target: Future[Outcome]) -> None:
    if source.cancelled():
        target.cancel()
    if not target.set_running_or_notify_cancel():  # its owner may also have cancelled it alone
        return
    if (error := source.exception()) is not None:
        target.set_exception(error)
    else:
        target.set_result(source.result())


def _opened(path: Path) -> Iterator[int]:
    while True:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)


def _try_lock(path: Path) -> int | None:
    """Lock the file if nobody holds it. The kernel gives the lock back when its holder dies."""
    for descriptor in _opened(path):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
        if _is_current(path, descriptor):
            return descriptor
        os.close(descriptor)
    raise AssertionError("unreachable")


def _wait_for_lock(path: Path) -> int:
    for descriptor in _opened(path):
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        if _is_current(path, descriptor):
            return descriptor
        os.close(descriptor)
    raise AssertionError("unreachable")


def _is_current(path: Path, descriptor: int) -> bool:
    """Whether the locked file is still the one by that name: its last holder may have removed it meanwhile."""
    try:
        return os.path.samestat(os.stat(path), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _release(path: Path, descriptor: int) -> None:
    with contextlib.suppress(OSError):
        path.unlink()
    os.close(descriptor)
