"""NumPy arrays and SciPy sparse matrices: shapes, dtypes, stacking, indexing and the common functions."""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import TYPE_CHECKING

from wmrl_gym.world_models.static_analysis.calls import ATTRIBUTES, STORES, SUBSCRIPTS, Call, methods, models
from wmrl_gym.world_models.static_analysis.faults import api_fault, runtime_fault, shape_fault
from wmrl_gym.world_models.static_analysis.frame_methods import cast, dtype_kind
from wmrl_gym.world_models.static_analysis.frames import count, dtype_of, row_slice, to_array
from wmrl_gym.world_models.static_analysis.scope import scalar_cells
from wmrl_gym.world_models.static_analysis.values import (
    MISSING,
    NONE,
    UNKNOWN,
    Array,
    Bound,
    Cells,
    Const,
    Frame,
    Instance,
    Items,
    Scalar,
    Series,
    Value,
    constant,
    merge_cells,
)

if TYPE_CHECKING:
    from wmrl_gym.world_models.static_analysis.expressions import Expressions

Shape = tuple[int | None, ...] | None


def as_array(interpreter: Expressions, value: Value | None) -> Array | None:
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


def _array_of_items(interpreter: Expressions, value: Items) -> Array | None:
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


def _array_attribute(interpreter: Expressions, array: Array, name: str) -> Value:
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


ATTRIBUTES[Array] = _array_attribute


def _array_subscript(interpreter: Expressions, array: Array, key: Value) -> Value:
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


def _indexed_shape(interpreter: Expressions, shape: tuple[int | None, ...], keys: list[Value]) -> Shape:
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


SUBSCRIPTS[Array] = _array_subscript


def _array_store(interpreter: Expressions, array: Array, key: Value, item: Value) -> None:
    cells = item.cells if isinstance(item, Array | Series) else scalar_cells(item) or Cells()
    whole = constant(key) == slice(None)
    fresh = array.cells.tags & {"blank"}
    array.cells = cells if whole or fresh else merge_cells([array.cells, cells])
    if not whole and array.cells.missing:
        array.cells = dataclasses.replace(array.cells, missing=None)


STORES[Array] = _array_store

# Shapes


def _constant_shape(call: Call, value: Value | None) -> Shape:
    found = constant(value)
    if isinstance(found, int):
        return (found,)
    if isinstance(value, Items) and value.items is not None:
        sizes = [constant(item) for item in value.items]
        return tuple(n if isinstance(n, int) else None for n in sizes)
    if isinstance(value, Scalar):
        return (None,)
    return None


