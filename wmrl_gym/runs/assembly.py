"""From a checked configuration to the objects that work: environments, executor, threads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any

from wmrl_gym.configs.schema import ExecutionConfig, TasksConfig
from wmrl_gym.configs.validation import Component, ConfigError, import_target
from wmrl_gym.core import Executor, ExpensiveRewardEnv, Measure
from wmrl_gym.execution.cores import usable_cores


class Domain:
    """The tasks of a configuration and how to make an environment for them.

    Args:
        env: the environment's component.
        tasks: which tasks there are.
    """

    def __init__(self, env: Component, tasks: TasksConfig) -> None:
        self._env = env
        self.option = tasks.option
        self._measure, self._also = tasks.measure, tasks.also
        self.train = _names(tasks.train, "tasks.train")
        self.held_out = _names(tasks.held_out, "tasks.held_out")
        self.categories = _categories(tasks.categories, self.held_out)

    @cached_property
    def _environment(self) -> type[ExpensiveRewardEnv[Any, Any]]:
        environment = self.env_fns([*self.train, *self.held_out], 1)[0]()
        environment.close()
        return type(environment)

    @property
    def measure(self) -> Measure:
        """By what the held-out tasks are valued: the configuration's choice, else the domain's usual one."""
        environment = self._environment
        return environment.measures[0] if self._measure is None else environment.measure(self._measure)

    def check(self) -> None:
        """Make an environment for all the tasks, to see that it can be made and what it knows.

        Raises:
            ConfigError: if it is none of ours, or has no measure of a name that ``tasks`` gives.
        """
        environment = self._environment
        named = [] if self._measure is None else [("tasks.measure", self._measure)]
        for where, name in [*named, *(("tasks.also", name) for name in self._also)]:
            try:
                environment.measure(name)
            except ValueError as error:
                raise ConfigError(f"'{where}' names '{name}': {error}") from error

    @property
    def success_status(self) -> str | None:
        """Status of an outcome that achieved something, if the domain has one."""
        return self._environment.success_status

    def env_fns(self, tasks: list[str], count: int) -> list[Callable[[], ExpensiveRewardEnv[Any, Any]]]:
        """`count` times a function that makes an environment which plays any of `tasks`."""

        def make() -> ExpensiveRewardEnv[Any, Any]:
            extra = {self.option: tasks} if self.option is not None and self._env.takes(self.option) else {}
            environment = self._env.build(**extra)
            if not isinstance(environment, ExpensiveRewardEnv):
                raise ConfigError(
                    f"'env._target_' is '{self._env.target}', which makes a {type(environment).__name__}\n"
                    "  derive it from wmrl_gym.ExpensiveRewardEnv and write submit, execute and advance."
                )
            return environment

        return [make] * count

    def reset_options(self, task: str) -> dict[str, Any]:
        """Options of ``reset`` that begin an episode of `task`."""
        return {} if self.option is None else {self.option: task}


@contextmanager
def executor_for(config: ExecutionConfig, domain: Domain) -> Iterator[Executor]:
    """An executor on this machine that is closed at the end.

    `ExpensiveRewardEnv.execute` does not change the environment, so one environment serves all executions.

    Raises:
        SandboxUnavailable: if the environment runs scripts and this machine cannot isolate them.
        ConfigError: if a cache is asked for and the environment does not say what its outcomes depend on.
    """
    from wmrl_gym.execution.cache import CachedExecutor
    from wmrl_gym.execution.local import LocalExecutor

    environment = domain.env_fns([*domain.train, *domain.held_out], 1)[0]()
    environment.preflight()
    executor: Executor = LocalExecutor(environment.execute, config.max_workers)
    if config.cache is not None:
        key = environment.environment_key
        if key is None:
            raise ConfigError(
                f"execution.cache is set, but {type(environment).__name__} has no 'environment_key'\n"
                "  without it, outcomes of other surroundings could be taken for this one's: set execution.cache=null."
            )
        executor = CachedExecutor(executor, config.cache, str(key))
    try:
        yield executor
    finally:
        executor.close()


def prepare_torch(threads: int | None, scripts_beside: bool = False) -> int:
    """Set torch's threads and return their number; keep transformers from drawing progress bars between our lines.

    Unless said otherwise one for each core, because with lock-step rollouts nothing runs beside the trainer while it
    computes; but a single one where ``scripts_beside`` it do: two pools of threads on the same cores cost more than
    they bring.
    """
    import torch
    from transformers.utils import logging

    logging.disable_progress_bar()
    chosen = threads if threads is not None else 1 if scripts_beside else usable_cores()
    torch.set_num_threads(chosen)
    return chosen


def _names(tasks: list[str] | str, where: str) -> list[str]:
    return list(import_target(tasks, where)()) if isinstance(tasks, str) else tasks


def _categories(categories: dict[str, str] | str | None, tasks: list[str]) -> dict[str, str] | None:
    """Category of each of these tasks; None unless all have one."""
    known = dict(import_target(categories, "tasks.categories")()) if isinstance(categories, str) else categories or {}
    return {task: known[task] for task in tasks} if tasks and all(task in known for task in tasks) else None
