"""Putting arrays beside and below each other, dense and sparse."""

from __future__ import annotations

from wmrl_gym.scriptcheck.cells import Cells, merge_cells
from wmrl_gym.scriptcheck.data.arrays import as_array
from wmrl_gym.scriptcheck.faults import api_fault, shape_fault
from wmrl_gym.scriptcheck.models import Call, Models
from wmrl_gym.scriptcheck.values.data import Array
from wmrl_gym.scriptcheck.values.objects import Items, constant
from wmrl_gym.scriptcheck.values.scalars import UNKNOWN, Const, Value

MODELS = Models()


@MODELS.function(
    "numpy.hstack",
    "numpy.vstack",
    "numpy.concatenate",
    "numpy.column_stack",
    "scipy.sparse.hstack",
    "scipy.sparse.vstack",
)
def _stack(call: Call) -> Value:
    name = call.callee
    if len(call.args) > 1 and not isinstance(call.args[1], Const):
        raise api_fault(f"{name}() takes 1 positional argument but {len(call.args)} were given")
    parts = call.interpreter.elements(call.first() or UNKNOWN)
    if parts is None:
        inner = as_array(call.interpreter, call.interpreter.element(call.first() or UNKNOWN))
        return Array(inner.cells if inner else Cells(), None)
    arrays = [as_array(call.interpreter, part) for part in parts]
    if any(array is None or array.shape is None for array in arrays) or not arrays:
        known = [a for a in arrays if a is not None]
        sparse_result = None if call.module != "scipy.sparse" else True
        if sparse_result or any(a.sparse is not False for a in known):
            return Array(merge_cells([a.cells for a in known]), None, sparse_result)
        return Array(merge_cells([a.cells for a in known]) if len(known) == len(arrays) else Cells(), None)
    axis = constant(call.kwargs.get("axis") or call.first(1), 0)
    known_arrays = [array for array in arrays if array is not None]
    sparse = any(array.sparse for array in known_arrays)
    if sparse and call.module != "scipy.sparse":
        # NumPy treats a sparse matrix as one opaque object: what comes out is of no use, and what follows fails.
        return Array(Cells(), None, sparse=None)
    return _stacked(known_arrays, name, axis if isinstance(axis, int) else 0, call.module == "scipy.sparse")


def _stacked(arrays: list[Array], name: str, axis: int, sparse: bool) -> Array:
    cells = merge_cells([array.cells for array in arrays])
    shapes: list[tuple[int | None, ...]] = [array.shape or () for array in arrays]
    if name == "column_stack":
        shapes = [(*s, 1) if len(s) == 1 else s for s in shapes]
    if name == "vstack":
        shapes = [(1, *s) if len(s) == 1 else s for s in shapes]
    if name in ("hstack", "column_stack"):
        axis = 0 if all(len(s) == 1 for s in shapes) else 1
    elif name == "vstack":
        axis = 0
    _require_stackable(shapes, axis)
    along = [s[axis] if axis < len(s) else None for s in shapes]
    total = sum(along) if None not in along else None  # type: ignore[arg-type]
    first = list(shapes[0])
    for position in range(len(first)):
        if first[position] is None:
            first[position] = next((s[position] for s in shapes if s[position] is not None), None)
    if axis < len(first):
        first[axis] = total
    origins = {array.origin for array in arrays}
    origin = origins.pop() if axis > 0 and len(origins) == 1 else None
    return Array(cells, tuple(first), sparse, origin)


def _require_stackable(shapes: list[tuple[int | None, ...]], axis: int) -> None:
    first = shapes[0]
    for index, other in enumerate(shapes[1:], start=1):
        if len(other) != len(first):
            message = (
                "all the input arrays must have same number of dimensions, but the array at index 0 has "
                f"{len(first)} dimension(s) and the array at index {index} has {len(other)} dimension(s)"
            )
            raise shape_fault(message)
        for dimension, (m, n) in enumerate(zip(first, other, strict=True)):
            if dimension != axis and m is not None and n is not None and m != n:
                message = (
                    "all the input array dimensions except for the concatenation axis must match exactly, but along "
                    f"dimension {dimension}, the array at index 0 has size {m} and the array at index {index} has "
                    f"size {n}"
                )
                raise shape_fault(message)


@MODELS.function("numpy.stack")
def _np_stack(call: Call) -> Value:
    source = call.first()
    parts = call.interpreter.elements(source) if source is not None else None
    if parts is not None:
        arrays = [as_array(call.interpreter, part) for part in parts]
        shapes = {a.shape for a in arrays if a is not None}
        if len(shapes) > 1 and all(s is not None and None not in s for s in shapes) and None not in arrays:
            raise shape_fault("all input arrays must have the same shape")
    array = (
        as_array(call.interpreter, Items("list", source.items, source.element, source.length))
        if isinstance(source, Items)
        else None
    )
    if constant(call.kwargs.get("axis") or call.first(1), 0) not in (0,):
        return Array(array.cells if array else Cells(), None)
    return array or Array(Cells(), None)
