"""What is done to a camera's picture before the vision backbones see it.

The order is the evaluation's of Stanford-ILIAD/openvla-mini (experiments/robot): the picture is resized to the model's
square by Lanczos, its middle nine tenths (by area) are cut out, and resized back bilinearly. The cut is there because
training cuts at random; leave it out for a model trained without. Nothing is flipped here: which way up a picture is,
is the environment's setting (``orientation="flip_vertical"`` is what MiniVLA was trained on).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from PIL import Image

CROP_AREA = 0.9


def prepare_image(image: NDArray[np.uint8], size: int, crop_area: float | None = CROP_AREA) -> NDArray[np.uint8]:
    """A picture as the model wants it.

    Args:
        image: shape (H, W, 3), uint8.
        size: side of the square the model sees, in pixels.
        crop_area: share of the area that is kept; None keeps all.

    Returns:
        Shape (3, size, size), uint8.

    Raises:
        ValueError: if it is not an RGB picture of bytes.
    """
    if image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] != 3:
        raise ValueError(f"an image has shape {image.shape} and type {image.dtype}: give uint8 of shape (H, W, 3)")
    picture = Image.fromarray(image)
    if picture.size != (size, size):
        picture = picture.resize((size, size), Image.Resampling.LANCZOS)
    if crop_area is not None:
        side = int(math.sqrt(crop_area) * size)
        start = int((size - side) / 2)
        picture = picture.crop((start, start, start + side, start + side))
        picture = picture.resize((size, size), Image.Resampling.BILINEAR)
    return np.ascontiguousarray(np.asarray(picture).transpose(2, 0, 1))
