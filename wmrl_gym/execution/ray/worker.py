"""A worker on a machine of a Ray cluster: makes its environment once, then executes one submission after the other."""

from __future__ import annotations

import dataclasses
import os
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from wmrl_gym.core import ExpensiveRewardEnv, Outcome
from wmrl_gym.execution.environment import surroundings_here
from wmrl_gym.execution.faults import outcome_of, unknown_outcome
from wmrl_gym.execution.ray.data import Package, unpack


@dataclasses.dataclass(frozen=True)
class Order:
    """What a worker has to be like, as it is where the executor was made."""

    make_environment: Callable[..., ExpensiveRewardEnv[Any, Any]]
    environment_key: str | None
    data_digests: Mapping[str, str]
    can_bring_data: bool
    surroundings: Mapping[str, str]
    """Versions, to tell what differs where the environment's key does."""

    @classmethod
    def of(cls, make_environment: Callable[..., ExpensiveRewardEnv[Any, Any]]) -> tuple[Order, Sequence[Any]]:
        """Make an environment here and ask it; the second value is its data folders.

        Raises:
            ValueError: if it cannot execute elsewhere.
        """
        environment = make_environment()
        try:
            if not environment.executes_anywhere:
                raise ValueError(
                    f"what {type(environment).__name__} executes is known only in the process that played it\n"
                    "  choose execution=local; docs/ray.md says what else of it can run on a cluster."
                )
            folders = environment.data_folders()
            digests, key = environment.data_digests(), environment.environment_key
            return cls(make_environment, key, dict(digests), bool(folders), surroundings_here()), folders
        finally:
            environment.close()


@dataclasses.dataclass(frozen=True)
class Answer:
    """What becomes of a worker that was to stand."""

    node: str
    """Id of its machine in the cluster."""
    host: str
    problem: str | None = None
    """Why it cannot execute here; None if it stands."""
    needs_data: bool = False
    """Whether bringing the data may help."""


class Worker:
    """The actor. Ray calls its methods one at a time, in one thread, which outlives every sandbox."""

    def __init__(self) -> None:
        self._environment: ExpensiveRewardEnv[Any, Any] | None = None

    def stand(self, path: Sequence[str], order: bytes, package: Package | None = None) -> Answer:
        """Make the environment and try whether it can execute here.

        Args:
            path: where else modules may be found: the trainer's ``sys.path``.
            order: a pickled `Order`.
            package: data that were brought; None looks for them where the trainer has them.
        """
        import ray
        from ray import cloudpickle

        context = ray.get_runtime_context()
        here = Answer(context.get_node_id(), socket.gethostname())
        try:
            sys.path += [entry for entry in path if entry not in sys.path and os.path.isdir(entry)]
            wanted: Order = cloudpickle.loads(order)
            try:
                environment = _made(wanted, package)
            except _OtherData:
                if package is None and wanted.can_bring_data:
                    return dataclasses.replace(here, needs_data=True)
                raise
            _check_surroundings(wanted, environment)
            environment.preflight()
        except Exception as error:
            return dataclasses.replace(here, problem=_told(error))
        self._environment = environment
        return here

    def run(self, submission: bytes) -> bytes:
        """Execute a pickled submission; returns the pickled outcome. Never raises for what `execute` does."""
        from ray import cloudpickle

        def execute(pickled: Any) -> Outcome:
            assert self._environment is not None, "the worker does not stand"
            return self._environment.execute(cloudpickle.loads(pickled))

        outcome = outcome_of(execute, submission)  # type: ignore[arg-type]
        try:
            return cloudpickle.dumps(outcome)
        except Exception as error:  # details that cannot travel
            return cloudpickle.dumps(unknown_outcome(error, outcome.seconds))


class _OtherData(Exception):
    """The environment could not be made here, or its data are others."""


def _made(wanted: Order, package: Package | None) -> ExpensiveRewardEnv[Any, Any]:
    """The environment, with the data that it had where the executor was made."""
    arguments = {} if package is None else unpack(package, _get, Path.home() / ".cache" / "wmrl_gym" / "ray")
    try:
        environment = wanted.make_environment(**arguments)
        digests = dict(environment.data_digests())
    except Exception as error:
        raise _OtherData(_told(error)) from error
    other = sorted(task for task, digest in wanted.data_digests.items() if digests.get(task) != digest)
    if other:
        raise _OtherData(
            f"the data of {', '.join(other[:5])}{' and more' if len(other) > 5 else ''} are not those of the trainer"
            + "".join(f"\n  brought to: {folder}" for folder in arguments.values())
        )
    return environment


def _check_surroundings(wanted: Order, environment: ExpensiveRewardEnv[Any, Any]) -> None:
    """Refuse what would decide outcomes otherwise than where the executor was made."""
    if environment.environment_key == wanted.environment_key:
        return
    here, there = surroundings_here(), wanted.surroundings
    differing = [
        f"{name} {here.get(name)} instead of {there.get(name)}"
        for name in sorted({*here, *there})
        if here.get(name) != there.get(name)
    ]
    raise RuntimeError(
        "outcomes here would not be those of the trainer's machine: the environment's key is another\n"
        f"  {'; '.join(differing) or 'the versions are the same, but the data or the code of the environment differ'}\n"
        "  install on every machine what the trainer's has."
    )


def _get(reference: Any) -> bytes:
    import ray

    return ray.get(reference)


def _told(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
