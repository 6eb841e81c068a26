"""Simulators on the machines of a Ray cluster, which do the same jobs as those of a pool on this machine.

A job is all that a simulator must know, and its result all that is wanted of it. So a job travels as a submission, its
result as the details of an outcome, and everything else (machines that come and go, what is tried again, which
machines are refused) is `RayExecutor`'s.
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from concurrent.futures import Future
from functools import partial
from typing import Any, NoReturn

from wmrl_gym.core import ExpensiveRewardEnv, Outcome, Submission, fingerprint
from wmrl_gym.envs.libero.jobs import Job, JobResult
from wmrl_gym.envs.libero.pool import SimulatorError, SimulatorPool
from wmrl_gym.envs.libero.versions import installed_versions
from wmrl_gym.execution.ray.executor import RayExecutor

PROCESS_BYTES, SIMULATOR_BYTES = 1_200_000_000, 800_000_000
"""Memory of a simulator process, and of each simulator that it keeps loaded (measured: docs/libero.md)."""


class ClusterSimulators:
    """Does what `SimulatorPool` does, on the machines of a Ray cluster; each worker has one simulator process.

    A job whose worker or machine is lost is done again elsewhere, with the same result, since its start is a snapshot.
    Machines with other versions of the simulator are refused.

    Args:
        workers: how many simulator processes, over all machines.
        timeout: seconds after which a job that has not come back counts as hanging.
        tasks_per_worker: simulators a process keeps loaded. Workers take turns, so each meets every task that is
            played: let this be as many.
        ray: further settings of `RayExecutor`, by name: "address", "num_gpus", "retries", ...

    Raises:
        ImportError: if Ray is not installed.
        ExecutorError: if there is no cluster, or no worker stands in time.
        ValueError: for settings that make no sense.
    """

    def __init__(self, workers: int, timeout: float, tasks_per_worker: int, ray: Mapping[str, Any]) -> None:
        machine = partial(SimulatorMachine, timeout, tasks_per_worker)
        memory = PROCESS_BYTES + SIMULATOR_BYTES * tasks_per_worker
        self._executor = RayExecutor(machine, workers, **{"memory": memory, **ray})

    def submit(self, job: Job) -> Future[JobResult]:
        """Queue a job. Its future raises `SimulatorError` if it failed for good."""
        result: Future[JobResult] = Future()
        try:
            outcome = self._executor.submit(Submission(job.task.suite, pickle.dumps(job)))
        except RuntimeError as error:
            raise SimulatorError("the simulators on the cluster are closed") from error
        result.set_running_or_notify_cancel()
        outcome.add_done_callback(partial(_hand_on, result))
        return result

    def close(self) -> None:
        """Stop the processes. Jobs that wait or are under way fail."""
        self._executor.close()


def _hand_on(result: Future[JobResult], outcome: Future[Outcome]) -> None:
    if outcome.cancelled():
        result.set_exception(SimulatorError("the simulators on the cluster were closed"))
        return
    details = outcome.result().details
    if "result" in details:
        result.set_result(details["result"])
    else:
        result.set_exception(SimulatorError(f"a job on the cluster failed: {details.get('error')}"))


class SimulatorMachine(ExpensiveRewardEnv[Any, Any]):
    """What executes jobs on a machine of the cluster. Nobody plays it."""

    def __init__(self, timeout: float, tasks_per_worker: int) -> None:
        """Look whether the simulator is installed; it starts with the first job.

        Raises:
            ImportError: if it is not.
            UnsupportedSimulator: if its results are not comparable.
        """
        self.versions = installed_versions()
        self._pool = SimulatorPool(1, timeout, tasks_per_worker)

    @property
    def environment_key(self) -> str | None:
        """Of the versions that decide results."""
        return fingerprint(self.versions)

    def execute(self, submission: Submission) -> Outcome:
        """Do the job that the submission is.

        Raises:
            SimulatorError: if it failed for good.
        """
        result = self._pool.submit(pickle.loads(submission.content)).result()
        return Outcome(None, "simulated", seconds=result.seconds, details={"result": result})

    def close(self) -> None:
        """Stop the process."""
        self._pool.close()

    def submit(self, action: Any) -> NoReturn:
        """Not for playing."""
        raise NotImplementedError("a SimulatorMachine does jobs; LIBEROLongEnv is what one plays")

    advance = reset = submit  # type: ignore[assignment]
