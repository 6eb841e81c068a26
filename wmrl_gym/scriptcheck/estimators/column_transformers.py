"""Column transformers: which columns each part takes, and what the parts make of them."""

from __future__ import annotations

import dataclasses
from typing import Any

from wmrl_gym.scriptcheck.cells import Cells, merge_cells
from wmrl_gym.scriptcheck.data.dtypes import dtype_names, dtype_selected
from wmrl_gym.scriptcheck.data.frames import select
from wmrl_gym.scriptcheck.estimators.estimators import estimator_class
from wmrl_gym.scriptcheck.estimators.features import features_of
from wmrl_gym.scriptcheck.estimators.fitting import fit, transform
from wmrl_gym.scriptcheck.estimators.pipelines import step_name
from wmrl_gym.scriptcheck.faults import Fault, api_fault, data_fault, shape_fault
from wmrl_gym.scriptcheck.language.operators import type_name
from wmrl_gym.scriptcheck.models import Call, Models
from wmrl_gym.scriptcheck.values.data import Array, Frame, Series
from wmrl_gym.scriptcheck.values.estimators import Estimator, Fit
from wmrl_gym.scriptcheck.values.objects import Instance, Items, constant, constant_list
from wmrl_gym.scriptcheck.values.scalars import MISSING, UNKNOWN, Const, Value

MODELS = Models()


@MODELS.function("sklearn.compose.make_column_transformer")
def _make_column_transformer(call: Call) -> Value:
    from sklearn.compose import ColumnTransformer

    triples: list[Value] = []
    for position, arg in enumerate(call.args):
        if not isinstance(arg, Items) or arg.items is None or len(arg.items) != 2:
            return Estimator(ColumnTransformer, {}, known=False)
        part, columns = arg.items
        if isinstance(part, Items):
            raise _no_transformer(constant_list(part), type_name(part))
        triples.append(Items("tuple", [Const(f"{step_name(part)}-{position}"), part, columns]))
    return Estimator(ColumnTransformer, {"transformers": Items("list", triples), **call.kwargs})


def _no_transformer(part: Any, kind: str | None) -> Fault:
    message = (
        "All estimators should implement fit and transform, or can be 'drop' or 'passthrough' specifiers. "
        f"'{part}' (type <class '{kind}'>) doesn't."
    )
    return api_fault(message, "TypeError", second="ValueError")


def _columns_wanted(frame: Frame, wanted: Value) -> list[Any] | str | None:
    """Column names that a part of a column transformer takes; a plain string stays one; None if unknown."""
    single = constant(wanted)
    if isinstance(single, str):
        return single
    if isinstance(wanted, Instance) and wanted.cls.__name__ == "make_column_selector":
        include = dtype_names(wanted.facts.get("dtype_include"))
        exclude = dtype_names(wanted.facts.get("dtype_exclude"))
        if not frame.complete or "pattern" in wanted.facts or None in (include or []) or None in (exclude or []):
            return None
        return [k for k, c in frame.columns.items() if dtype_selected(c.kind, include, exclude)]
    names = constant_list(wanted)
    if names is None:
        return None
    if names and all(isinstance(name, int) and not isinstance(name, bool) for name in names):
        known = list(frame.columns)
        return [known[n] for n in names if n < len(known)] if frame.complete else None
    return names


@MODELS.fitter("ColumnTransformer")
def _fit_columns(call: Call, estimator: Estimator, data: Value | None, target: Value | None) -> None:
    triples = estimator.params.get("transformers")
    estimator.fit = Fit(is_frame=isinstance(data, Frame))
    if not isinstance(triples, Items) or triples.items is None:
        estimator.known = False
        return
    if isinstance(data, Frame):
        estimator.fit.columns, estimator.fit.complete = dict(data.columns), data.complete
    used: set[Any] = set()
    for triple in triples.items:
        parts = triple.items if isinstance(triple, Items) else None
        if parts is not None and len(parts) != 3:
            raise api_fault(f"not enough values to unpack (expected 3, got {len(parts)})", "ValueError")
        if parts is None:
            estimator.known = False
            continue
        used |= _fit_part(call, estimator, parts, data, target)
    if isinstance(data, Frame):
        estimator.fit.parts["remainder"] = [k for k in data.columns if k not in used]
        estimator.fit.rows = data.rows


def _fit_part(
    call: Call, estimator: Estimator, parts: list[Value], data: Value | None, target: Value | None
) -> set[Any]:
    name, part, wanted = str(constant(parts[0], "?")), parts[1], parts[2]
    made = estimator_class(part)
    if made is not None:
        raise _no_transformer(made.__name__, "type")
    assert estimator.fit is not None
    if isinstance(data, Array) and data.sparse is False:
        names = constant_list(wanted) or [constant(wanted)]
        if any(isinstance(n, str) for n in names):
            message = "Specifying the columns using strings is only supported for dataframes."
            raise shape_fault(message, second="TypeError")
    if not isinstance(data, Frame):
        estimator.fit.parts[name] = None
        return set()
    columns = _columns_wanted(data, wanted)
    estimator.fit.parts[name] = columns
    if columns is None:
        return set()
    lost = [c for c in ([columns] if isinstance(columns, str) else columns) if c is not MISSING and data.lacks(c)]
    if lost:
        raise _lost_columns("Some column names are not columns of the dataframe", lost)
    if isinstance(part, Estimator) and columns:
        fit(call, part, _taken(data, columns), target)
    return {columns} if isinstance(columns, str) else set(columns)


