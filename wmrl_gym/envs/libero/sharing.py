"""One pool of simulators for all environments of a process that ask for the same one."""

from __future__ import annotations

import dataclasses
import threading

from wmrl_gym.envs.libero.initial_states import SettledStates
from wmrl_gym.envs.libero.pool import SimulatorPool


@dataclasses.dataclass(eq=False)
class Simulators:
    """A pool and the initial states it has let settle; closed when its last user leaves."""

    pool: SimulatorPool
    settled: SettledStates
    users: int = 0


_SHARED: dict[tuple[int, float, int], Simulators] = {}
_LOCK = threading.Lock()


def join(workers: int, timeout: float, tasks_per_worker: int) -> Simulators:
    """Use the simulators with these settings, which begin to exist with their first user."""
    key = (workers, float(timeout), tasks_per_worker)
    with _LOCK:
        if key not in _SHARED:
            pool = SimulatorPool(workers, timeout, tasks_per_worker)
            _SHARED[key] = Simulators(pool, SettledStates(pool))
        _SHARED[key].users += 1
        return _SHARED[key]


def leave(simulators: Simulators) -> None:
    """Stop using them."""
    with _LOCK:
        simulators.users -= 1
        if simulators.users > 0:
            return
        for key, shared in list(_SHARED.items()):
            if shared is simulators:
                del _SHARED[key]
    simulators.pool.close()
