"""NumPy's functions: making arrays, mapping and reducing them."""

from __future__ import annotations

import dataclasses
import math

from wmrl_gym.scriptcheck import cost
from wmrl_gym.scriptcheck.cells import Cells, merge_cells
from wmrl_gym.scriptcheck.data.array_methods import constant_shape, reduced
from wmrl_gym.scriptcheck.data.arrays import Shape, as_array
from wmrl_gym.scriptcheck.data.dtypes import cast, dtype_kind
from wmrl_gym.scriptcheck.faults import shape_fault
from wmrl_gym.scriptcheck.models import Call, Models
from wmrl_gym.scriptcheck.scope import scalar_cells
from wmrl_gym.scriptcheck.values.data import Array, Frame, Series
from wmrl_gym.scriptcheck.values.objects import Items, constant
from wmrl_gym.scriptcheck.values.scalars import MISSING, UNKNOWN, Scalar, Value

MODELS = Models()


@MODELS.function("array", "asarray", "asanyarray", "ascontiguousarray", of="numpy")
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


@MODELS.function("zeros", "ones", "empty", "full", of="numpy")
def _blank(call: Call) -> Value:
    shape = constant_shape(call, call.first() or call.kwargs.get("shape"))
    fill = scalar_cells(call.args[1]) if len(call.args) > 1 and call.callee == "full" else None
    kind = dtype_kind(call.kwargs.get("dtype")) if "dtype" in call.kwargs else "float"
    cells = fill or Cells(kind or "unknown", missing=False, negative=False, fractional=False)
    if shape is not None and None not in shape:
        cost.allocate(call, math.prod(shape) * 8 / 2**20)  # type: ignore[arg-type]
    return Array(cells.tagged("blank"), shape)


@MODELS.function("zeros_like", "ones_like", "empty_like", "full_like", of="numpy")
def _blank_like(call: Call) -> Value:
    array = as_array(call.interpreter, call.first())
    cells = Cells("float" if array is None else array.cells.kind, missing=False, negative=False)
    return Array(cells, None if array is None else array.shape, origin=None if array is None else array.origin)


@MODELS.function("arange", "linspace", of="numpy")
def _arange(call: Call) -> Value:
    bounds = [constant(arg) for arg in call.args]
    size = None
    if call.callee == "arange" and bounds and all(isinstance(b, int) for b in bounds):
        size = len(range(*bounds[:3]))
    elif call.callee == "linspace" and len(bounds) > 2 and isinstance(bounds[2], int):
        size = bounds[2]
    kind = "int" if size is not None and call.callee == "arange" else "float"
    return Array(Cells(kind, missing=False, fractional=None if kind == "float" else False), (size,))


@MODELS.function("rand", "randn", "random", "uniform", "normal", of="numpy.random")
def _random(call: Call) -> Value:
    name = call.callee
    if name in ("rand", "randn"):
        sizes = [constant(arg) for arg in call.args]
        shape: Shape = tuple(n if isinstance(n, int) else None for n in sizes)
    else:
        size = call.kwargs.get("size") or (call.first() if name == "random" else call.first(2))
        shape = constant_shape(call, size) if size is not None else ()
    return (
        Array(Cells("float", missing=False, fractional=True), shape)
        if shape != ()
        else Scalar(Cells("float", missing=False))
    )


@MODELS.function("randint", "choice", "permutation", of="numpy.random")
def _random_integers(call: Call) -> Value:
    size = call.kwargs.get("size") or (call.first(2) if call.callee == "randint" else call.first(1))
    if call.callee == "permutation":
        size = call.first()
        return Array(
            Cells("int", missing=False),
            (constant(size) if isinstance(constant(size), int) else call.interpreter.length(size) if size else None,),
        )
    shape = constant_shape(call, size) if size is not None else ()
    kind = "int" if call.callee == "randint" else "unknown"
    return Array(Cells(kind, missing=False, fractional=False), shape) if shape != () else Scalar(Cells(kind))


_MASKS = ("isnan", "isfinite")
_LOGARITHMS = ("log", "log1p", "log2", "log10")
_EXPONENTIALS = ("exp", "expm1")
_ROUNDINGS = ("round", "around", "rint", "floor", "ceil")
_MAGNITUDES = ("abs", "absolute", "square")
_LOWER_BOUNDS = ("clip", "maximum")
_OTHER = ("sqrt", "sin", "cos", "tanh", "sigmoid", "sign", "negative", "power", "minimum", "nan_to_num")


