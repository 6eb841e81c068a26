"""A simulator that hangs or dies is replaced, and nobody notices but by the clock."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path

import pytest

from tests.envs.libero.conftest import SMALL, SOUP_AND_SAUCE, random_actions
from wmrl_gym.envs.libero.jobs import Job, JobResult
from wmrl_gym.envs.libero.pool import SimulatorError, SimulatorPool


def test_settings_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ValueError, match="must be positive"):
        SimulatorPool(workers=0)


def test_a_closed_pool_takes_no_jobs(settled_free_job: Job) -> None:
    pool = SimulatorPool(1)
    pool.close()
    assert not any(thread.is_alive() for thread in pool._threads if not thread.join(5.0))
    with pytest.raises(SimulatorError, match="closed"):
        pool.submit(settled_free_job)


def test_processes_that_cannot_start_fail_the_job_for_good(
    settled_free_job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    pool = SimulatorPool(1)
    with pytest.raises(SimulatorError, match=r"failed 3 times(.|\n)*exit code 1"):
        pool.submit(settled_free_job).result(60)
    assert pool.restarts == 3
    pool.close()


def test_processes_that_cannot_be_made_fail_the_job_for_good(
    settled_free_job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    pool = SimulatorPool(1)
    with pytest.raises(SimulatorError, match="could not be started"):
        pool.submit(settled_free_job).result(60)
    pool.close()


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Processes that live and never answer."""
    program = tmp_path / "silent"
    program.write_text("#!/bin/sh\nexec sleep 120\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))


def is_running(process_id: int) -> bool:
    return Path(f"/proc/{process_id}").exists()


@pytest.mark.usefixtures("silent")
def test_closing_during_a_job_fails_it_cancels_those_that_wait_and_leaves_nothing(settled_free_job: Job) -> None:
    pool = SimulatorPool(1)
    working, waiting = pool.submit(settled_free_job), pool.submit(settled_free_job)
    while not pool.process_ids:
        time.sleep(0.01)
    process_id = pool.process_ids[0]
    # Ctrl-C goes to the trainer's process group: a trainer that finishes its step still needs its simulators.
    assert os.getpgid(process_id) != os.getpgid(0)
    pool.close()
    assert not is_running(process_id)
    with pytest.raises(SimulatorError, match="closed"):
        working.result(10)
    assert waiting.cancelled()
    for thread in pool._threads:
        thread.join(5)
    assert not pool.process_ids and not any(thread.is_alive() for thread in pool._threads)


@pytest.mark.usefixtures("silent")
def test_a_pool_closed_while_a_process_begins_starts_none(
    settled_free_job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = SimulatorPool(1)
    begins, closed = threading.Event(), threading.Event()
    worker = pool._workers[0]
    start = worker._start

    def late() -> object:
        begins.set()
        assert closed.wait(10)
        return start()

    monkeypatch.setattr(worker, "_start", late)
    future = pool.submit(settled_free_job)
    assert begins.wait(10)
    pool.close()
    closed.set()
    with pytest.raises(SimulatorError, match="closed"):
        future.result(10)
    pool._threads[0].join(5)
    assert not pool._threads[0].is_alive() and not pool.process_ids


@pytest.mark.slow
def test_a_process_that_stops_in_the_middle_of_its_answer_is_replaced(
    settled_free_job: Job, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program = tmp_path / "half"
    program.write_text(
        "#!/usr/bin/env bash\n"  # which begins at once also on a busy machine
        "printf '\\000\\000\\001\\000256 bytes were announced' >&$3\nexec sleep 120\n"
    )
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    monkeypatch.setattr("wmrl_gym.envs.libero.pool.START_SECONDS", 0.0)
    pool = SimulatorPool(1, timeout=5.0)
    with pytest.raises(SimulatorError, match=r"failed 3 times(.|\n)*stopped in the middle of its answer for 5 seconds"):
        pool.submit(settled_free_job).result(60)
    pool.close()


@pytest.fixture
def settled_free_job() -> Job:
    return Job(SOUP_AND_SAUCE, random_actions(1)[0], random_actions(1))


@pytest.mark.slow
@pytest.mark.sim
def test_a_hanging_process_is_replaced_and_the_result_is_the_same(
    pool: SimulatorPool, settled: JobResult, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = Job(SOUP_AND_SAUCE, settled.snapshot, random_actions(8), SMALL)
    expected, restarts = pool.submit(job).result(), pool.restarts
    stopped = pool.process_ids[0]
    os.kill(stopped, signal.SIGSTOP)
    monkeypatch.setattr(pool, "timeout", 3.0)
    future = pool.submit(job)
    while pool.restarts == restarts:  # from here on, a busy machine may take longer than that
        time.sleep(0.05)
    monkeypatch.undo()
    result = future.result()
    assert pool.restarts == restarts + 1
    assert pool.process_ids[0] != stopped
    assert result.snapshot.key == expected.snapshot.key
    assert (result.frames["agentview"] == expected.frames["agentview"]).all()


@pytest.mark.sim
def test_a_process_killed_at_work_is_replaced_and_the_result_is_the_same(
    pool: SimulatorPool, settled: JobResult
) -> None:
    job = Job(SOUP_AND_SAUCE, settled.snapshot, random_actions(40))
    expected, restarts = pool.submit(job).result(), pool.restarts
    future = pool.submit(job)
    threading.Timer(0.2, os.kill, (pool.process_ids[0], signal.SIGKILL)).start()
    assert future.result().snapshot.key == expected.snapshot.key
    assert pool.restarts == restarts + 1


@pytest.mark.sim
def test_a_job_that_cannot_be_done_fails_with_the_simulator_s_own_words(
    pool: SimulatorPool, settled: JobResult, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wmrl_gym.envs.libero.pool.ATTEMPTS", 1)
    with pytest.raises(SimulatorError, match=r"actions have shape \(1, 6\)"):
        pool.submit(Job(SOUP_AND_SAUCE, settled.snapshot, random_actions(1)[:, :6])).result()
