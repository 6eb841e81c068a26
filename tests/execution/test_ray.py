"""Executing on a Ray cluster of two machines that lose workers, machines and their head."""

from __future__ import annotations

import dataclasses
import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.execution.conftest import alive
from tests.execution.ray_environments import (
    REFUSED,
    FileEnv,
    Machines,
    ScriptedEnv,
    journal_lines,
    machines,
)
from wmrl_gym.core import Executor, ExecutorError, Outcome, Submission
from wmrl_gym.envs.mle_dojo.env import MLEDojoEnv
from wmrl_gym.execution.local import LocalExecutor
from wmrl_gym.execution.ray.executor import RayExecutor

pytestmark = [pytest.mark.alone, pytest.mark.slow]

BASELINE = """
import os, pandas as pd
train, test = (pd.read_csv(os.path.join(DATA_DIR, name)) for name in ("train.csv", "test.csv"))
target = [name for name in train.columns if name not in test.columns][0]
pd.DataFrame({test.columns[0]: test.iloc[:, 0], target: train[target].mode()[0]}).to_csv(SUBMISSION_PATH, index=False)
"""


@dataclasses.dataclass(frozen=True)
class Unpicklable:
    """Has a fingerprint, but does not travel."""

    number: int = 3

    def __reduce__(self) -> Any:
        raise TypeError("stays at home")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Machines]:
    with machines(2) as made:
        yield made


Make = Callable[..., RayExecutor]


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    return tmp_path / "journal"


@pytest.fixture
def make(cluster: Machines, journal: Path) -> Iterator[Make]:
    made: list[RayExecutor] = []

    def begin(make_environment: Any = None, **settings: Any) -> RayExecutor:
        settings = {"address": cluster.address, "start_timeout": 60.0} | settings
        made.append(RayExecutor(make_environment or partial(ScriptedEnv, str(journal)), **settings))
        return made[-1]

    yield begin
    for executor in made:
        executor.close()


def order(*content: Any) -> Submission:
    return Submission("task", content)


def same(first: Outcome, second: Outcome) -> bool:
    parts = ("score", "status", "feedback", "source")
    known = [{name: value for name, value in o.details.items() if name != "traceback"} for o in (first, second)]
    return all(getattr(first, part) == getattr(second, part) for part in parts) and known[0] == known[1]


def test_outcomes_are_the_local_executors_whatever_the_script_does(make: Make, smoke_root: Path) -> None:
    make_environment = partial(MLEDojoEnv, "titanic_survival", data_root=smoke_root, sandbox_start="warm")
    environment = make_environment()
    bodies = [
        BASELINE,
        BASELINE + "\nraise KeyError('Cabin')",
        "def (",
        "pass",
        "open(SUBMISSION_PATH, 'w').write('x')",
    ]
    overview = {"overview": environment.competitions["titanic_survival"].overview}
    submissions = [Submission("titanic_survival", body, overview) for body in bodies]
    far, here = make(make_environment), LocalExecutor(environment.execute)
    assert isinstance(far, Executor)
    futures = [far.submit(submission) for submission in submissions]
    expected = [here.submit(submission).result(60) for submission in submissions]
    here.close()
    assert [outcome.status for outcome in expected] == [
        *("valid", "runtime_error", "syntax_error", "invalid_submission", "invalid_submission")
    ]
    for future, outcome in zip(futures, expected, strict=True):
        assert same(future.result(60), outcome)


def test_faults_inside_execute_are_unknown_and_never_tried_again(make: Make, journal: Path) -> None:
    executor, local = make(), LocalExecutor(ScriptedEnv(os.devnull).execute)
    for content in (("bad", "raise"), ("odd", "strange")):
        outcome = executor.submit(order(*content)).result(20)
        assert same(outcome, local.submit(order(*content)).result(20))
        assert (outcome.score, outcome.status) == (None, "unknown")
    assert executor.submit(order("still", "untravelled")).result(20).score is None
    assert executor.submit(order("fine")).result(20).score == 4.0
    assert [name for name, _ in journal_lines(journal, 4)] == ["bad", "odd", "still", "fine"]
    local.close()


def test_what_cannot_travel_is_unknown_and_takes_no_worker(make: Make) -> None:
    executor = make()
    for _ in range(3):
        outcome = executor.submit(Submission("task", Unpicklable())).result(20)
        assert outcome.score is None and "at home" in outcome.details["error"]
    assert executor.submit(order("fine")).result(20).score == 4.0


