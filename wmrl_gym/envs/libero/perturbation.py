"""Initial states outside the distribution of the given ones: objects shifted and turned, the arm bent, all at rest.

LIBERO's given states of a task differ little (objects by a standard deviation of 1.3 cm, joints by 0.02 rad). Here each
object is moved by 3 to 8 cm in a random direction and turned, and each joint of the arm by up to 0.1 rad. Then the
simulator runs until everything has come to rest, and a state is rejected if an object fell, tipped over or was pushed
away by another one, or if the goal holds already.

``python -m wmrl_gym.envs.libero.perturbation FILE`` writes a file for ``env.init_state_file``.
"""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wmrl_gym.envs.libero.initial_states import save_initial_states
from wmrl_gym.envs.libero.jobs import WAIT, Job, JobResult, Privileged, Rearrangement
from wmrl_gym.envs.libero.pool import SimulatorError, SimulatorPool
from wmrl_gym.envs.libero.tasks import LIBERO_LONG, TaskReference, given_initial_states, parse_task, task_names
from wmrl_gym.envs.libero.versions import installed_versions

MAX_ATTEMPTS = 100
_DRAWS = 100
_MAX_SINKING = 0.02
_MAX_TILT = 0.2
_MAX_PUSH = 0.02


@dataclasses.dataclass(frozen=True)
class Perturbation:
    """How far initial states are from the given ones they are made of."""

    shift: tuple[float, float] = (0.03, 0.08)
    """Least and greatest distance (m) by which each object is moved on its support."""
    turn: float = 0.5
    """Greatest angle (rad) by which each object is turned about the vertical, either way."""
    joints: float = 0.1
    """Greatest change (rad) of each joint of the arm, either way, before everything comes to rest."""
    settle_steps: int = 20
    """Environment steps in which everything comes to rest."""


def perturbed_initial_states(
    pool: SimulatorPool, task: TaskReference, count: int, seed: int, perturbation: Perturbation = Perturbation()
) -> tuple[NDArray[np.float64], dict[str, Any]]:
    """Initial states of one task; the same for the same arguments and versions of the simulator.

    Returns:
        The states, (time, qpos, qvel) flattened, shape (count, 1 + nq + nv), and facts: "bases" (index of the given
        state each was made of), "attempts", and "shift" (mean distance in m by which objects ended elsewhere).

    Raises:
        SimulatorError: if `MAX_ATTEMPTS` attempts at one of them were rejected.
    """
    given = given_initial_states(task)
    waiting = np.tile(np.array(WAIT), (perturbation.settle_steps, 1))
    accepted: dict[int, tuple[int, Privileged, float]] = {}
    attempts = 0
    while len(accepted) < count:
        if attempts == MAX_ATTEMPTS:
            raise SimulatorError(
                f"no acceptable initial state of task {task.index} in {MAX_ATTEMPTS} attempts, for "
                f"{count - len(accepted)} of {count}\n  {perturbation} asks for too much: make the shift smaller."
            )
        missing = [k for k in range(count) if k not in accepted]
        streams = {k: np.random.default_rng((seed, task.index, k, attempts)) for k in missing}
        bases = {k: int(stream.integers(len(given))) for k, stream in streams.items()}
        # The given states are not at rest: objects hang in the air up to 7 cm above their support.
        job = Job(task, given[0], waiting, stop_at_success=False, is_privileged=True)
        looks = {k: pool.submit(dataclasses.replace(job, start=given[bases[k]])) for k in missing}
        trials = {}
        for k in missing:
            before = looks[k].result()
            change = _rearranged(_seen(before), perturbation, streams[k])
            trial = dataclasses.replace(job, start=before.snapshot, rearrangement=change)
            trials[k] = (_seen(before), change, pool.submit(trial))
        for k, (old, change, future) in trials.items():
            result = future.result()
            new = _seen(result)
            if not all(result.predicates) and _is_at_rest(old, change, new):
                shift = np.mean([np.linalg.norm((new.objects[name] - old.objects[name])[:2]) for name in new.objects])
                accepted[k] = (bases[k], new, float(shift))
        attempts += 1
    rows = [accepted[k] for k in range(count)]
    facts = {"bases": [row[0] for row in rows], "attempts": attempts, "shift": float(np.mean([row[2] for row in rows]))}
    return np.stack([row[1].initial_state for row in rows]), facts


def _seen(result: JobResult) -> Privileged:
    assert result.privileged is not None
    return result.privileged


