"""Methods of arrays and sparse matrices: shapes, casts, reductions."""

from __future__ import annotations

import dataclasses
import math

from wmrl_gym.scriptcheck import cost
from wmrl_gym.scriptcheck.cells import Cells
from wmrl_gym.scriptcheck.data.arrays import Shape, as_array
from wmrl_gym.scriptcheck.data.dtypes import cast, dtype_kind
from wmrl_gym.scriptcheck.faults import api_fault, shape_fault
from wmrl_gym.scriptcheck.models import Call, Models
from wmrl_gym.scriptcheck.values.data import Array
from wmrl_gym.scriptcheck.values.objects import Items, constant
from wmrl_gym.scriptcheck.values.scalars import NONE, UNKNOWN, Scalar, Value

MODELS = Models()


def constant_shape(call: Call, value: Value | None) -> Shape:
    """A shape argument, None if it is unknown."""
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


@MODELS.method(Array, "reshape")
def _reshape(call: Call, array: Array) -> Value:
    if len(call.args) == 1:
        return reshape(array, constant_shape(call, call.args[0]))
    sizes = [constant(arg) for arg in call.args]
    return reshape(array, tuple(n if isinstance(n, int) else None for n in sizes))


@MODELS.function("numpy.reshape")
def _np_reshape(call: Call) -> Value:
    array = as_array(call.interpreter, call.first())
    return (
        UNKNOWN if array is None else reshape(array, constant_shape(call, call.first(1) or call.kwargs.get("newshape")))
    )


@MODELS.method(Array, "ravel", "flatten")
def _ravel(call: Call, array: Array) -> Value:
    if array.shape is not None and len(array.shape) == 1:
        return array
    if array.shape is not None and len(array.shape) == 2 and array.shape[1] == 1:
        return Array(array.cells, (array.rows,), array.sparse, array.origin)
    known = array.shape is not None and None not in array.shape
    return Array(array.cells, (math.prod(array.shape) if known else None,), False)  # type: ignore[arg-type]


@MODELS.function("numpy.ravel")
def _np_ravel(call: Call) -> Value:
    array = as_array(call.interpreter, call.first())
    return UNKNOWN if array is None else _ravel(call, array)


@MODELS.method(Array, "squeeze")
def _squeeze(call: Call, array: Array) -> Value:
    if array.shape is None or None in array.shape:
        return Array(array.cells, None)
    return Array(array.cells, tuple(n for n in array.shape if n != 1), array.sparse, array.origin)


@MODELS.method(Array, "astype")
def _astype(call: Call, array: Array) -> Value:
    kind = dtype_kind(call.first() or call.kwargs.get("dtype"))
    return dataclasses.replace(array, cells=cast(array.cells, kind))


@MODELS.method(Array, "copy", "clip", "round", "fill", "sort")
def _same_shape(call: Call, array: Array) -> Value:
    name = call.callee
    if name in ("fill", "sort"):
        return NONE
    if name == "clip":
        low = constant(call.first() or call.kwargs.get("min"))
        floor = isinstance(low, int | float) and low >= 0
        return dataclasses.replace(array, cells=array.cells.derived(negative=False if floor else None))
    return dataclasses.replace(array)


@MODELS.method(Array, "mean", "sum", "std", "var", "min", "max", "argmax", "argmin", "any", "all", "prod", "median")
def _reduce(call: Call, array: Array) -> Value:
    return reduced(call, array, call.first() or call.kwargs.get("axis"))


def reduced(call: Call, array: Array, axis_value: Value | None) -> Value:
    """A reduction over one axis, or over all of them."""
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


@MODELS.method(Array, "tolist")
def _tolist(call: Call, array: Array) -> Value:
    inner = array.shape[1:] if array.shape else None
    element: Value = Scalar(array.cells) if inner == () else UNKNOWN
    return Items("list", None, element, array.rows)


@MODELS.method(Array, "toarray", "todense", "tocsr", "tocsc", "getnnz")
def _dense(call: Call, array: Array) -> Value:
    name = call.callee
    if name not in ("toarray", "todense"):
        return array
    if array.sparse is False:
        raise api_fault(f"'numpy.ndarray' object has no attribute '{name}'", "AttributeError", second="TypeError")

    if array.shape is not None and None not in array.shape:
        cost.allocate(call, math.prod(array.shape) * 8 / 2**20)  # type: ignore[arg-type]
    return dataclasses.replace(array, sparse=False)


@MODELS.function("csr_matrix", "csc_matrix", "coo_matrix", "csr_array", of="scipy.sparse")
def _sparse(call: Call) -> Value:
    array = as_array(call.interpreter, call.first())
    return Array(Cells(), None, sparse=True) if array is None else dataclasses.replace(array, sparse=True, density=None)


@MODELS.method(
    Array, "transpose", "dot", "repeat", "nonzero", "item", "flat", "view", "cumsum", "argsort", "swapaxes", "take"
)
def _other(call: Call, array: Array) -> Value:
    return Array(array.cells.derived(), None) if array.ndim != 0 else UNKNOWN
