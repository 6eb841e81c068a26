"""One pool of simulators for all environments of a process that ask for the same one."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Mapping
from typing import Any

from wmrl_gym.envs.libero.initial_states import SettledStates
from wmrl_gym.envs.libero.jobs import Simulates
from wmrl_gym.envs.libero.pool import SimulatorPool


@dataclasses.dataclass(eq=False)
class Simulators:
    """A pool and the initial states it has let settle; closed when its last user leaves."""

    pool: Simulates
    settled: SettledStates
    users: int = 0


_SHARED: dict[tuple[int, float, int, str], Simulators] = {}
_LOCK = threading.Lock()


def join(
    workers: int, timeout: float, tasks_per_worker: int, ray: Mapping[str, Any] | None = None
) -> Simulators:
    """Use the simulators with these settings, which begin to exist with their first user."""
    key = (workers, float(timeout), tasks_per_worker, repr(ray and sorted(ray.items())))
    with _LOCK:
        if key not in _SHARED:
            pool = _made(workers, timeout, tasks_per_worker, ray)
            _SHARED[key] = Simulators(pool, SettledStates(pool))
        _SHARED[key].users += 1
        return _SHARED[key]


def check_ray(ray: Mapping[str, Any] | None) -> None:
    """Refuse settings that no executor on Ray has.

    Raises:
        ValueError: it names them, and those that there are.
    """
    known = ("address", "num_cpus", "num_gpus", "memory", "resources", "retries", "start_timeout")
    unknown = sorted(set(ray or {}) - set(known))
    if unknown:
        raise ValueError(f"env.ray has {', '.join(unknown)}, which no executor has: give some of {', '.join(known)}")


def _made(workers: int, timeout: float, tasks_per_worker: int, ray: Mapping[str, Any] | None) -> Simulates:
    if ray is None:
        return SimulatorPool(workers, timeout, tasks_per_worker)
    from wmrl_gym.envs.libero.cluster import ClusterSimulators  # needs Ray

    return ClusterSimulators(workers, timeout, tasks_per_worker, ray)


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
