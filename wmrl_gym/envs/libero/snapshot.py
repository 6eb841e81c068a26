"""All that one simulator carries from a step to the next, so that another one can go on from there.

Beside MuJoCo's own state there are: the warm start of its constraint solver, the places of the furniture (which LIBERO
draws at each reset, into the *model*), the goals of the arm's controller, and the gripper's action, which robosuite
accumulates. Buffers of recent measurements are left out: nothing that is simulated or observed here reads them.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wmrl_gym.core import fingerprint


@dataclasses.dataclass(frozen=True, eq=False)
class Snapshot:
    """The whole state of a simulator. Picklable, and never changed."""

    physics: NDArray[np.float64]
    """MuJoCo's integration state (mjSTATE_INTEGRATION)."""

    bodies: NDArray[np.float64]
    """Position and quaternion of each body in its parent, shape (n_bodies, 7): the furniture's places."""

    controller: dict[str, Any]
    """The numbers in the arm's controller, by name: above all its goals."""

    gripper: NDArray[np.float64]
    """The gripper's accumulated action."""

    steps: int
    """Environment steps since the reset."""

    clock: float
    """Seconds since the reset, as robosuite adds them up."""

    @property
    def key(self) -> str:
        """Hex SHA-256: equal for equal states, bit for bit."""
        return fingerprint(self)


def take(env: Any) -> Snapshot:
    """Copy the state of a LIBERO environment (the robosuite one, inside its wrapper)."""
    import mujoco

    model, data = env.sim.model._model, env.sim.data._data
    kind = mujoco.mjtState.mjSTATE_INTEGRATION
    physics = np.empty(mujoco.mj_stateSize(model, kind))
    mujoco.mj_getState(model, data, physics, kind)
    robot = env.robots[0]
    if robot.controller.interpolator_pos is not None or robot.controller.interpolator_ori is not None:
        raise NotImplementedError("snapshots do not hold a controller's interpolators, and LIBERO's has none")
    return Snapshot(
        physics=physics,
        bodies=np.concatenate([model.body_pos, model.body_quat], axis=1),
        controller={name: _copy(value) for name, value in vars(robot.controller).items() if _is_plain(value)},
        gripper=np.array(robot.gripper.current_action, np.float64),
        steps=int(env.timestep),
        clock=float(env.cur_time),
    )


def restore(env: Any, snapshot: Snapshot) -> None:
    """Make a LIBERO environment of the same task go on from a snapshot.

    Quantities that follow from the state (places of geometries, contacts) are those of the state before until the next
    step, or `mj_forward`, computes them.
    """
    import mujoco

    model, data = env.sim.model._model, env.sim.data._data
    mujoco.mj_setState(model, data, snapshot.physics, mujoco.mjtState.mjSTATE_INTEGRATION)
    model.body_pos[:], model.body_quat[:] = snapshot.bodies[:, :3], snapshot.bodies[:, 3:]
    robot = env.robots[0]
    for name, value in snapshot.controller.items():
        setattr(robot.controller, name, _copy(value))
    robot.gripper.current_action = snapshot.gripper.copy()
    env.timestep, env.cur_time, env.done = snapshot.steps, snapshot.clock, False


def _is_plain(value: Any) -> bool:
    if isinstance(value, np.ndarray):
        return value.dtype != object
    return value is None or isinstance(value, bool | int | float | np.number)


def _copy(value: Any) -> Any:
    return value.copy() if isinstance(value, np.ndarray) else value
