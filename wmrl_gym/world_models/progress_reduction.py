"""From progress frame by frame to one score of an episode."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

Reducer = Literal["potential", "final", "max", "success"]


def reduce_progress(
    progress: ArrayLike, success: ArrayLike | None, reducer: Reducer = "potential", window: int = 3
) -> float | None:
    """One number from the progress of the frames of an episode.

    - "potential": mean of the last `window` frames minus mean of the first ones (paper, embodied track: three). What an
      episode is given at its start does not count, and one frame that is misjudged weighs a third. The two windows
      never overlap: of fewer frames than twice `window` each takes half.
    - "final": the last frame.
    - "max": the best frame. It invites reward hacking: a policy is paid for passing a state that looks like success,
      and for every frame more that a noisy judge has to be wrong about.
    - "success": probability of success at the last frame.

    Args:
        progress: of each frame, oldest first, usually within 0 to 1, shape (T,).
        success: probability of success at each frame, shape (T,); None if it is not known.
        reducer: see above.
        window: frames at each end that "potential" takes.

    Returns:
        The score, or None if there is no frame, or no probability where one is asked for.
    """
    progress_T = np.asarray(progress, float)
    if reducer == "success":
        success_T = np.asarray([] if success is None else success, float)
        return float(success_T[-1]) if success_T.size else None
    if not progress_T.size:
        return None
    if reducer == "final":
        return float(progress_T[-1])
    if reducer == "max":
        return float(progress_T.max())
    if progress_T.size == 1:
        return 0.0
    width = min(window, progress_T.size // 2)
    return float(progress_T[-width:].mean() - progress_T[:width].mean())


def check_reducer(reducer: str, window: int) -> None:
    """Refuse a reducer that does not exist and an empty window.

    Raises:
        ValueError: with what to choose instead.
    """
    if reducer not in get_args(Reducer):
        raise ValueError(f"reducer is {reducer!r}: choose one of {', '.join(get_args(Reducer))}")
    if window < 1:
        raise ValueError(f"window is {window}: give at least 1 frame")
