"""Episodes of a robot made by hand: what the environment of LIBERO-Long hands in, without a simulator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from wmrl_gym.core import Submission

INSTRUCTION = 'put the "big" pot on the stove, quickly'


def marked_frames(progress: Sequence[float], success: Sequence[float] | None = None, size: int = 6) -> np.ndarray:
    """Frames whose first pixel tells progress (red) and success (green); the other corners mislead."""
    frames = np.full((len(progress), size, size + 2, 3), 77, np.uint8)
    frames[:, 0, -1], frames[:, -1, 0], frames[:, -1, -1] = 11, 22, 33
    frames[:, 0, 0, 0] = np.round(np.asarray(progress) * 255)
    frames[:, 0, 0, 1] = np.round(np.asarray(success if success is not None else progress) * 255)
    return frames


def episode(
    progress: Sequence[float],
    success: Sequence[float] | None = None,
    instruction: Any = INSTRUCTION,
    **context: Any,
) -> Submission:
    frames = marked_frames(progress, success)
    return Submission("3", {"frames": frames}, {"instruction": instruction, "suite": "libero_10", **context})
