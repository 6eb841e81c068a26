"""Images that Pillow opens: size and mode decide the shape of the array they become."""

from __future__ import annotations

import math
import posixpath

from wmrl_gym.scriptcheck import cost
from wmrl_gym.scriptcheck.cells import Cells
from wmrl_gym.scriptcheck.data.arrays import as_array
from wmrl_gym.scriptcheck.faults import runtime_fault
from wmrl_gym.scriptcheck.inventory import DataFile
from wmrl_gym.scriptcheck.language.names import DATA_DIR
from wmrl_gym.scriptcheck.language.paths import absolute, path_text, require_file, require_pattern
from wmrl_gym.scriptcheck.models import Call, Evaluator, Models
from wmrl_gym.scriptcheck.values.objects import Instance, Items, constant
from wmrl_gym.scriptcheck.values.scalars import UNKNOWN, Const, Scalar, Text, Value

MODELS = Models()

_MODES = ("1", "L", "P", "RGB", "RGBA", "CMYK", "YCbCr", "LAB", "HSV", "I", "F", "LA")


@MODELS.method(Instance, "resize")
def _resize(call: Call, image: Instance) -> Value:
    if "image_size" not in image.facts:
        return UNKNOWN
    size = constant(call.first() or call.kwargs.get("size"))
    if isinstance(size, int):
        raise runtime_fault("object of type 'int' has no len()", "TypeError", second="ValueError")
    known = isinstance(size, tuple) and len(size) == 2
    return Instance(image.cls, {**image.facts, "image_size": size if known else None})


@MODELS.method(Instance, "convert")
def _convert(call: Call, image: Instance) -> Value:
    if "image_size" not in image.facts:
        return UNKNOWN
    mode = constant(call.first() or call.kwargs.get("mode"))
    if isinstance(mode, str) and mode not in _MODES:
        raise runtime_fault("conversion from L to " + mode + " not supported", "ValueError")
    return Instance(image.cls, {**image.facts, "image_mode": mode if isinstance(mode, str) else None})


@MODELS.method(Instance, "getdata")
def _getdata(call: Call, image: Instance) -> Value:
    array = as_array(call.interpreter, image)
    known = array is not None and array.shape is not None and None not in array.shape
    cells = array.cells if array is not None else Cells()
    size = math.prod(array.shape[:2]) if known and array is not None and array.shape else None  # type: ignore[arg-type]
    plain = array is not None and array.shape is not None and len(array.shape) == 2
    return Items("list", None, Scalar(cells) if plain else UNKNOWN, size)


@MODELS.function("PIL.Image.open")
def _open_image(call: Call) -> Value:
    from PIL import Image

    call.bind(Image.open)
    source = call.get("fp")
    entry = require_pattern(call.interpreter, source) if isinstance(source, Text) and source.literal is None else None
    if isinstance(source, Text | Const) and path_text(source) is not None:
        require_file(call.interpreter, source)
        entry = _folder_of(call.interpreter, path_text(source) or "")
    cost.spend(call, cost.OPEN_IMAGE_SECONDS)
    size, mode = (entry.image_size, entry.image_mode) if entry is not None else (None, None)
    return Instance(Image.Image, {"image_size": size, "image_mode": mode})


def _folder_of(interpreter: Evaluator, path: str) -> DataFile | None:
    relative = absolute(path).removeprefix(DATA_DIR + "/")
    return interpreter.overview.inventory.file(posixpath.dirname(relative)) if interpreter.overview else None