def reshape(array: Array, wanted: Shape) -> Array:
    """``array.reshape(wanted)``.

    Raises:
        Fault: ValueError if the number of elements cannot fit.
    """
    if wanted is None:
        return Array(array.cells, None, array.sparse)
    known = array.shape is not None and None not in array.shape
    total = math.prod(array.shape) if known else None  # type: ignore[arg-type]
    fixed = [n for n in wanted if n is not None and n != -1]
    if total is not None and None not in wanted:
        holes = list(wanted).count(-1)
        product = math.prod(fixed)
        if (holes == 0 and product != total) or (holes == 1 and (product == 0 or total % product)):
            shown = ",".join("newaxis" if n == -1 else str(n) for n in wanted)
            shown = shown + "," if len(wanted) == 1 else shown
            raise shape_fault(f"cannot reshape array of size {total} into shape ({shown})", second="TypeError")
        filled = tuple(total // product if n == -1 else n for n in wanted)
        return Array(array.cells, filled, array.sparse, array.origin if filled[0] == array.rows else None)
    filled = tuple(_missing_axis(array, wanted, axis) if n == -1 else n for axis, n in enumerate(wanted))
    return Array(array.cells, filled, array.sparse, array.origin if filled and filled[0] == array.rows else None)


def _missing_axis(array: Array, wanted: tuple[int | None, ...], axis: int) -> int | None:
    """The ``-1`` of a reshape, where one axis stays as it is although its length is unknown."""
    others = [n for position, n in enumerate(wanted) if position != axis]
    if array.shape is not None and len(others) == 1 and axis == 0 and len(array.shape) == 1 and others == [1]:
        return array.rows
    if array.shape is not None and others and axis > 0 and others[0] == array.rows and None not in array.shape[1:]:
        return math.prod(array.shape[1:]) if len(others) == 1 else None  # type: ignore[arg-type]
    return None


@methods(Array, "reshape")
def _reshape(call: Call, array: Array) -> Value:
    if len(call.args) == 1:
        return reshape(array, _constant_shape(call, call.args[0]))
    sizes = [constant(arg) for arg in call.args]
    return reshape(array, tuple(n if isinstance(n, int) else None for n in sizes))


@models("numpy.reshape")
def _np_reshape(call: Call) -> Value:
    array = as_array(call.interpreter, call.first())
    return (
        UNKNOWN
        if array is None
        else reshape(array, _constant_shape(call, call.first(1) or call.kwargs.get("newshape")))
    )


@methods(Array, "ravel", "flatten")
def _ravel(call: Call, array: Array) -> Value:
    if array.shape is not None and len(array.shape) == 1:
        return array
    if array.shape is not None and len(array.shape) == 2 and array.shape[1] == 1:
        return Array(array.cells, (array.rows,), array.sparse, array.origin)
    known = array.shape is not None and None not in array.shape
    return Array(array.cells, (math.prod(array.shape) if known else None,), False)  # type: ignore[arg-type]


@models("numpy.ravel")
def _np_ravel(call: Call) -> Value:
    array = as_array(call.interpreter, call.first())
    return UNKNOWN if array is None else _ravel(call, array)


@methods(Array, "squeeze")
def _squeeze(call: Call, array: Array) -> Value:
    if array.shape is None or None in array.shape:
        return Array(array.cells, None)
    return Array(array.cells, tuple(n for n in array.shape if n != 1), array.sparse, array.origin)


@methods(Array, "astype")
def _astype(call: Call, array: Array) -> Value:
    kind = dtype_kind(call.first() or call.kwargs.get("dtype"))
    return dataclasses.replace(array, cells=cast(array.cells, kind))


@methods(Array, "copy", "clip", "round", "fill", "sort")
def _same_shape(call: Call, array: Array) -> Value:
    name = call.callee
    if name in ("fill", "sort"):
        return NONE
    if name == "clip":
        low = constant(call.first() or call.kwargs.get("min"))
        floor = isinstance(low, int | float) and low >= 0
        return dataclasses.replace(array, cells=array.cells.derived(negative=False if floor else None))
    return dataclasses.replace(array)


@methods(Array, "mean", "sum", "std", "var", "min", "max", "argmax", "argmin", "any", "all", "prod", "median")
def _reduce(call: Call, array: Array) -> Value:
    return _reduced(call, array, call.first() or call.kwargs.get("axis"))


def _reduced(call: Call, array: Array, axis_value: Value | None) -> Value:
    name = call.callee
    kind = "int" if name.startswith("arg") else "bool" if name in ("any", "all") else array.cells.kind
    if name in ("mean", "std", "var", "median"):
        kind = "float"
    role = "labels" if name == "argmax" and array.cells.role == "probability" else array.cells.role
    cells = array.cells.derived(kind=kind, unique=None, role=role, fractional=False if kind == "int" else None)
    axis = constant(axis_value, None)
    if axis is None:
        return Scalar(dataclasses.replace(cells, predictors=(), role=None, tags=frozenset()))
    if array.shape is None or not isinstance(axis, int) or not -len(array.shape) <= axis < len(array.shape):
        return Array(cells, None)
    rest = [n for position, n in enumerate(array.shape) if position != axis % len(array.shape)]
    return Array(cells, tuple(rest), False, array.origin if axis % len(array.shape) > 0 else None)


@methods(Array, "tolist")
def _tolist(call: Call, array: Array) -> Value:
    inner = array.shape[1:] if array.shape else None
    element: Value = Scalar(array.cells) if inner == () else UNKNOWN
    return Items("list", None, element, array.rows)


@methods(Array, "toarray", "todense", "tocsr", "tocsc", "getnnz")
def _dense(call: Call, array: Array) -> Value:
    name = call.callee
    if name not in ("toarray", "todense"):
        return array
    if array.sparse is False:
        raise api_fault(f"'numpy.ndarray' object has no attribute '{name}'", "AttributeError", second="TypeError")
    from wmrl_gym.world_models.static_analysis import cost

    if array.shape is not None and None not in array.shape:
        cost.allocate(call, math.prod(array.shape) * 8 / 2**20)  # type: ignore[arg-type]
    return dataclasses.replace(array, sparse=False)


@models("scipy.sparse.csr_matrix", "scipy.sparse.csc_matrix", "scipy.sparse.coo_matrix", "scipy.sparse.csr_array")
def _sparse(call: Call) -> Value:
    array = as_array(call.interpreter, call.first())
    return Array(Cells(), None, sparse=True) if array is None else dataclasses.replace(array, sparse=True, density=None)


@methods(
    Array, "transpose", "dot", "repeat", "nonzero", "item", "flat", "view", "cumsum", "argsort", "swapaxes", "take"
)
def _other(call: Call, array: Array) -> Value:
    return Array(array.cells.derived(), None) if array.ndim != 0 else UNKNOWN


# Making


@models("numpy.array", "numpy.asarray", "numpy.asanyarray", "numpy.ascontiguousarray")
def _array(call: Call) -> Value:
    source = call.first() if call.args else call.kwargs.get("object") or call.kwargs.get("a")
    if isinstance(source, Items) and source.kind == "generator":
        return Array(Cells("object"), ())
    array = as_array(call.interpreter, source)
    if array is None:
        return UNKNOWN
    kind = (
        dtype_kind(call.kwargs.get("dtype") or call.first(1)) if "dtype" in call.kwargs or len(call.args) > 1 else None
    )
    cells = cast(array.cells, kind) if kind is not None else array.cells
    return dataclasses.replace(array, cells=cells)


@models("numpy.zeros", "numpy.ones", "numpy.empty", "numpy.full")
def _blank(call: Call) -> Value:
    shape = _constant_shape(call, call.first() or call.kwargs.get("shape"))
    fill = scalar_cells(call.args[1]) if len(call.args) > 1 and call.callee == "full" else None
    kind = dtype_kind(call.kwargs.get("dtype")) if "dtype" in call.kwargs else "float"
    cells = fill or Cells(kind or "unknown", missing=False, negative=False, fractional=False)
    if shape is not None and None not in shape:
        from wmrl_gym.world_models.static_analysis import cost

        cost.allocate(call, math.prod(shape) * 8 / 2**20)  # type: ignore[arg-type]
    return Array(cells.tagged("blank"), shape)


@models("numpy.zeros_like", "numpy.ones_like", "numpy.empty_like", "numpy.full_like")
def _blank_like(call: Call) -> Value:
    array = as_array(call.interpreter, call.first())
    cells = Cells("float" if array is None else array.cells.kind, missing=False, negative=False)
    return Array(cells, None if array is None else array.shape, origin=None if array is None else array.origin)


@models("numpy.arange", "numpy.linspace")
def _arange(call: Call) -> Value:
    bounds = [constant(arg) for arg in call.args]
    size = None
    if call.callee == "arange" and bounds and all(isinstance(b, int) for b in bounds):
        size = len(range(*bounds[:3]))
    elif call.callee == "linspace" and len(bounds) > 2 and isinstance(bounds[2], int):
        size = bounds[2]
    kind = "int" if size is not None and call.callee == "arange" else "float"
    return Array(Cells(kind, missing=False, fractional=None if kind == "float" else False), (size,))


@models("numpy.random.rand", "numpy.random.randn", "numpy.random.random", "numpy.random.uniform", "numpy.random.normal")
def _random(call: Call) -> Value:
    name = call.callee
    if name in ("rand", "randn"):
        sizes = [constant(arg) for arg in call.args]
        shape: Shape = tuple(n if isinstance(n, int) else None for n in sizes)
    else:
        size = call.kwargs.get("size") or (call.first() if name == "random" else call.first(2))
        shape = _constant_shape(call, size) if size is not None else ()
    return (
        Array(Cells("float", missing=False, fractional=True), shape)
        if shape != ()
        else Scalar(Cells("float", missing=False))
    )


@models("numpy.random.randint", "numpy.random.choice", "numpy.random.permutation")
def _random_integers(call: Call) -> Value:
    size = call.kwargs.get("size") or (call.first(2) if call.callee == "randint" else call.first(1))
    if call.callee == "permutation":
        size = call.first()
        return Array(
            Cells("int", missing=False),
            (constant(size) if isinstance(constant(size), int) else call.interpreter.length(size) if size else None,),
        )
    shape = _constant_shape(call, size) if size is not None else ()
    kind = "int" if call.callee == "randint" else "unknown"
    return Array(Cells(kind, missing=False, fractional=False), shape) if shape != () else Scalar(Cells(kind))


@models(
    "numpy.random.seed", "random.seed", "numpy.random.default_rng", "numpy.random.shuffle", "numpy.set_printoptions"
)
def _seed(call: Call) -> Value:
    return UNKNOWN


# Stacking


@models(
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
    if sparse and not call.module == "scipy.sparse":
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
                    f"dimension {dimension}, the array at index 0 has size {m} and the array at index {index} has size {n}"
                )
                raise shape_fault(message)


@models("numpy.stack")
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


# Functions


_UFUNCS = [
    "log",
    "log1p",
    "log2",
    "log10",
    "exp",
    "expm1",
    "sqrt",
    "square",
    "abs",
    "absolute",
    "sin",
    "cos",
    "tanh",
    "round",
    "around",
    "rint",
    "floor",
    "ceil",
    "sign",
    "nan_to_num",
    "clip",
    "maximum",
    "minimum",
    "isnan",
    "isfinite",
    "where",
    "power",
    "sigmoid",
    "negative",
]


@models(*(f"numpy.{name}" for name in _UFUNCS))
def _ufunc(call: Call) -> Value:
    name = call.callee
    if name == "where":
        return _where(call)
    source = call.first()
    cells = source.cells if isinstance(source, Series | Array) else scalar_cells(source) if source is not None else None
    if cells is not None and cells.kind == "str" and name not in ("where",):
        if isinstance(source, Series):
            message = f"loop of ufunc does not support argument 0 of type str which has no callable {name} method"
        else:
            message = f"ufunc '{name}' not supported for the input types"
        raise shape_fault(message, "TypeError", second="ValueError")
    number = constant(source)
    if isinstance(source, Frame):
        return source.with_columns({k: _mapped(name, c, call) for k, c in source.columns.items()})
    if isinstance(source, Series | Array):
        mask = name in ("isnan", "isfinite")
        changed = dataclasses.replace(source, cells=_mapped(name, source.cells, call))
        if isinstance(changed, Series):
            changed.mask = mask
        return changed
    if isinstance(source, Items):
        array = as_array(call.interpreter, source)
        return Array(_mapped(name, array.cells, call), array.shape) if array else UNKNOWN
    return Scalar(Cells("float")) if number is not MISSING or cells is not None else UNKNOWN


def _mapped(name: str, cells: Cells, call: Call) -> Cells:
    if name in ("isnan", "isfinite"):
        return cells.derived(kind="bool", missing=False)
    if name in ("log", "log1p", "log2", "log10", "sqrt"):
        tags = cells.tags | ({"log"} if name.startswith("log") else set())
        missing = cells.missing if cells.negative is False else cells.missing or None
        negative = False if name in ("log1p", "sqrt") and cells.negative is False else None
        return cells.derived(kind="float", fractional=True, negative=negative, tags=tags, missing=missing)
    if name in ("exp", "expm1"):
        return cells.derived(
            kind="float",
            tags=cells.tags | {"exp"},
            fractional=True,
            negative=False if name == "exp" else cells.negative,
        )
    if name in ("round", "around", "rint", "floor", "ceil"):
        whole = len(call.args) == 1 and not call.kwargs
        return cells.derived(fractional=False if whole else None, role="labels" if whole and cells.role else cells.role)
    if name in ("abs", "absolute", "square"):
        return cells.derived(negative=False)
    if name in ("clip", "maximum"):
        low = constant(call.first(1) or call.kwargs.get("a_min"))
        floor = isinstance(low, int | float) and low >= 0
        return cells.derived(negative=False if floor else cells.negative and None)
    if name == "nan_to_num":
        return cells.derived(missing=False)
    return cells.derived(kind="float", negative=None, fractional=None, missing=cells.missing)


def _where(call: Call) -> Value:
    if len(call.args) != 3:
        return UNKNOWN
    condition, yes, no = call.args
    a, b = (v.cells if isinstance(v, Series | Array) else scalar_cells(v) or Cells() for v in (yes, no))
    source = condition.cells if isinstance(condition, Series | Array) else Cells()
    merged = merge_cells([a, b])
    # A threshold on predictions makes labels of them.
    cells = dataclasses.replace(
        merged, sources=merged.sources | source.sources, predictors=merged.predictors or source.predictors
    )
    shape = (
        (call.interpreter.length(condition),) if isinstance(condition, Series) else getattr(condition, "shape", None)
    )
    return Array(cells, shape, origin=getattr(condition, "origin", None))


@models(
    "numpy.mean",
    "numpy.sum",
    "numpy.std",
    "numpy.median",
    "numpy.min",
    "numpy.max",
    "numpy.argmax",
    "numpy.argmin",
    "numpy.average",
)
def _np_reduce(call: Call) -> Value:
    array = as_array(call.interpreter, call.first())
    if array is None:
        return UNKNOWN
    if array.cells.kind == "str" and call.callee in ("mean", "std", "median", "average"):
        raise shape_fault("the resolved dtypes are not compatible with add.reduce", "TypeError", second="ValueError")
    return _reduced(call, array, call.kwargs.get("axis") or call.first(1))


@models("numpy.unique")
def _np_unique(call: Call) -> Value:
    array = as_array(call.interpreter, call.first())
    found = Array(array.cells if array else Cells(), (None,))
    return UNKNOWN if call.kwargs else found


@models("numpy.isin", "numpy.logical_and", "numpy.logical_or", "numpy.logical_not", "numpy.isclose")
def _np_mask(call: Call) -> Value:
    array = as_array(call.interpreter, call.first())
    return Array(Cells("bool", missing=False), array.shape if array else None)


@models("numpy.apply_along_axis", "numpy.vectorize", "numpy.dot", "numpy.matmul", "numpy.tile", "numpy.repeat")
def _np_other(call: Call) -> Value:
    return UNKNOWN


@methods(Instance, "resize")
def _resize(call: Call, image: Instance) -> Value:
    if "image_size" not in image.facts:
        return UNKNOWN
    size = constant(call.first() or call.kwargs.get("size"))
    if isinstance(size, int):
        raise runtime_fault("object of type 'int' has no len()", "TypeError", second="ValueError")
    known = isinstance(size, tuple) and len(size) == 2
    return Instance(image.cls, {**image.facts, "image_size": size if known else None})


@methods(Instance, "convert")
def _convert(call: Call, image: Instance) -> Value:
    if "image_size" not in image.facts:
        return UNKNOWN
    mode = constant(call.first() or call.kwargs.get("mode"))
    if isinstance(mode, str) and mode not in (
        "1",
        "L",
        "P",
        "RGB",
        "RGBA",
        "CMYK",
        "YCbCr",
        "LAB",
        "HSV",
        "I",
        "F",
        "LA",
    ):
        raise runtime_fault("conversion from L to " + mode + " not supported", "ValueError")
    return Instance(image.cls, {**image.facts, "image_mode": mode if isinstance(mode, str) else None})


@methods(Instance, "getdata")
def _getdata(call: Call, image: Instance) -> Value:
    array = as_array(call.interpreter, image)
    known = array is not None and array.shape is not None and None not in array.shape
    cells = array.cells if array is not None else Cells()
    size = math.prod(array.shape[:2]) if known and array is not None and array.shape else None  # type: ignore[arg-type]
    plain = array is not None and array.shape is not None and len(array.shape) == 2
    return Items("list", None, Scalar(cells) if plain else UNKNOWN, size)
