"""NumPy arrays and SciPy sparse matrices: shapes, dtypes, stacking, indexing and the common functions."""

from __future__ import annotations

import dataclasses
import functools
import math

from wmrl_gym.scriptcheck.cells import Cells, merge_cells
from wmrl_gym.scriptcheck.data.frames import count, dtype_of, row_slice, to_array
from wmrl_gym.scriptcheck.faults import api_fault, shape_fault
from wmrl_gym.scriptcheck.models import Evaluator, Models
from wmrl_gym.scriptcheck.scope import scalar_cells
from wmrl_gym.scriptcheck.values.data import Array, Frame, Series
from wmrl_gym.scriptcheck.values.objects import Bound, Instance, Items, constant
from wmrl_gym.scriptcheck.values.scalars import UNKNOWN, Scalar, Value

MODELS = Models()

Shape = tuple[int | None, ...] | None


def as_array(interpreter: Evaluator, value: Value | None) -> Array | None:
    """What ``numpy.asarray`` would make of a value, None if nobody knows.

    Raises:
        Fault: ValueError for ragged lists.
    """
    if isinstance(value, Array):
        return value
    if isinstance(value, Frame):
        return to_array(value)
    if isinstance(value, Series):
        return Array(value.cells, (value.rows,), origin=value.origin)
    if isinstance(value, Instance) and "image_size" in value.facts:
        return _image_array(value)
    if isinstance(value, Items) and value.kind in ("list", "tuple", "range", "index", "view"):
        return _array_of_items(interpreter, value)
    cells = scalar_cells(value) if value is not None else None
    return Array(cells, ()) if cells is not None else None


def _image_array(image: Instance) -> Array:
    size, mode = image.facts["image_size"], image.facts.get("image_mode")
    bands = {"L": (), "1": (), "P": (), "I": (), "F": (), "RGB": (3,), "RGBA": (4,), "LA": (2,)}.get(mode or "")
    cells = Cells("int", missing=False, negative=False, fractional=False, sources=frozenset({"pixels"}))
    if bands is None:
        return Array(cells, None)
    width, height = size if size is not None else (None, None)
    return Array(cells, (height, width, *bands))


def _array_of_items(interpreter: Evaluator, value: Items) -> Array | None:
    if value.items is None or len(value.items) > 64:
        inner = as_array(interpreter, value.representative())
        if inner is None:
            return Array(Cells(), None)
        return dataclasses.replace(
            inner, shape=None if inner.shape is None else (value.size, *inner.shape), origin=None
        )
    parts = [as_array(interpreter, item) for item in value.items]
    if not parts:
        return Array(Cells("float", missing=False), (0,))
    if any(part is None for part in parts):
        return Array(Cells(), None)
    shapes = {part.shape for part in parts if part is not None}
    cells = merge_cells([part.cells for part in parts if part is not None])
    if None in shapes:
        return Array(cells, None)
    if len(shapes) > 1:
        known = [s for s in shapes if s is not None and None not in s]
        if len(known) == len(shapes):
            message = (
                "setting an array element with a sequence. The requested array has an inhomogeneous shape after 1 "
                f"dimensions. The detected shape was ({len(parts)},) + inhomogeneous part."
            )
            raise shape_fault(message)
        return Array(cells, None)
    return Array(cells, (len(parts), *(shapes.pop() or ())))


@functools.lru_cache(maxsize=2048)
def _ndarray_has(name: str) -> bool:
    import numpy as np

    return hasattr(np.ndarray, name)


@MODELS.attribute(Array)
def _array_attribute(interpreter: Evaluator, array: Array, name: str) -> Value:
    if name == "shape":
        if array.shape is None:
            return UNKNOWN
        return Items("tuple", [count(n) for n in array.shape])
    if name == "T":
        return dataclasses.replace(array, shape=None if array.shape is None else array.shape[::-1], origin=None)
    if name == "ndim":
        return count(array.ndim)
    if name == "dtype":
        return dtype_of(array.cells.kind if array.cells.kind != "str" else "object")
    if name == "size":
        known = array.shape is not None and None not in array.shape
        return count(math.prod(array.shape) if known else None)  # type: ignore[arg-type]
    if array.sparse:
        return Bound(array, name)
    if array.sparse is False and not _ndarray_has(name):
        raise api_fault(f"'numpy.ndarray' object has no attribute '{name}'", "AttributeError", second="TypeError")
    return Bound(array, name)


@MODELS.subscript(Array)
def _array_subscript(interpreter: Evaluator, array: Array, key: Value) -> Value:
    keys = key.items if isinstance(key, Items) and key.kind == "tuple" and key.items is not None else [key]
    if isinstance(constant(key), str):
        message = (
            "only integers, slices (`:`), ellipsis (`...`), numpy.newaxis (`None`) and integer or boolean arrays are "
            "valid indices"
        )
        raise shape_fault(message, "IndexError", second="KeyError")
    if array.shape is None:
        return Array(array.cells, None, array.sparse)
    used = sum(constant(k) is not None and constant(k) is not ... for k in keys)
    if used > len(array.shape):
        message = f"too many indices for array: array is {len(array.shape)}-dimensional, but {used} were indexed"
        raise shape_fault(message, "IndexError", second="TypeError")
    shape = _indexed_shape(interpreter, array.shape, keys)
    if shape is None:
        return Array(array.cells, None, array.sparse)
    if shape == () and array.sparse is False:
        return Scalar(array.cells)
    origin = array.origin if keys and constant(keys[0]) == slice(None) else None
    return Array(array.cells, shape, array.sparse, origin)


def _indexed_shape(interpreter: Evaluator, shape: tuple[int | None, ...], keys: list[Value]) -> Shape:
    """Shape after indexing.

    Raises:
        Fault: IndexError for a constant index that is out of bounds.
    """
    if any(constant(key) is ... for key in keys):
        return None
    result: list[int | None] = []
    axis = 0
    for key in keys:
        index = constant(key)
        if index is None:
            result.append(1)
            continue
        size = shape[axis]
        if isinstance(index, slice):
            result.append(row_slice(size, index) if index != slice(None) else size)
        elif isinstance(index, int) and not isinstance(index, bool):
            if size is not None and not -size <= index < size:
                message = f"index {index} is out of bounds for axis {axis} with size {size}"
                raise shape_fault(message, "IndexError")
        elif isinstance(key, Scalar):
            pass
        elif isinstance(key, Items) and key.kind == "list":
            result.append(key.size)
        elif isinstance(key, Series | Array):
            boolean = key.cells.kind == "bool" or (isinstance(key, Series) and key.mask)
            if isinstance(key, Array) and key.shape is not None and len(key.shape) > 1:
                return None
            result.append(None if boolean else interpreter.length(key))
        else:
            result.append(None)
        axis += 1
    return (*result, *shape[axis:])


@MODELS.store(Array)
def _array_store(interpreter: Evaluator, array: Array, key: Value, item: Value) -> None:
    cells = item.cells if isinstance(item, Array | Series) else scalar_cells(item) or Cells()
    whole = constant(key) == slice(None)
    fresh = array.cells.tags & {"blank"}
    array.cells = cells if whole or fresh else merge_cells([array.cells, cells])
    if not whole and array.cells.missing:
        array.cells = dataclasses.replace(array.cells, missing=None)
