from __future__ import annotations

import json
import multiprocessing
import threading
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from wmrl_gym.core import Executor, Outcome, Submission
from wmrl_gym.execution.cache import CachedExecutor, _digest
from wmrl_gym.execution.environment import environment_key
from wmrl_gym.execution.limits import SandboxLimits
from wmrl_gym.execution.local import LocalExecutor

VALID = Outcome(0.1 + 0.2, "valid", "ok\n", seconds=1.5, details={"percentile": 0.3, "none": None})


class Counting:
    """Executes at once, and counts."""

    capacity = 1

    def __init__(self, outcome: Outcome = VALID) -> None:
        self.outcome, self.calls = outcome, 0

    def submit(self, submission: Submission) -> Future[Outcome]:
        self.calls += 1
        future: Future[Outcome] = Future()
        future.set_result(self.outcome)
        return future

    def close(self) -> None:
        pass


def test_second_execution_is_answered_from_disk_with_the_same_outcome(tmp_path: Path) -> None:
    inner = Counting()
    assert isinstance(CachedExecutor(inner, tmp_path, "env"), Executor)
    outcomes = [CachedExecutor(inner, tmp_path, "env").submit(Submission("t", "s")).result(5) for _ in range(3)]
    assert inner.calls == 1 and outcomes == [VALID] * 3


@pytest.mark.parametrize(
    "other", [(Submission("t", "s2"), "env"), (Submission("t2", "s"), "env"), (Submission("t", "s"), "env2")]
)
def test_anything_that_differs_is_executed(tmp_path: Path, other: tuple[Submission, str]) -> None:
    inner = Counting()
    CachedExecutor(inner, tmp_path, "env").submit(Submission("t", "s")).result(5)
    CachedExecutor(inner, tmp_path, other[1]).submit(other[0]).result(5)
    assert inner.calls == 2


@pytest.mark.parametrize(
    "outcome",
    [
        Outcome(0.1, "timeout"),
        Outcome(0.1, "out_of_memory"),
        Outcome(None, "unknown"),
        Outcome(None, "valid"),
        Outcome(0.5, "valid", details={"object": object()}),
    ],
)
def test_what_a_second_run_might_not_repeat_is_not_kept(tmp_path: Path, outcome: Outcome) -> None:
    inner = Counting(outcome)
    executor = CachedExecutor(inner, tmp_path, "env")
    assert [executor.submit(Submission("t", "s")).result(5) for _ in range(2)] == [outcome] * 2
    assert inner.calls == 2 and (executor.hits, executor.misses) == (0, 2)


NESTED = b'{"a":' * 100_000
DAMAGES = [b"", b"{", b"[]", b"7", b"null", b"\xff\xfe", NESTED, b'{"format": 2}', b'{"format": 0, "key": ""}']


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage[:12].decode("latin-1"))
def test_damaged_file_is_a_miss_and_is_written_anew(tmp_path: Path, damage: bytes) -> None:
    inner = Counting()
    executor = CachedExecutor(inner, tmp_path, "env")
    executor.submit(Submission("t", "s")).result(5)
    (path,) = tmp_path.rglob("*.json")
    whole = path.read_bytes()
    path.write_bytes(damage)
    with pytest.warns(RuntimeWarning, match="executed again"):
        assert executor.submit(Submission("t", "s")).result(5) == VALID
    assert inner.calls == 2 and path.read_bytes() == whole


@pytest.mark.parametrize("sealed", [False, True])
@pytest.mark.parametrize(
    "change",
    [
        {"score": 1e9},
        {"score": -5},
        {"score": True},
        {"score": "0.5"},
        {"score": {"a": 1}},
        {"score": [0.5]},
        {"score": float("nan")},
        {"status": 3},
        {"status": "timeout"},
        {"feedback": None},
        {"seconds": "long"},
        {"seconds": -1.0},
        {"details": [1]},
        {"details": {"percentile": 1.0}},
        {"further": 1},
    ],
    ids=str,
)
def test_changed_outcome_is_not_believed(tmp_path: Path, change: dict[str, Any], sealed: bool) -> None:
    inner = Counting()
    executor = CachedExecutor(inner, tmp_path, "env")
    executor.submit(Submission("t", "s")).result(5)
    (path,) = tmp_path.rglob("*.json")
    content = json.loads(path.read_text())
    content["outcome"].update(change)
    possible = change in ({"score": 1e9}, {"score": -5}, {"details": {"percentile": 1.0}})
    if sealed and possible:
        pytest.skip("some environment's outcome may be that: only the digest tells")
    if sealed:
        content["digest"] = _digest(content["key"], content["outcome"])
    path.write_text(json.dumps(content))
    with pytest.warns(RuntimeWarning, match="executed again"):
        assert executor.submit(Submission("t", "s")).result(5) == VALID
    assert inner.calls == 2