def test_idle_workers_of_a_lost_machine_cost_no_attempt(make: Make, cluster: Machines) -> None:
    room = f"lost{time.monotonic_ns()}"
    staying, lost = cluster.add(1, room), cluster.add(6, room)
    executor = make(max_workers=7, num_cpus=0.0, resources={room: 1}, retries=0)
    futures = [executor.submit(order(f"each{i}", 0.2)) for i in range(14)]
    assert all(future.result(60).score is not None for future in futures)
    cluster.kill(lost)
    deadline = time.monotonic() + 60
    while executor._standing > 1 and time.monotonic() < deadline:  # until the cluster knows that it is lost
        time.sleep(0.2)
    assert executor._standing == 1
    futures = [executor.submit(order(f"after{i}")) for i in range(4)]
    assert all(future.result(60).score is not None for future in futures)
    cluster.kill(staying)


def test_what_kills_every_worker_is_unknown_in_the_end_and_the_rest_goes_on(make: Make, journal: Path) -> None:
    executor = make(retries=1)
    deadly, fine = executor.submit(order("deadly", "exit")), [executor.submit(order(f"fine{i}")) for i in range(4)]
    assert [future.result(60).score for future in fine] == [5.0] * 4
    assert deadly.result(60).score is None
    assert "lost 2 times" in deadly.result().details["error"]
    assert Counter(name for name, _ in journal_lines(journal, 6))["deadly"] == 2


def test_two_of_one_kind_under_way_are_one_execution_and_two_outcomes(make: Make, journal: Path) -> None:
    executor = make()
    futures = [executor.submit(order("twin", 0.5)) for _ in range(5)]
    assert futures[4].cancel() or futures[4].running()
    assert [future.result(20).score for future in futures[:4]] == [4.0] * 4
    assert len(journal_lines(journal, 1)) == 1
    assert executor.submit(order("twin", 0.5)).result(20).score == 4.0  # the first is over: a new execution
    assert len(journal_lines(journal, 2)) == 2


def test_what_was_cancelled_by_everybody_is_not_executed(make: Make, journal: Path) -> None:
    executor = make(max_workers=1)
    first, second, third = (executor.submit(order(name, 0.5)) for name in ("first", "second", "third"))
    assert second.cancel()
    assert first.result(20).score is not None and third.result(20).score is not None
    assert [name for name, _ in journal_lines(journal, 2)] == ["first", "third"]
    assert executor.capacity == 1


def test_a_killed_worker_loses_nothing_and_doubles_nothing(make: Make, journal: Path) -> None:
    executor = make()
    futures = [executor.submit(order(f"{i}", 0.7)) for i in range(6)]
    os.kill(journal_lines(journal, 1)[0][1], signal.SIGKILL)
    assert [future.result(60).score for future in futures] == [1.0] * 6
    executed = Counter(name for name, _ in journal_lines(journal, 7))
    assert set(executed) == {str(i) for i in range(6)} and sum(executed.values()) == 7


def test_close_cancels_what_waits_and_leaves_no_sandbox(make: Make, smoke_root: Path, mark: str) -> None:
    executor = make(partial(MLEDojoEnv, "titanic_survival", data_root=smoke_root, sandbox_start="warm"), max_workers=1)
    script = f"import ctypes, time; ctypes.CDLL(None).prctl(15, b'{mark}', 0, 0, 0); time.sleep(15)"
    running, waiting = (executor.submit(Submission("titanic_survival", script + end)) for end in ("", "\n"))
    deadline = time.monotonic() + 20
    while not alive(mark) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert alive(mark)
    begun = time.monotonic()
    executor.close()
    assert time.monotonic() - begun < 5
    assert (running.result(0).score, running.result(0).status) == (None, "unknown")
    assert waiting.cancelled()
    time.sleep(0.5)
    assert not alive(mark)
    with pytest.raises(RuntimeError, match="closed"):
        executor.submit(order("late"))


def test_a_killed_machine_loses_nothing_and_a_joining_one_gets_work(
    cluster: Machines, make: Make, journal: Path
) -> None:
    executor = make()
    before = executor.submit(order("before")).result(20)
    futures = [executor.submit(order(f"{i}", 0.7)) for i in range(8)]
    journal_lines(journal, 3)
    cluster.kill(next(iter(cluster.cluster.worker_nodes)))
    outcomes = [future.result(60) for future in futures]
    assert [outcome.score for outcome in outcomes] == [1.0] * 8 and before.score == 6.0
    cluster.add()
    deadline = time.monotonic() + 40
    while time.monotonic() < deadline:
        futures = [executor.submit(order(f"again{time.monotonic()}{i}", 0.1)) for i in range(4)]
        if len({future.result(40).details["pid"] for future in futures}) == 2:
            return
    pytest.fail("the machine that joined was given nothing")


