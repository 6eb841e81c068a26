"""From a checked configuration to the objects that work: environments, executor, threads."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property, partial
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

    def env_fns(self, tasks: list[str], count: int) -> list[Callable[..., ExpensiveRewardEnv[Any, Any]]]:
        """`count` times a function that makes an environment which plays any of `tasks`.

        It can be pickled, and takes arguments of the environment that differ from the configuration's.
        """
        extra = {self.option: tasks} if self.option is not None and self._env.takes(self.option) else {}
        return [partial(_make_environment, self._env, extra)] * count

    def reset_options(self, task: str) -> dict[str, Any]:
        """Options of ``reset`` that begin an episode of `task`."""
        return {} if self.option is None else {self.option: task}


def _make_environment(component: Component, extra: Mapping[str, Any], **other: Any) -> ExpensiveRewardEnv[Any, Any]:
    arguments = {name: value for name, value in component.arguments.items() if name not in other}
    environment = dataclasses.replace(component, arguments=arguments).build(**extra, **other)
    if not isinstance(environment, ExpensiveRewardEnv):
        raise ConfigError(
            f"'env._target_' is '{component.target}', which makes a {type(environment).__name__}\n"
            "  derive it from wmrl_gym.ExpensiveRewardEnv and write submit, execute and advance."
        )
    return environment


@contextmanager
def executor_for(config: ExecutionConfig, domain: Domain) -> Iterator[Executor]:
    """The executor of a configuration, with its cache; it is closed at the end.

    `ExpensiveRewardEnv.execute` does not change the environment, so one environment serves all executions of a machine.
    An executor that takes ``execute`` runs it here, so this machine is tried first; one that takes ``make_environment``
    makes environments wherever it likes, and tries those places itself.

    Raises:
        SandboxUnavailable: if the environment runs scripts and this machine cannot isolate them.
        ConfigError: if a cache is asked for and the environment does not say what its outcomes depend on.
        ExecutorError: if an executor elsewhere cannot begin.
    """
    make_environment = domain.env_fns([*domain.train, *domain.held_out], 1)[0]
    environment = make_environment()
    if config.executor.takes("execute"):
        environment.preflight()
    key = None if config.cache is None else environment.environment_key
    if config.cache is not None and key is None:
        raise ConfigError(
            f"execution.cache is set, but {type(environment).__name__} has no 'environment_key'\n"
            "  without it, outcomes of other surroundings could be taken for this one's: set execution.cache=null."
        )
    offered: dict[str, Any] = {"execute": environment.execute, "make_environment": make_environment}
    if config.max_workers is not None:
        offered["max_workers"] = config.max_workers
    executor: Executor = config.executor.build(
        **{
            name: value
            for name, value in offered.items()
            if config.executor.takes(name) and name not in config.executor.arguments
        }
    )
    try:
        if config.cache is not None:
            from wmrl_gym.execution.cache import CachedExecutor

            executor = CachedExecutor(executor, config.cache, str(key))
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