def test_truncated_file_is_not_believed_wherever_it_ends(tmp_path: Path) -> None:
    inner = Counting()
    executor = CachedExecutor(inner, tmp_path, "env")
    executor.submit(Submission("t", "s")).result(5)
    (path,) = tmp_path.rglob("*.json")
    whole = path.read_bytes()
    for end in range(0, len(whole), 7):
        path.write_bytes(whole[:end])
        with pytest.warns(RuntimeWarning, match="executed again"):
            assert executor.submit(Submission("t", "s")).result(5) == VALID


def test_file_under_a_wrong_name_is_not_believed(tmp_path: Path) -> None:
    inner = Counting()
    executor = CachedExecutor(inner, tmp_path, "env")
    executor.submit(Submission("t", "a")).result(5)
    (first,) = tmp_path.rglob("*.json")
    executor.submit(Submission("t", "b")).result(5)
    (second,) = set(tmp_path.rglob("*.json")) - {first}
    second.write_bytes(first.read_bytes())
    with pytest.warns(RuntimeWarning, match="another submission's"):
        executor.submit(Submission("t", "b")).result(5)
    assert inner.calls == 3


def test_concurrent_equal_submissions_are_executed_once(tmp_path: Path) -> None:
    gate, calls = threading.Event(), []

    def execute(submission: Submission) -> Outcome:
        calls.append(submission)
        gate.wait(10)
        return VALID

    executor = CachedExecutor(LocalExecutor(execute, max_workers=4), tmp_path, "env")
    futures = [executor.submit(Submission("t", "s")) for _ in range(8)]
    gate.set()
    assert [future.result(10) for future in futures] == [VALID] * 8
    assert len(calls) == 1 and (executor.hits, executor.misses) == (7, 1)
    executor.close()


def test_failure_of_the_one_execution_reaches_all_who_wait_and_nothing_stays_locked(tmp_path: Path) -> None:
    class Broken(Counting):
        def submit(self, submission: Submission) -> Future[Outcome]:
            raise RuntimeError("no machine")

    executor = CachedExecutor(Broken(), tmp_path, "env")
    for _ in range(2):
        with pytest.raises(RuntimeError, match="no machine"):
            executor.submit(Submission("t", "s"))
    assert CachedExecutor(Counting(), tmp_path, "env").submit(Submission("t", "s")).result(5) == VALID
    assert not list(tmp_path.rglob("*.lock"))


def _in_process(directory: Path, counter: Path, keys: int) -> None:
    def execute(submission: Submission) -> Outcome:
        with counter.open("a") as file:
            file.write(f"{submission.content}\n")
        return VALID

    executor = CachedExecutor(LocalExecutor(execute, max_workers=2), directory, "env")
    futures = [executor.submit(Submission("t", str(i))) for i in range(keys)]
    assert all(future.result(30) == VALID for future in futures)
    executor.close()


def test_processes_that_share_a_directory_execute_each_submission_once(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    arguments = (tmp_path / "cache", tmp_path / "calls", 20)
    processes = [context.Process(target=_in_process, args=arguments) for _ in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
        assert process.exitcode == 0
    calls = (tmp_path / "calls").read_text().split()
    assert sorted(calls) == sorted(str(i) for i in range(20))
    assert not list((tmp_path / "cache").rglob("*.lock"))


def test_environment_key_changes_with_limits_and_surroundings_only() -> None:
    key = environment_key(SandboxLimits())
    assert key == environment_key(SandboxLimits(), {})
    assert len({key, environment_key(SandboxLimits(memory_mb=1)), environment_key(SandboxLimits(), {"a": 1})}) == 3
