"""What simulators are asked to do, and what they answer."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from wmrl_gym.envs.libero.snapshot import Snapshot
from wmrl_gym.envs.libero.tasks import TaskReference

Orientation = Literal["flip_vertical", "rotate_180", "raw"]
CAMERAS = ("agentview", "robot0_eye_in_hand")
WAIT = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0, -1.0)
"""The action that does nothing but keep the gripper open, with which objects are let settle."""


@dataclasses.dataclass(frozen=True)
class View:
    """What is rendered when a job is done."""

    cameras: tuple[str, ...] = ()
    size: int = 224
    """Height and width in pixels."""
    orientation: Orientation = "flip_vertical"
    """LIBERO's own images ("raw") are upside down. MiniVLA and Robometer flip them, OpenVLA turns them by 180°."""


@dataclasses.dataclass(frozen=True, eq=False)
class Rearrangement:
    """Things put elsewhere by hand before the first action, at rest."""

    objects: Mapping[str, NDArray[np.float64]] = dataclasses.field(default_factory=dict)
    """Position and quaternion (w, x, y, z) of movable objects by name, each of shape (7,)."""
    arm: NDArray[np.float64] | None = None
    """Angles of the arm's joints, shape (7,), radians; None leaves them."""


@dataclasses.dataclass(frozen=True, eq=False)
class Job:
    """Go on from a state with some actions. Whoever does it remembers nothing of it."""

    task: TaskReference
    start: Snapshot | NDArray[np.float64]
    """A snapshot, or an initial state as LIBERO gives it: (time, qpos, qvel) flattened."""
    actions: NDArray[np.float64]
    """Environment actions, shape (n, 7)."""
    view: View = View()
    stop_at_success: bool = True
    """Whether the actions after the one that reaches the goal are left out."""
    rearrangement: Rearrangement | None = None
    is_privileged: bool = False
    """Whether the answer tells where everything is."""


@dataclasses.dataclass(frozen=True, eq=False)
class Privileged:
    """What no policy may see: for making initial states, and for scripted demonstrations."""

    initial_state: NDArray[np.float64]
    """(time, qpos, qvel) flattened, with time 0."""
    arm: NDArray[np.float64]
    """Angles of the arm's joints, shape (7,), radians."""
    objects: dict[str, NDArray[np.float64]]
    """Position and quaternion (w, x, y, z) of each movable object, shape (7,)."""
    radii: dict[str, float]
    """Of the circle around each movable object, seen from above (m)."""
    furniture: dict[str, NDArray[np.float64]]
    """The same of each fixture."""
    sites: dict[str, NDArray[np.float64]]
    """Position of each region, shape (3,)."""


@dataclasses.dataclass(frozen=True, eq=False)
class JobResult:
    """Where a job ended."""

    snapshot: Snapshot
    successes: tuple[bool, ...]
    """Per action that was simulated: whether the whole goal held after it."""
    predicates: tuple[bool, ...]
    """The goal's predicates at the end. LIBERO's goals are conjunctions of these."""
    robot_state: NDArray[np.float32]
    """End effector's position (m), axis-angle (rad), positions of the two fingers (m), shape (8,)."""
    frames: dict[str, NDArray[np.uint8]]
    """One image per camera, shape (size, size, 3)."""
    seconds: float
    """Wall-clock seconds the simulator worked on it."""
    cpu_seconds: float
    privileged: Privileged | None = None

    @property
    def goal_progress(self) -> float:
        """Share of the goal's predicates that hold."""
        return sum(self.predicates) / len(self.predicates)


class Simulates(Protocol):
    """Simulators, wherever they are."""

    def submit(self, job: Job) -> Future[JobResult]:
        """Queue a job. Its future raises `SimulatorError` if it failed for good."""
        ...

    def close(self) -> None:
        """Stop them; what waits fails or is cancelled."""
        ...