@MODELS.function(*_MASKS, *_LOGARITHMS, *_EXPONENTIALS, *_ROUNDINGS, *_MAGNITUDES, *_LOWER_BOUNDS, *_OTHER, of="numpy")
def _ufunc(call: Call) -> Value:
    name = call.callee
    source = call.first()
    cells = source.cells if isinstance(source, Series | Array) else scalar_cells(source) if source is not None else None
    if cells is not None and cells.kind == "str":
        if isinstance(source, Series):
            message = f"loop of ufunc does not support argument 0 of type str which has no callable {name} method"
        else:
            message = f"ufunc '{name}' not supported for the input types"
        raise shape_fault(message, "TypeError", second="ValueError")
    number = constant(source)
    if isinstance(source, Frame):
        return source.with_columns({k: mapped_cells(name, c, call) for k, c in source.columns.items()})
    if isinstance(source, Series | Array):
        changed = dataclasses.replace(source, cells=mapped_cells(name, source.cells, call))
        if isinstance(changed, Series):
            changed.mask = name in _MASKS
        return changed
    if isinstance(source, Items):
        array = as_array(call.interpreter, source)
        return Array(mapped_cells(name, array.cells, call), array.shape) if array else UNKNOWN
    return Scalar(Cells("float")) if number is not MISSING or cells is not None else UNKNOWN


def mapped_cells(name: str, cells: Cells, call: Call) -> Cells:
    """Cells after an elementwise function of NumPy."""
    if name in _MASKS:
        return cells.derived(kind="bool", missing=False)
    if name in _LOGARITHMS or name == "sqrt":
        tags = cells.tags | ({"log"} if name.startswith("log") else set())
        missing = cells.missing if cells.negative is False else cells.missing or None
        negative = False if name in ("log1p", "sqrt") and cells.negative is False else None
        return cells.derived(kind="float", fractional=True, negative=negative, tags=tags, missing=missing)
    if name in _EXPONENTIALS:
        return cells.derived(
            kind="float",
            tags=cells.tags | {"exp"},
            fractional=True,
            negative=False if name == "exp" else cells.negative,
        )
    if name in _ROUNDINGS:
        whole = len(call.args) == 1 and not call.kwargs
        return cells.derived(fractional=False if whole else None, role="labels" if whole and cells.role else cells.role)
    if name in _MAGNITUDES:
        return cells.derived(negative=False)
    if name in _LOWER_BOUNDS:
        low = constant(call.first(1) or call.kwargs.get("a_min"))
        floor = isinstance(low, int | float) and low >= 0
        return cells.derived(negative=False if floor else cells.negative and None)
    if name == "nan_to_num":
        return cells.derived(missing=False)
    return cells.derived(kind="float", negative=None, fractional=None, missing=cells.missing)


@MODELS.function("numpy.where")
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


@MODELS.function("mean", "sum", "std", "median", "min", "max", "argmax", "argmin", "average", of="numpy")
def _np_reduce(call: Call) -> Value:
    array = as_array(call.interpreter, call.first())
    if array is None:
        return UNKNOWN
    if array.cells.kind == "str" and call.callee in ("mean", "std", "median", "average"):
        raise shape_fault("the resolved dtypes are not compatible with add.reduce", "TypeError", second="ValueError")
    return reduced(call, array, call.kwargs.get("axis") or call.first(1))


@MODELS.function("numpy.unique")
def _np_unique(call: Call) -> Value:
    array = as_array(call.interpreter, call.first())
    found = Array(array.cells if array else Cells(), (None,))
    return UNKNOWN if call.kwargs else found


@MODELS.function("isin", "logical_and", "logical_or", "logical_not", "isclose", of="numpy")
def _np_mask(call: Call) -> Value:
    array = as_array(call.interpreter, call.first())
    return Array(Cells("bool", missing=False), array.shape if array else None)


@MODELS.function("seed", "default_rng", "shuffle", of="numpy.random")
@MODELS.function("random.seed", "numpy.set_printoptions")
@MODELS.function("apply_along_axis", "vectorize", "dot", "matmul", "tile", "repeat", of="numpy")
def _np_other(call: Call) -> Value:
    return UNKNOWN
