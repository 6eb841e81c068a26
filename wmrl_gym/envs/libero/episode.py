"""What is known of an episode while it is played. Its state is a snapshot; no simulator belongs to it."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wmrl_gym.core import fingerprint
from wmrl_gym.envs.libero.jobs import JobResult, View
from wmrl_gym.envs.libero.snapshot import Snapshot
from wmrl_gym.envs.libero.tasks import TaskReference


class Episode:
    """What is known of the episode being played."""

    def __init__(self, task: TaskReference, name: str, state_id: int, begun: JobResult) -> None:
        self.task, self.name, self.state_id = task, name, state_id
        self.snapshot: Snapshot = begun.snapshot
        self.images, self.robot_state = begun.frames, begun.robot_state
        self.frames = list(begun.frames.values())[:1]
        self.progress = [begun.goal_progress]
        self.digest = fingerprint((task, begun.snapshot.key))
        self.seconds = begun.seconds
        self.steps = self.actions_used = 0
        self.success = self.has_submitted = self.is_submitted = self.over = False
        self.failure: str | None = None
        self.pending: tuple[NDArray[np.float64], Future[JobResult]] | None = None

    def take_in(self, result: JobResult, view: View) -> None:
        """Go on to where the pending action led."""
        assert self.pending is not None
        self.digest = fingerprint((self.digest, self.pending[0]))
        self.snapshot, self.images, self.robot_state = result.snapshot, result.frames, result.robot_state
        self.frames += [result.frames[camera] for camera in view.cameras[:1]]
        self.progress.append(result.goal_progress)
        self.actions_used = len(result.successes)
        self.steps += self.actions_used
        self.success = self.success or any(result.successes)
        self.seconds += result.seconds

    def abandon(self) -> None:
        """Give up what is being simulated."""
        if self.pending is not None:
            self.pending[1].cancel()
        self.pending = None

    def info(self) -> dict[str, Any]:
        """What every step tells of the episode."""
        return {
            "task": self.name,
            "init_state_id": self.state_id,
            "goal_progress": self.progress[-1],
            "success": self.success,
            "steps": self.steps,
        }
