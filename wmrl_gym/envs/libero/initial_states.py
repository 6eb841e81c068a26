"""Where episodes begin: LIBERO's given initial states, or those of a file; let settle once and shared from then on."""

from __future__ import annotations

import dataclasses
import json
import threading
from collections import OrderedDict
from collections.abc import Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wmrl_gym.core import fingerprint
from wmrl_gym.envs.libero.jobs import WAIT, Job, JobResult, Simulates, View
from wmrl_gym.envs.libero.tasks import TaskReference, given_initial_states

GIVEN = "given"


@dataclasses.dataclass(frozen=True, eq=False)
class InitialStates:
    """Initial states per task of one suite.

    Each is (time, qpos, qvel) flattened, and is found by its index.
    """

    suite: str
    name: str = GIVEN
    """ "given" for LIBERO's own, else the content address of the file's states."""
    states: Mapping[int, NDArray[np.float64]] | None = None
    """Per task index, shape (n, 1 + nq + nv); None for LIBERO's own."""
    facts: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """How they were made."""

    def of(self, task: TaskReference) -> NDArray[np.float64]:
        """All initial states of a task.

        Raises:
            ValueError: if there are none.
        """
        if self.states is None:
            return given_initial_states(task)
        if task.index not in self.states:
            raise ValueError(f"the file of initial states has none for task {task.index}: {sorted(self.states)} only")
        return self.states[task.index]


def save_initial_states(
    path: str | Path, suite: str, states: Mapping[int, NDArray[np.float64]], facts: Mapping[str, Any]
) -> str:
    """Write initial states and how they were made; returns their content address."""
    key = fingerprint({str(index): array for index, array in states.items()})
    header = json.dumps({"suite": suite, "sha256": key, "facts": dict(facts)})
    arrays: dict[str, Any] = {f"task_{index}": array for index, array in states.items()}
    np.savez_compressed(path, header=np.array(header), **arrays)
    return key


def load_initial_states(path: str | Path, suite: str) -> InitialStates:
    """Read what `save_initial_states` wrote.

    Raises:
        FileNotFoundError: if there is no such file.
        ValueError: if it is of another suite, or its content is not what was written.
    """
    with np.load(Path(path).expanduser(), allow_pickle=False) as archive:
        if "header" not in archive.files:
            raise ValueError(f"{path} is no file of initial states of this library: it has no header")
        header = json.loads(str(archive["header"]))
        states = {int(name[5:]): archive[name] for name in archive.files if name.startswith("task_")}
    if header["suite"] != suite:
        raise ValueError(f"{path} holds initial states of suite {header['suite']!r}, not of {suite!r}")
    key = fingerprint({str(index): array for index, array in states.items()})
    if key != header["sha256"]:
        raise ValueError(f"{path} was changed after it was written: its states have SHA-256 {key}, not the noted one")
    return InitialStates(suite, key, states, header["facts"])


class SettledStates:
    """Initial states after the steps in which objects come to rest, each simulated once.

    The episodes of a group begin at the same one, bit for bit.

    Args:
        pool: simulates.
        capacity: how many are remembered, the latest used.
    """

    def __init__(self, pool: Simulates, capacity: int = 256) -> None:
        self._pool = pool
        self._capacity = capacity
        self._futures: OrderedDict[tuple[Any, ...], Future[JobResult]] = OrderedDict()
        self._lock = threading.Lock()

    def settle(self, task: TaskReference, state: NDArray[np.float64], steps: int, view: View) -> Future[JobResult]:
        """The state after `steps` steps of waiting, and how it looks then.

        Raises (from the future):
            SimulatorError: if it could not be simulated; asked again, it is tried again.
        """
        key = (task, state.tobytes(), steps, view)
        with self._lock:
            future = self._futures.get(key)
            if future is None or future.cancelled() or (future.done() and future.exception() is not None):
                waiting = np.tile(np.array(WAIT), (steps, 1))
                future = self._pool.submit(Job(task, state, waiting, view, stop_at_success=False))
                self._futures[key] = future
            self._futures.move_to_end(key)
            while len(self._futures) > self._capacity:
                self._futures.popitem(last=False)
            return future
