"""What Robometer is shown of an episode: a few frames, the right way up, and the instruction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from wmrl_gym.core import Submission

Orientation = Literal["flip_vertical", "rotate_180", "raw"]

_FLIPPED: Mapping[str, tuple[bool, bool]] = {
    "raw": (False, False),
    "flip_vertical": (True, False),
    "rotate_180": (True, True),
}
"""Whether rows, and columns, run against those of the camera's raw image."""


class UnusableSubmission(ValueError):
    """Why a submission cannot be shown to Robometer."""


@dataclass(frozen=True, eq=False)
class Clip:
    """One episode as Robometer sees it."""

    frames: NDArray[np.uint8]
    """Shape (T, H, W, 3)."""
    instruction: str
    indices: tuple[int, ...]
    """Which frames of the submission these are."""


def kept_frames(count: int, most: int) -> list[int]:
    """Indices of at most `most` frames out of `count`: evenly spaced, the first and the last always among them."""
    if count <= most:
        return list(range(count))
    # Rounded down, as Robometer's own training data are.
    return [int(index) for index in np.linspace(0, count - 1, most, dtype=int)]


def turned(frames: NDArray[np.uint8], given: Orientation, wanted: Orientation) -> NDArray[np.uint8]:
    """Frames of one orientation in another; both are named by what was done to the camera's raw image."""
    rows, columns = (a != b for a, b in zip(_FLIPPED[given], _FLIPPED[wanted], strict=True))
    return np.ascontiguousarray(frames[:, :: -1 if rows else 1, :: -1 if columns else 1])


def clip_of(submission: Submission, most: int, given: Orientation, wanted: Orientation) -> Clip:
    """The clip of a submission.

    Args:
        submission: with ``content["frames"]``, uint8 of shape (T, H, W, 3), and ``context["instruction"]``.
        most: frames that are kept at most.
        given: orientation of the submission's frames.
        wanted: orientation that Robometer expects.

    Raises:
        UnusableSubmission: if it has no such frames, or no instruction.
    """
    content = submission.content
    frames: Any = content.get("frames") if isinstance(content, Mapping) else None
    if not isinstance(frames, np.ndarray):
        raise UnusableSubmission(f"content['frames'] is no array of frames (content is a {type(content).__name__})")
    if frames.dtype != np.uint8 or frames.ndim != 4 or frames.shape[-1] != 3:
        raise UnusableSubmission(f"frames are {frames.dtype} {frames.shape}: uint8 of shape (T, H, W, 3) is needed")
    if not frames.size:
        raise UnusableSubmission(f"there are no frames: shape {frames.shape}")
    instruction = submission.context.get("instruction")
    if not isinstance(instruction, str) or not instruction.strip():
        raise UnusableSubmission("context['instruction'] is no text")
    indices = kept_frames(len(frames), most)
    return Clip(turned(frames[indices], given, wanted), instruction, tuple(indices))


def same_shape_batches(clips: Sequence[Clip], size: int) -> list[list[int]]:
    """Indices of the clips in batches of at most `size`, each of one shape only, because models stack them."""
    by_shape: dict[tuple[int, ...], list[int]] = {}
    for i, clip in enumerate(clips):
        by_shape.setdefault(clip.frames.shape, []).append(i)
    return [group[start : start + size] for group in by_shape.values() for start in range(0, len(group), size)]
