"""Which executor a configuration gets, and what it is given."""

from __future__ import annotations

from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from wmrl_gym.configs.schema import ExecutionConfig, TasksConfig
from wmrl_gym.configs.validation import Component, ConfigError, to_dataclass
from wmrl_gym.core import Executor, ExpensiveRewardEnv, Outcome, Submission
from wmrl_gym.execution.cache import CachedExecutor
from wmrl_gym.execution.local import LocalExecutor
from wmrl_gym.runs.assembly import Domain, executor_for

TRIED: list[str] = []


class PlainEnv(ExpensiveRewardEnv[Any, Any]):
    def __init__(self, folder: str = "here") -> None:
        self.folder = folder

    def preflight(self) -> None:
        TRIED.append(self.folder)

    @property
    def environment_key(self) -> str:
        return "key"

    def submit(self, action: Any) -> Submission:
        return Submission("task", action)

    def execute(self, submission: Submission) -> Outcome:
        return Outcome(1.0, "valid", self.folder)

    def advance(self, outcome: Outcome | None) -> Any:
        raise AssertionError("no episode is played")


class FarExecutor:
    """An executor of a user's own, which makes its environment elsewhere."""

    def __init__(self, make_environment: Any, places: int = 1) -> None:
        self.environment, self.places, self.closed = make_environment(folder="there"), places, False

    @property
    def capacity(self) -> int:
        return self.places

    def submit(self, submission: Submission) -> Future[Outcome]:
        future: Future[Outcome] = Future()
        future.set_result(self.environment.execute(submission))
        return future

    def close(self) -> None:
        self.closed = True


def domain() -> Domain:
    component = Component.from_mapping({"_target_": f"{__name__}.PlainEnv"}, "env")
    return Domain(component, TasksConfig(train=["task"], held_out=[]))


def config(**settings: Any) -> ExecutionConfig:
    return to_dataclass(ExecutionConfig, settings, "execution")


def far(**arguments: Any) -> dict[str, Any]:
    return {"_target_": f"{__name__}.FarExecutor", **arguments}


def test_this_machine_executes_unless_another_class_is_named_and_is_tried_before() -> None:
    TRIED.clear()
    with executor_for(config(max_workers=3), domain()) as executor:
        assert isinstance(executor, LocalExecutor) and executor.capacity == 3
        assert executor.submit(Submission("task", "a")).result(5).feedback == "here"
    assert TRIED == ["here"]
    with executor_for(config(max_workers=None), domain()) as executor:
        assert executor.capacity == 1


def test_a_class_of_ones_own_is_given_what_it_takes_and_is_closed() -> None:
    TRIED.clear()
    with executor_for(config(executor=far(places=4), max_workers=2), domain()) as executor:
        assert isinstance(executor, FarExecutor) and isinstance(executor, Executor)
        assert executor.capacity == 4
        assert executor.submit(Submission("task", "a")).result(5).feedback == "there"
    assert executor.closed and TRIED == []  # it does not execute here


def test_the_cache_is_around_any_executor(tmp_path: Path) -> None:
    with executor_for(config(executor=far(), cache=str(tmp_path)), domain()) as executor:
        assert isinstance(executor, CachedExecutor) and isinstance(executor.inner, FarExecutor)
        for _ in range(2):
            assert executor.submit(Submission("task", "a")).result(5).feedback == "there"
        assert (executor.hits, executor.misses) == (1, 1)
    assert executor.inner.closed


def test_an_argument_that_the_class_does_not_take_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match=r"'execution.executor.place': did you mean 'execution.executor.places'"):
        config(executor=far(place=4))
    with pytest.raises(ConfigError, match=r"execution.max_workers is 0"):
        config(max_workers=0)
