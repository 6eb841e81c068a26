"""Episodes that are pictures: a strip of a few frames and an animation, both small enough to be kept and shown."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from PIL import Image

STRIP_FRAMES = 8
"""Frames of a strip: as many as Robometer is shown."""
ANIMATION_FRAMES = 32
SIDE = 112
"""Longest side of a frame in pixels, in strips and animations that are recorded."""
MAX_STRIP_BYTES = 32_000
MAX_ANIMATION_BYTES = 96_000
COLOURS = 64
"""Colours of a recorded animation."""
GAP = 2
"""Pixels between the frames of a strip."""
LAST_FRAME_SECONDS = 1.0
"""How long the last frame stands before an animation begins anew."""


def frames_of(content: Any) -> NDArray[np.uint8] | None:
    """The frames in what an agent handed in: ``content["frames"]``, uint8 (T, H, W, 3); None if there are none.

    Whatever the domain: what holds such an array is shown as pictures.
    """
    frames = content.get("frames") if isinstance(content, Mapping) else None
    if not isinstance(frames, np.ndarray) or frames.dtype != np.uint8:
        return None
    return frames if frames.ndim == 4 and frames.shape[-1] == 3 and frames.size else None


def evenly(count: int, most: int) -> list[int]:
    """Indices of at most `most` items out of `count`, the first and the last among them if there may be two."""
    return [int(index) for index in np.linspace(0, count - 1, min(count, most), dtype=int)]


def strip(frames: NDArray[np.uint8]) -> bytes:
    """`STRIP_FRAMES` frames side by side as a JPEG of at most `MAX_STRIP_BYTES`."""
    chosen = frames[evenly(len(frames), STRIP_FRAMES)]
    side = SIDE
    while True:
        encoded = io.BytesIO()
        _side_by_side(_small(chosen, side)).save(encoded, "JPEG", quality=80)
        if encoded.tell() <= MAX_STRIP_BYTES or side <= 8:
            return encoded.getvalue()
        side = side * 3 // 4


def animation(frames: NDArray[np.uint8], frames_per_second: float = 6.0) -> bytes:
    """At most `ANIMATION_FRAMES` frames one after the other as a GIF of at most `MAX_ANIMATION_BYTES`."""
    side, most = SIDE, ANIMATION_FRAMES
    while True:
        pictures = _small(frames[evenly(len(frames), most)], side)
        encoded = _gif(pictures, frames_per_second, COLOURS)
        if len(encoded) <= MAX_ANIMATION_BYTES or (side <= 8 and most <= 2):
            return encoded
        side, most = max(side * 7 // 8, 8), max(most * 3 // 4, 2)


def save_animation(frames: ArrayLike, path: str | Path, *, frames_per_second: float = 6.0, colours: int = 256) -> Path:
    """Write the frames of an episode as an animated GIF, all of them and in their own size.

    For example ``save_animation(submission.content["frames"], "episode.gif")``.

    Args:
        frames: uint8 of shape (T, H, W, 3), oldest first.
        path: the file; its folder must be there.
        frames_per_second: how fast they are shown, at most 50. The last one stands for a second.
        colours: of the common palette, 2 to 256.

    Returns:
        The file.

    Raises:
        ValueError: if the frames are of another kind, or a number is out of its range.
    """
    array = np.asarray(frames)
    if frames_of({"frames": array}) is None:
        raise ValueError(f"frames are {array.dtype} {array.shape}: uint8 of shape (T, H, W, 3) is needed, with T > 0")
    if not 0 < frames_per_second <= 50 or not 2 <= colours <= 256:
        raise ValueError(f"frames_per_second={frames_per_second}, colours={colours}: give up to 50, and 2 to 256")
    target = Path(path)
    target.write_bytes(_gif([Image.fromarray(frame) for frame in array], frames_per_second, colours))
    return target


def _small(frames: NDArray[np.uint8], side: int) -> list[Image.Image]:
    pictures = [Image.fromarray(frame) for frame in frames]
    for picture in pictures:
        picture.thumbnail((side, side), Image.Resampling.BOX)
    return pictures


def _side_by_side(pictures: Sequence[Image.Image]) -> Image.Image:
    width, height = pictures[0].size
    whole = Image.new("RGB", ((width + GAP) * len(pictures) - GAP, height), "white")
    for i, picture in enumerate(pictures):
        whole.paste(picture, (i * (width + GAP), 0))
    return whole


def _gif(pictures: Sequence[Image.Image], frames_per_second: float, colours: int) -> bytes:
    # One palette and no dithering: what does not move stays the same from frame to frame, and costs nothing.
    few = [pictures[i] for i in evenly(len(pictures), STRIP_FRAMES)]
    palette = _side_by_side(few).quantize(colours, Image.Quantize.MEDIANCUT)
    first, *others = (picture.quantize(palette=palette, dither=Image.Dither.NONE) for picture in pictures)
    milliseconds = [round(1000 / frames_per_second)] * len(others) + [round(1000 * LAST_FRAME_SECONDS)]
    encoded = io.BytesIO()
    first.save(encoded, "GIF", save_all=True, append_images=others, duration=milliseconds, loop=0)
    return encoded.getvalue()