def _taken(frame: Frame, columns: list[Any] | str) -> Value:
    if isinstance(columns, str):
        return Series(frame.columns.get(columns, frame.rest), frame.rows, columns, frame.origin)
    return select(frame, columns)


@MODELS.transformer("ColumnTransformer")
def _transform_columns(call: Call, estimator: Estimator, data: Value | None, just_fitted: bool) -> Value:
    fitted = estimator.fit
    triples = estimator.params.get("transformers")
    if fitted is None or not isinstance(triples, Items) or triples.items is None or not isinstance(data, Frame):
        rows = features_of(call.interpreter, data)
        return Array(Cells(), (rows.rows if rows else None, None), sparse=None)
    if not just_fitted:
        _require_columns(estimator, fitted, data)
    outputs: list[Array | None] = []
    for triple in triples.items:
        if not isinstance(triple, Items) or triple.items is None or len(triple.items) != 3:
            return Array(Cells(), (data.rows, None), sparse=None)
        outputs.append(_transform_part(call, fitted, triple.items, data, just_fitted))
    if constant(estimator.params.get("remainder"), "drop") == "passthrough":
        remainder = [c for c in fitted.parts.get("remainder", []) if not data.lacks(c)]
        if remainder:
            rest = features_of(call.interpreter, select(data, remainder))
            outputs.append(Array(rest.cells, (data.rows, len(remainder))) if rest is not None else None)
    return _side_by_side(outputs, data, constant(estimator.params.get("sparse_threshold"), 0.3))


def _require_columns(estimator: Estimator, fitted: Fit, data: Frame) -> None:
    used: set[Any] = set()
    for name, columns in fitted.parts.items():
        if name == "remainder" and constant(estimator.params.get("remainder"), "drop") == "drop":
            continue
        used |= {columns} if isinstance(columns, str) else set(columns or [])
    lost = [c for c in used if isinstance(c, str) and data.lacks(c)]
    if lost:
        raise _lost_columns("columns are missing", lost)


def _lost_columns(problem: str, lost: list[Any]) -> Fault:
    shown = "{" + ", ".join(sorted(map(repr, lost))) + "}"
    return data_fault(f"{problem}: {shown}", "ValueError", second="KeyError")


def _transform_part(call: Call, fitted: Fit, parts: list[Value], data: Frame, just_fitted: bool) -> Array | None:
    name, part = str(constant(parts[0], "?")), parts[1]
    columns = fitted.parts.get(name)
    how = constant(part, MISSING)
    if how == "drop" or columns == []:
        return Array(Cells("float", missing=False), (data.rows, 0))
    if columns is None:
        return None
    taken = _taken(data, columns)
    result = taken if how == "passthrough" else UNKNOWN
    if isinstance(part, Estimator):
        result = transform(call, part, taken, just_fitted=just_fitted)
    features = features_of(call.interpreter, result)
    if features is None:
        return None
    if features.ndim == 1:
        message = f"The output of the '{name}' transformer should be 2D (numpy array, scipy sparse array, dataframe)."
        raise shape_fault(message, second="TypeError")
    shape = (features.rows, features.width)
    made = Array(features.cells, shape, features.sparse, basis=features.basis, density=features.density)
    made.likely_width = features.likely_width
    return made


def _side_by_side(outputs: list[Array | None], data: Frame, threshold: Any) -> Array:
    """The parts' outputs in one matrix, sparse where scikit-learn would keep it sparse."""
    known = [o for o in outputs if o is not None]
    cells = merge_cells([o.cells for o in known if not (o.shape and o.shape[-1] == 0)])
    if len(known) < len(outputs):
        cells = dataclasses.replace(cells, kind="unknown", missing=cells.missing or None)
    widths = [o.shape[1] if o.shape is not None and len(o.shape) == 2 else None for o in known]
    width = sum(widths) if None not in widths and len(known) == len(outputs) else None  # type: ignore[arg-type]
    sparse: bool | None = False
    if any(o.sparse is None for o in known) or len(known) < len(outputs):
        sparse = None
    if any(o.sparse for o in known):
        filled = [(o.density if o.sparse else 1.0) for o in known]
        sparse = None
        if width and None not in filled and isinstance(threshold, int | float):
            density = sum(d * w for d, w in zip(filled, widths, strict=True)) / width  # type: ignore[operator, misc]
            sparse = density < threshold
        elif any(o.basis is not None and o.density is not None and o.density <= 0.01 for o in known):
            sparse = True
    bases = [o.basis for o in known if o.basis is not None]
    basis = hash(tuple(bases)) if bases and width is None else None
    likely = sum(o.likely_width or (o.shape[1] if o.shape else 0) or 0 for o in known)
    return Array(cells, (data.rows, width), sparse, origin=data.origin, basis=basis, likely_width=likely or None)
