"""From a checked configuration to the objects that work: environments, executor, world model, policy, threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wmrl_gym.cli.doctor import usable_cores
from wmrl_gym.configs.schema import ExecutionConfig, TasksConfig
from wmrl_gym.configs.validation import Component, build
from wmrl_gym.core import Executor, ExpensiveRewardEnv


class Domain:
    """The tasks of a configuration and how to make an environment for them.

    Args:
        env: the environment's component.
        tasks: which tasks there are.
    """

    def __init__(self, env: Component, tasks: TasksConfig) -> None:
        self._env = env
        self.option = tasks.option
        self.train: list[str] = list(build(tasks.train))
        self.held_out: list[str] = list(build(tasks.held_out))

    def make_env(self, tasks: list[str]) -> ExpensiveRewardEnv[Any, Any]:
        """An environment that plays any of `tasks`."""
        if self.option is not None and self._env.takes(self.option):
            environment = self._env.build(**{self.option: tasks})
        else:
            environment = self._env.build()
        return environment  # type: ignore[no-any-return]

    def env_fn(self, tasks: list[str]) -> Callable[[], ExpensiveRewardEnv[Any, Any]]:
        """`make_env` as a function without arguments, as vector environments want it."""
        return lambda: self.make_env(tasks)

    def reset_options(self, task: str) -> dict[str, Any]:
        """Options of ``reset`` that begin an episode of `task`."""
        return {} if self.option is None else {self.option: task}


def make_executor(config: ExecutionConfig, environment: ExpensiveRewardEnv[Any, Any]) -> Executor:
    """An executor on this machine; with a cache if the environment names what its outcomes depend on.

    `ExpensiveRewardEnv.execute` does not change the environment, so one environment serves all executions.
    """
    from wmrl_gym.execution.cache import CachedExecutor
    from wmrl_gym.execution.local import LocalExecutor

    executor: Executor = LocalExecutor(environment.execute, config.max_workers)
    key = getattr(environment, "environment_key", None)
    if config.cache is not None and key is not None:
        executor = CachedExecutor(executor, config.cache, key)
    return executor


def set_threads(threads: int | None, *, executes: bool) -> int:
    """Set torch's threads and return their number.

    One where scripts run beside the trainer, because two threads beside busy neighbours are slower than one; else one for
    each core.
    """
    import torch

    chosen = threads if threads is not None else (1 if executes else usable_cores())
    torch.set_num_threads(chosen)
    return chosen