def _rearranged(before: Privileged, perturbation: Perturbation, rng: np.random.Generator) -> Rearrangement:
    objects = dict(before.objects)
    for name, pose in before.objects.items():
        for _ in range(_DRAWS):
            direction, distance = rng.uniform(0, 2 * np.pi), rng.uniform(*perturbation.shift)
            angle = rng.uniform(-perturbation.turn, perturbation.turn)
            position = pose[:3] + distance * np.array([np.cos(direction), np.sin(direction), 0.0])
            objects[name] = np.concatenate([position, _turned(pose[3:], angle)])
            if _has_room(name, objects, before):
                break
    arm = before.arm + rng.uniform(-perturbation.joints, perturbation.joints, before.arm.shape)
    return Rearrangement(objects, arm)


def _has_room(name: str, objects: Mapping[str, NDArray[np.float64]], before: Privileged) -> bool:
    """Whether an object is as far from the others as their circles ask for, or at least as far as it was."""
    for other in objects:
        room = before.radii[name] + before.radii[other]
        was = float(np.linalg.norm((before.objects[name] - before.objects[other])[:2]))
        is_now = float(np.linalg.norm((objects[name] - objects[other])[:2]))
        if other != name and is_now < min(room, was):
            return False
    return True


def _turned(quaternion: NDArray[np.float64], angle: float) -> NDArray[np.float64]:
    """A quaternion (w, x, y, z) after a rotation about the world's vertical axis."""
    c, s = np.cos(angle / 2), np.sin(angle / 2)
    w, x, y, z = quaternion
    return np.array([c * w - s * z, c * x - s * y, c * y + s * x, c * z + s * w])


def _is_at_rest(before: Privileged, change: Rearrangement, after: Privileged) -> bool:
    """Whether each object stands where it was put, upright as it was and at its old height."""
    for name, placed in change.objects.items():
        old, new = before.objects[name], after.objects[name]
        push = np.linalg.norm((new - placed)[:2])
        if push > _MAX_PUSH or abs(new[2] - old[2]) > _MAX_SINKING or _tilt(placed[3:], new[3:]) > _MAX_TILT:
            return False
    return True


def _tilt(one: NDArray[np.float64], other: NDArray[np.float64]) -> float:
    """Angle (rad) between the directions that two orientations (w, x, y, z) give to a body's upward axis at `one`."""
    # The vertical, seen from the body, is a row of its rotation matrix.
    cosine = float(np.clip(_vertical(one) @ _vertical(other), -1.0, 1.0))
    return float(np.arccos(cosine))


def _vertical(quaternion: NDArray[np.float64]) -> NDArray[np.float64]:
    w, x, y, z = quaternion / np.linalg.norm(quaternion)
    return np.array([2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)])


def main(arguments: Sequence[str] | None = None) -> None:
    """Write a file of perturbed initial states."""
    parser = argparse.ArgumentParser(prog="python -m wmrl_gym.envs.libero.perturbation", description=__doc__)
    parser.add_argument("file", help="where to write, for example libero_10_far.npz")
    parser.add_argument("--suite", default=LIBERO_LONG)
    parser.add_argument("--tasks", nargs="*", help="names or indices; default all")
    parser.add_argument("--count", type=int, default=10, help="initial states per task")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--shift", type=float, nargs=2, default=Perturbation.shift, metavar=("LEAST", "GREATEST"))
    parser.add_argument("--turn", type=float, default=Perturbation.turn)
    parser.add_argument("--joints", type=float, default=Perturbation.joints)
    parser.add_argument("--workers", type=int, default=1)
    options = parser.parse_args(arguments)
    perturbation = Perturbation(tuple(options.shift), options.turn, options.joints)
    pool = SimulatorPool(options.workers, tasks_per_worker=1)
    states, facts = {}, {}
    try:
        for name in options.tasks or task_names(options.suite):
            task = parse_task(name, options.suite)[0]
            states[task.index], made = perturbed_initial_states(pool, task, options.count, options.seed, perturbation)
            facts[str(task.index)] = made
            print(f"task {task.index}: {made}", flush=True)
    finally:
        pool.close()
    settings = dataclasses.asdict(perturbation) | {"seed": options.seed, "versions": installed_versions()}
    key = save_initial_states(options.file, options.suite, states, settings | {"tasks": facts})
    print(f"{options.file}: {sum(map(len, states.values()))} initial states, SHA-256 {key}")


if __name__ == "__main__":
    main()