def test_data_come_to_each_machine_once(cluster: Machines, make: Make, tmp_path: Path) -> None:
    folder = tmp_path / "data"
    (folder / "task").mkdir(parents=True)
    (folder / "task" / "answer.txt").write_text("0.25")
    homes = [tmp_path / "first", tmp_path / "second"]
    for home in homes:
        home.mkdir()
    two = [cluster.add(num_cpus=2, room="brought", HOME=str(home)) for home in homes]
    inodes = []
    for _ in range(2):
        executor = make(_Elsewhere(partial(FileEnv, folder), homes), num_cpus=0, resources={"brought": 1})
        deadline = time.monotonic() + 60
        while executor._standing < 4 and time.monotonic() < deadline:
            time.sleep(0.1)
        assert executor.capacity == 4
        outcomes = [executor.submit(order(f"{i}")).result(30) for i in range(8)]
        executor.close()
        assert [outcome.score for outcome in outcomes] == [0.25] * 8
        assert {Path(outcome.feedback).parents[4] for outcome in outcomes} == set(homes)
        brought = [list((home / ".cache/wmrl_gym/ray").glob("*[!k]")) for home in homes]
        assert [len(found) for found in brought] == [1, 1]
        inodes.append([found[0].stat().st_ino for found in brought])
    assert inodes[0] == inodes[1]
    for node in two:
        cluster.kill(node)


class _Elsewhere:
    """A factory whose usual folder is there only for the trainer."""

    def __init__(self, make_environment: partial[FileEnv], homes: list[Path]) -> None:
        self.make_environment, self.homes = make_environment, [str(home) for home in homes]

    def __call__(self, **arguments: Any) -> FileEnv:
        if os.environ["HOME"] in self.homes and not arguments:
            raise FileNotFoundError("the folder is not on this machine")
        return self.make_environment(**arguments) if not arguments else FileEnv(**arguments)


def test_missing_data_that_cannot_be_brought_and_a_machine_that_cannot_execute_are_refused(
    cluster: Machines, make: Make, tmp_path: Path
) -> None:
    (tmp_path / "task").mkdir()
    (tmp_path / "task" / "answer.txt").write_text("1")
    bad = cluster.add(room="bad", HOME=str(tmp_path), **{REFUSED: "yes"})
    place: dict[str, Any] = {"num_cpus": 0, "resources": {"bad": 1}}
    with pytest.raises(ExecutorError, match=r"was refused: .*the folder is not on this machine"):
        make(_Elsewhere(partial(FileEnv, tmp_path, travels=False), [tmp_path]), **place)
    with pytest.raises(ExecutorError, match="was refused: RuntimeError: this machine cannot isolate scripts"):
        make(**place)
    good = cluster.add(room="bad")
    executor = make(max_workers=1, **place)
    assert executor.submit(order("fine")).result(30).score == 4.0
    for node in (bad, good):
        cluster.kill(node)


def test_no_cluster_and_no_room_are_told_and_nothing_hangs(cluster: Machines, make: Make) -> None:
    with pytest.raises(ExecutorError, match=r"no machine of the cluster has room for a worker, which takes CPU 64"):
        make(num_cpus=64, start_timeout=3.0)
    with pytest.raises(ExecutorError, match=r"no worker of the Ray cluster stands"):
        make(address="127.0.0.1:1", start_timeout=3.0)
    for wrong in ({"max_workers": 0}, {"num_cpus": 0.0}, {"memory": -1.0}, {"retries": -1}, {"start_timeout": 0.0}):
        with pytest.raises(ValueError, match="give"):
            make(**wrong)


def test_an_environment_that_executes_only_where_it_plays_is_refused() -> None:
    class HereEnv(ScriptedEnv):
        executes_anywhere = False

    with pytest.raises(ValueError, match=r"HereEnv .*\n  choose execution=local"):
        RayExecutor(lambda: HereEnv(os.devnull))


def test_a_lost_head_leaves_what_came_and_makes_the_rest_unknown(
    journal: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_gcs_rpc_server_reconnect_timeout_s", "3")
    with machines(1) as made:
        executor = RayExecutor(partial(ScriptedEnv, str(journal)), address=made.address, start_timeout=30.0)
        first = executor.submit(order("first")).result(20)
        executor.start_timeout = 2.0
        second, third = executor.submit(order("second", 15.0)), executor.submit(order("third"))
        journal_lines(journal, 2)
        made.cluster.head_node.kill_gcs_server(False)
        assert [(future.result(60).score, future.result().status) for future in (second, third)] == [
            *((None, "unknown"), (None, "unknown"))
        ]
        assert first.score == 5.0
        assert "no worker of the Ray cluster has stood" in third.result().details["error"]
        begun = time.monotonic()
        executor.close()
        assert time.monotonic() - begun < 12
