"""Scripted controllers for short tasks: they look up where things truly are and move there along waypoints.

They make demonstrations without a person at a joystick, for tests and for the small experiment. What they look up
(`Privileged`) no policy ever sees.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wmrl_gym.envs.libero.jobs import Privileged

METRES_PER_ACTION = 0.1
"""Distance from which on the arm moves at full speed. The controller's own unit, the displacement that an action of 1
asks for, is 5 cm; with twice that the arm slows down in time."""

HESITATION_STEPS, HESITATION_PACE = 8, 0.25
"""A demonstrator who hesitates does so for eight actions, at a quarter of the speed."""

Offset = tuple[float, float, float]


@dataclass(frozen=True)
class Waypoint:
    """A point to move to, given from where the script's region is when the episode begins."""

    offset: Offset
    """Metres along the world's axes: x away from the robot's base, y to its left, z up."""
    tolerance: float
    """Metres at which it counts as reached."""


@dataclass(frozen=True)
class Script:
    """How one task is done."""

    region: str
    """Name of the region, as LIBERO's goals call it."""
    waypoints: tuple[Waypoint, ...]
    gripper: float = 1.0
    """Closed: a fist pushes better than two fingers."""


def _push(region: str, along: float) -> Script:
    """Go before a drawer's front and push along y, by more than the drawer can be open."""
    return Script(region, (Waypoint((0.0, -0.20 * along, 0.0), 0.03), Waypoint((0.0, 0.25 * along, 0.0), 0.01)))


SCRIPTS = {
    "KITCHEN_SCENE5_close_the_top_drawer_of_the_cabinet": _push("white_cabinet_1_top_region", 1.0),
    "KITCHEN_SCENE10_close_the_top_drawer_of_the_cabinet": _push("wooden_cabinet_1_top_region", -1.0),
}
"""By the task's name. Both are tasks of "libero_90": a white cabinet on the left, and a wooden one on the right."""


class ScriptedController:
    """Moves along a script's waypoints by proportional control.

    Args:
        script: what to do.
        seen: where everything is as the episode begins.
        aim: metres by which all waypoints are moved, shape (3,): a demonstrator who aims badly.
        speed: largest action.
        noise: standard deviation of a normal error of each action's displacement.
        hesitation: probability with which a stretch of `HESITATION_STEPS` actions is done at a quarter of the speed.
        rng: of noise and hesitation.

    Raises:
        ValueError: if the scene has no such region, or hesitation is no probability.
    """

    def __init__(
        self,
        script: Script,
        seen: Privileged,
        *,
        aim: NDArray[np.float64] | None = None,
        speed: float = 1.0,
        noise: float = 0.0,
        hesitation: float = 0.0,
        rng: np.random.Generator | None = None,
    ) -> None:
        if script.region not in seen.sites:
            raise ValueError(f"the scene has no region {script.region!r}; it has {', '.join(sorted(seen.sites))}")
        if not 0 <= hesitation <= 1:
            raise ValueError(f"hesitation is {hesitation}: give a probability, from 0 to 1")
        origin = seen.sites[script.region] + (np.zeros(3) if aim is None else aim)
        self._targets = [(origin + np.asarray(point.offset), point.tolerance) for point in script.waypoints]
        self._gripper, self._speed, self._noise = script.gripper, speed, noise
        self._hesitation, self._pace, self._n_actions = hesitation, 1.0, 0
        self._rng = rng or np.random.default_rng(0)

    def act(self, position: NDArray[np.floating]) -> NDArray[np.float32]:
        """The next action, shape (7,).

        Args:
            position: of the end effector, metres, shape (3,).
        """
        while len(self._targets) > 1 and np.linalg.norm(self._targets[0][0] - position) < self._targets[0][1]:
            self._targets.pop(0)
        if self._hesitation and self._n_actions % HESITATION_STEPS == 0:
            self._pace = HESITATION_PACE if self._rng.random() < self._hesitation else 1.0
        self._n_actions += 1
        displacement = (self._targets[0][0] - position) / METRES_PER_ACTION
        noisy = displacement.clip(-1, 1) * self._speed * self._pace + self._noise * self._rng.standard_normal(3)
        return np.array([*noisy.clip(-1, 1), 0.0, 0.0, 0.0, self._gripper], np.float32)


def script_for(task: str) -> Script:
    """The script of a task.

    Raises:
        ValueError: if nobody wrote one.
    """
    if task not in SCRIPTS:
        raise ValueError(f"no script does {task!r}; there are scripts for: {', '.join(SCRIPTS)}")
    return SCRIPTS[task]
