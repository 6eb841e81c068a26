from __future__ import annotations

import threading
import time
from concurrent.futures import Future, wait
from pathlib import Path

import pytest

from wmrl_gym.core import Executor, Outcome, Submission
from wmrl_gym.execution.local import LocalExecutor
from wmrl_gym.execution.sandbox import Sandbox, SandboxLimits


def submission(content: str) -> Submission:
    return Submission("task", content)


def test_is_an_executor() -> None:
    assert isinstance(LocalExecutor(lambda s: Outcome(1.0, "valid")), Executor)


def test_never_more_than_max_workers_run_and_all_are_answered_in_their_own_future() -> None:
    running, most, lock = 0, 0, threading.Lock()

    def execute(item: Submission) -> Outcome:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        time.sleep(0.02)
        with lock:
            running -= 1
        return Outcome(float(item.content), "valid")

    executor = LocalExecutor(execute, max_workers=3)
    futures = [executor.submit(submission(str(i))) for i in range(12)]
    assert [future.result(10).score for future in futures] == [float(i) for i in range(12)]
    assert most == 3 == executor.capacity
    executor.close()


@pytest.mark.parametrize("error", [ValueError("no such column"), SystemExit(3), KeyboardInterrupt()])
def test_raising_execute_gives_an_unknown_outcome_and_the_next_still_runs(error: BaseException) -> None:
    def execute(item: Submission) -> Outcome:
        if item.content == "bad":
            raise error
        return Outcome(1.0, "valid")

    executor = LocalExecutor(execute)
    bad, good = executor.submit(submission("bad")), executor.submit(submission("good"))
    assert (bad.result(10).score, bad.result().status) == (None, "unknown")
    assert type(error).__name__ in bad.result().details["error"]
    assert good.result(10).score == 1.0
    executor.close()


def test_wrong_type_of_answer_is_unknown() -> None:
    executor = LocalExecutor(lambda item: 0.5)  # type: ignore[arg-type, return-value]
    assert "float" in executor.submit(submission("")).result(10).details["error"]
    executor.close()


def test_close_cancels_what_waits_and_kills_running_sandboxes(data: Path) -> None:
    sandbox = Sandbox(SandboxLimits(wall_seconds=60.0))
    started = threading.Event()

    def execute(item: Submission) -> Outcome:
        started.set()
        result = sandbox.run(item.content, data)
        return Outcome(None if result.status == "infrastructure_error" else 1.0, result.status)

    executor = LocalExecutor(execute)
    running = executor.submit(submission("import time; time.sleep(50)"))
    waiting = executor.submit(submission("pass"))
    assert started.wait(10)
    begin = time.monotonic()
    executor.close()
    assert time.monotonic() - begin < 5
    assert running.result(0).score is None
    assert waiting.cancelled()
    with pytest.raises(RuntimeError, match="closed"):
        executor.submit(submission(""))


def test_sandbox_outlives_other_threads_but_not_its_time(data: Path) -> None:
    """The kernel's death signal follows the thread that started the sandbox: a worker must not end between runs."""
    sandbox = Sandbox(SandboxLimits(wall_seconds=10.0))
    executor = LocalExecutor(lambda item: Outcome(1.0, sandbox.run(item.content, data).status))
    futures: list[Future[Outcome]] = []
    caller = threading.Thread(
        target=lambda: futures.append(executor.submit(submission("import time; time.sleep(0.8)")))
    )
    caller.start()
    caller.join()  # the submitting thread is gone while the script runs
    wait(futures, 10)
    assert futures[0].result().status == "ok"
    executor.close()
