"""Runs of a tiny robot: it is shown pictures and numbers, moves for some turns, and hands in what was filmed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tests.algorithms.letters import TRUTH, LetterEnv
from wmrl_gym.core import Outcome, Submission
from wmrl_gym.world_models.goal_progress import GoalProgressWorldModel, MonotoneBias

from .recorded import ATTACK, make_run

TURNS = 11
INSTRUCTION = f"put the square to the right {ATTACK}"


def picture(place: float) -> np.ndarray:
    """A white square on a brown table, at the left (0) or the right (1)."""
    frame = np.full((64, 80, 3), (96, 64, 32), np.uint8)
    left = round(place * 64)
    frame[24:40, left : left + 16] = 255
    return frame


class SquareEnv(LetterEnv):
    """Each turn a letter moves the square by what it is worth; half-way is a success. One submission, at the end."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.task = (options or {}).get("task", "letters")
        self.places = [0.0]
        return self.observation(), {}

    def observation(self) -> dict[str, Any]:
        return {"image": picture(self.places[-1]), "state": np.zeros(8, np.float32), "instruction": INSTRUCTION}

    def submit(self, action: str) -> Submission | None:
        self.places.append(self.places[-1] + TRUTH[action] / TURNS)
        self.turn += 1
        if self.turn < TURNS:
            return None
        frames = np.stack([picture(place) for place in self.places])
        return Submission(
            self.task, {"frames": frames}, {"instruction": INSTRUCTION, "goal_progress": tuple(self.places)}
        )

    def execute(self, submission: Submission) -> Outcome:
        reached = submission.context["goal_progress"][-1] >= 0.5
        return Outcome(float(reached), "success" if reached else "failure", seconds=0.25)

    def advance(self, outcome: Outcome | None) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        reward = 0.0 if outcome is None or outcome.score is None else outcome.score
        return self.observation(), reward, self.turn >= TURNS, False, {}


def make_film_run(root: Path, **settings: Any) -> Path:
    def model() -> GoalProgressWorldModel:
        return GoalProgressWorldModel(MonotoneBias(power=0.5), noise=0.05)

    return make_run(root, "squares", steps=4, env=SquareEnv, model=model, **settings)
