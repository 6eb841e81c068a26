"""What Robometer says of a clip, checked: numbers from a model are not taken on trust."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from wmrl_gym.world_models.robometer.clip import Clip


class ProtocolError(RuntimeError):
    """The model answered, but not what it was asked."""


@dataclass(frozen=True, eq=False)
class Reading:
    """What Robometer says of one clip. Without progress, `problem` says why there is none."""

    progress: tuple[float, ...] | None
    """Progress at each frame, 0 to 1."""
    success: tuple[float, ...] | None = None
    """Probability of success at each frame; None if the model has no such head, or gave none that is finite."""
    problem: str = ""


def reading_of(clip: Clip, progress: Any, success: Any) -> Reading:
    """The reading in a model's raw answer to a clip.

    Progress slightly outside 0 to 1 is brought back, as Robometer's own code does.

    Args:
        clip: what was shown.
        progress: one number per frame, in whatever lists or arrays.
        success: the same, or None.

    Raises:
        ProtocolError: if there is another number of them: then the model does not see the frames it is shown.
    """
    values, problem = _values(clip, progress, "progress")
    if values is None:
        return Reading(None, problem=problem)
    return Reading(values, None if success is None else _values(clip, success, "success")[0])


def _values(clip: Clip, row: Any, name: str) -> tuple[tuple[float, ...] | None, str]:
    """One value per frame, or why there is none."""
    try:
        values = np.asarray(row, float).ravel()
    except (TypeError, ValueError):
        return None, f"the model gave {name} that is no list of numbers: {str(row)[:80]!r}"
    if not values.size:
        return None, f"the model gave no {name}"
    if values.size != len(clip.frames):
        raise ProtocolError(
            f"{values.size} values of {name} for a clip of {len(clip.frames)} frames. If the model samples frames by "
            "itself, set 'frames' to as many as it keeps"
        )
    if not np.isfinite(values).all():
        return None, f"the model gave {name} that is not finite"
    return tuple(float(value) for value in values.clip(0.0, 1.0)), ""
