"""Estimators made of estimators: pipelines, column transformers, searches, ensembles of given models."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from wmrl_gym.world_models.static_analysis.calls import Call, models
from wmrl_gym.world_models.static_analysis.estimators import estimator_class, steps_of, unavailable
from wmrl_gym.world_models.static_analysis.faults import Fault, api_fault, data_fault, runtime_fault, shape_fault
from wmrl_gym.world_models.static_analysis.features import features_of, target_of
from wmrl_gym.world_models.static_analysis.fitting import (
    FITTERS,
    PREDICTORS,
    fit,
    fit_plainly,
    predict,
    predictions,
    remember,
    transform,
)
from wmrl_gym.world_models.static_analysis.frame_methods import _dtype_names, _selected
from wmrl_gym.world_models.static_analysis.frames import select
from wmrl_gym.world_models.static_analysis.operators import type_name
from wmrl_gym.world_models.static_analysis.transformers import fitter, transformer
from wmrl_gym.world_models.static_analysis.values import (
    MISSING,
    UNKNOWN,
    Array,
    Cells,
    Const,
    Dict,
    Estimator,
    Fit,
    Frame,
    Instance,
    Items,
    Series,
    Unknown,
    Value,
    constant,
    constant_list,
    merge_cells,
)
from wmrl_gym.world_models.verdicts import Check

_SKIPPED = ("passthrough", "drop", None)

# Making


@models("sklearn.pipeline.make_pipeline", "sklearn.pipeline.make_union")
def _make_pipeline(call: Call) -> Value:
    import sklearn.pipeline as module

    for keyword in call.kwargs:
        if keyword not in ("memory", "verbose", "transform_input", "n_jobs", "verbose_feature_names_out"):
            raise api_fault(f"{call.callee}() got an unexpected keyword argument '{keyword}'")
    pairs = Items("list", [Items("tuple", [Const(_step_name(arg)), arg]) for arg in call.args])
    union = call.callee == "make_union"
    cls = module.FeatureUnion if union else module.Pipeline
    return Estimator(cls, {"transformer_list" if union else "steps": pairs}, known=not call.open_ended)


def _step_name(value: Value) -> str:
    return (type_name(value) or "step").lower()


@models("sklearn.compose.make_column_transformer")
def _make_column_transformer(call: Call) -> Value:
    from sklearn.compose import ColumnTransformer

    triples: list[Value] = []
    for position, arg in enumerate(call.args):
        if not isinstance(arg, Items) or arg.items is None or len(arg.items) != 2:
            return Estimator(ColumnTransformer, {}, known=False)
        part, columns = arg.items
        if isinstance(part, Items):
            name = type_name(part)
            message = (
                "All estimators should implement fit and transform, or can be 'drop' or 'passthrough' specifiers. "
                f"'{constant_list(part)}' (type <class '{name}'>) doesn't."
            )
            raise api_fault(message, "TypeError", second="ValueError")
        triples.append(Items("tuple", [Const(f"{_step_name(part)}-{position}"), part, columns]))
    return Estimator(ColumnTransformer, {"transformers": Items("list", triples), **call.kwargs})


# Pipelines


def _checked_steps(estimator: Estimator) -> list[tuple[str, Value]] | None:
    """Steps of a pipeline.

    Raises:
        Fault: if a step in the middle cannot transform, or a class stands where an object should.
    """
    steps = steps_of(estimator)
    raw = estimator.params.get("steps")
    if steps is None:
        first = raw.items[0] if isinstance(raw, Items) and raw.items else None
        if isinstance(first, Estimator):
            raise api_fault(f"cannot unpack non-iterable {first.cls.__name__} object", "TypeError")
        return None
    names = [name for name, _ in steps]
    if len(set(names)) != len(names) and estimator.known and "?" not in names and not _generated(steps):
        raise api_fault(f"Names provided are not unique: {names}", "ValueError")
    for position, (_, part) in enumerate(steps):
        made = estimator_class(part)
        if made is not None:
            message = (
                f"Expected an estimator instance ({made.__name__}()), got estimator class instead ({made.__name__})."
            )
            raise api_fault(message, "TypeError", second="ValueError")
        last = position == len(steps) - 1
        if isinstance(part, Estimator) and not last and not _transforms(part):
            message = (
                "All intermediate steps should be transformers and implement fit and transform or be the string "
                f"'passthrough' '{part.cls.__name__}()' (type <class '{part.cls.__module__}.{part.cls.__name__}'>) doesn't"
            )
            raise api_fault(message, "TypeError", second="ValueError")
        if isinstance(part, Items | Dict) and last:
            message = f"Last step of Pipeline should implement fit or be the string 'passthrough'. '{type_name(part)}' doesn't"
            raise api_fault(message, "TypeError", second="ValueError")
    return steps


def _generated(steps: list[tuple[str, Value]]) -> bool:
    """Whether the names were made up by ``make_pipeline``, which numbers equal ones."""
    return all(name == _step_name(part) for name, part in steps)


def _transforms(part: Estimator) -> bool:
    return hasattr(part.cls, "transform") or hasattr(part.cls, "fit_transform")


@fitter("Pipeline")
def _fit_pipeline(call: Call, pipeline: Estimator, data: Value | None, target: Value | None) -> None:
    for keyword in call.kwargs:
        if keyword not in ("X", "y") and "__" not in keyword and call.callee == "fit":
            message = (
                f"Pipeline.fit does not accept the {keyword} parameter. You can pass parameters to specific steps of your "
                f"pipeline using the stepname__parameter format, e.g. `Pipeline.fit(X, y, logisticregression__{keyword}="
                f"{keyword})`."
            )
            raise api_fault(message, "ValueError", second="TypeError")
    steps = _checked_steps(pipeline)
    if steps is None:
        pipeline.fit, pipeline.known = Fit(), False
        return
    current = data
    for _, part in steps[:-1]:
        current = _through(call, part, current, target, fitting=True)
    last = steps[-1][1] if steps else None
    if isinstance(last, Estimator):
        fit(call, last, current, target)
    remember(pipeline, features_of(call.interpreter, data), target_of(call.interpreter, target))


def _through(call: Call, part: Value, data: Value | None, target: Value | None, *, fitting: bool) -> Value | None:
    """One step of a pipeline."""
    if constant(part, MISSING) in _SKIPPED:
        return data
    if not isinstance(part, Estimator):
        return UNKNOWN
    if fitting:
        fit(call, part, data, target)
    return transform(call, part, data, just_fitted=fitting)


def _pipeline_features(call: Call, pipeline: Estimator, data: Value | None) -> Value | None:
    current = data
    for _, part in (steps_of(pipeline) or [])[:-1]:
        current = _through(call, part, current, None, fitting=False)
    return current


def _predict_pipeline(call: Call, pipeline: Estimator, data: Value | None, method: str) -> Value:
    steps = steps_of(pipeline)
    last = steps[-1][1] if steps else None
    if not isinstance(last, Estimator) or last.fit is None:
        return UNKNOWN
    return predict(call, last, _pipeline_features(call, pipeline, data), method)


PREDICTORS["Pipeline"] = _predict_pipeline


@transformer("Pipeline")
def _transform_pipeline(call: Call, pipeline: Estimator, data: Value | None, just_fitted: bool) -> Value:
    steps = steps_of(pipeline)
    if steps is None:
        return UNKNOWN
    current = data
    for _, part in steps:
        if constant(part, MISSING) in _SKIPPED:
            continue
        if not isinstance(part, Estimator):
            return UNKNOWN
        current = transform(call, part, current, just_fitted=just_fitted)
    return current or UNKNOWN


# Columns


def _columns_wanted(frame: Frame, wanted: Value) -> list[Any] | str | None:
    """Column names that a part of a column transformer takes; a plain string stays one; None if unknown."""
    single = constant(wanted)
    if isinstance(single, str):
        return single
    if isinstance(wanted, Instance) and wanted.cls.__name__ == "make_column_selector":
        include = _dtype_names(wanted.facts.get("dtype_include"))
        exclude = _dtype_names(wanted.facts.get("dtype_exclude"))
        if not frame.complete or "pattern" in wanted.facts or None in (include or []) or None in (exclude or []):
            return None
        return [k for k, c in frame.columns.items() if _selected(c.kind, include, exclude)]
    names = constant_list(wanted)
    if names is None:
        return None
    if names and all(isinstance(name, int) and not isinstance(name, bool) for name in names):
        known = list(frame.columns)
        return [known[n] for n in names if n < len(known)] if frame.complete else None
    return names


@fitter("ColumnTransformer")
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
        message = (
            "All estimators should implement fit and transform, or can be 'drop' or 'passthrough' specifiers. "
            f"'{made.__name__}' (type <class 'type'>) doesn't."
        )
        raise api_fault(message, "TypeError", second="ValueError")
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
        shown = "{" + ", ".join(sorted(map(repr, lost))) + "}"
        raise data_fault(
            f"Some column names are not columns of the dataframe: {shown}", "ValueError", second="KeyError"
        )
    if isinstance(part, Estimator) and columns:
        fit(call, part, _taken(data, columns), target)
    return {columns} if isinstance(columns, str) else set(columns)


def _taken(frame: Frame, columns: list[Any] | str) -> Value:
    if isinstance(columns, str):
        return Series(frame.columns.get(columns, frame.rest), frame.rows, columns, frame.origin)
    return select(frame, columns)


@transformer("ColumnTransformer")
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
        shown = "{" + ", ".join(sorted(map(repr, lost))) + "}"
        raise data_fault(f"columns are missing: {shown}", "ValueError", second="KeyError")


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


@fitter("FeatureUnion")
def _fit_union(call: Call, estimator: Estimator, data: Value | None, target: Value | None) -> None:
    for _, part in steps_of(estimator) or []:
        if isinstance(part, Estimator):
            fit(call, part, data, target)
    remember(estimator, features_of(call.interpreter, data), None)


@transformer("FeatureUnion")
def _transform_union(call: Call, estimator: Estimator, data: Value | None, just_fitted: bool) -> Value:
    outputs: list[Array] = []
    rows = features_of(call.interpreter, data)
    for _, part in steps_of(estimator) or []:
        result = transform(call, part, data, just_fitted=just_fitted) if isinstance(part, Estimator) else UNKNOWN
        if not isinstance(result, Array) or result.shape is None or len(result.shape) != 2:
            return Array(Cells(), (rows.rows if rows else None, None), sparse=None)
        outputs.append(result)
    if not outputs:
        return UNKNOWN
    widths = [o.shape[1] for o in outputs if o.shape is not None]
    width = sum(widths) if None not in widths else None  # type: ignore[arg-type]
    sparse = True if any(o.sparse for o in outputs) else (None if any(o.sparse is None for o in outputs) else False)
    bases = tuple(o.basis for o in outputs)
    merged = merge_cells([o.cells for o in outputs])
    return Array(merged, (outputs[0].rows, width), sparse, origin=outputs[0].origin, basis=hash(bases), density=0.01)


# Searches and cross-validation


@contextmanager
def all_fits(folds: int | None) -> Iterator[None]:
    """Faults inside cross-validation come out as one ValueError that says that all fits failed."""
    try:
        yield
    except Fault as fault:
        if fault.check is Check.COMPUTE_BUDGET:
            raise
        count = folds or 5
        rule = "-" * 80
        message = (
            f"\nAll the {count} fits failed.\nIt is very likely that your model is misconfigured.\nYou can try to debug the "
            f"error by setting error_score='raise'.\n\nBelow are more details about the failures:\n{rule}\n{count} fits "
            f"failed with the following error:\n{fault.exception}: {fault.message}\n"
        )
        raise Fault(fault.check, "ValueError", message, second=fault.exception, reason=fault.reason) from None


def folds_of(value: Value | None) -> int | None:
    """Number of folds of a ``cv`` argument."""
    found = constant(value, None)
    if isinstance(found, int):
        return found
    if isinstance(value, Instance):
        return constant(value.facts.get("n_splits"), 5) if not isinstance(value.facts.get("n_splits"), Unknown) else 5
    return 5


@fitter("GridSearchCV", "RandomizedSearchCV", "HalvingGridSearchCV")
def _fit_search(call: Call, search: Estimator, data: Value | None, target: Value | None) -> None:
    inner = search.params.get("estimator")
    made = estimator_class(inner) if inner is not None else None
    if made is not None:
        raise api_fault(f"{made.__name__}.get_params() missing 1 required positional argument: 'self'")
    grid = search.params.get("param_grid") or search.params.get("param_distributions")
    if not isinstance(inner, Estimator):
        search.fit, search.known = Fit(), False
        return
    candidates = _check_grid(inner, grid, search)
    folds = folds_of(search.params.get("cv"))
    best = inner.clone()
    if isinstance(grid, Dict) and grid.items is not None:
        for name, values in grid.items.items():
            first = values.items[0] if isinstance(values, Items) and values.items else UNKNOWN
            if "__" not in str(name):
                best.params[str(name)] = first
    with all_fits((folds or 5) * (candidates or 1)):
        _check_scoring(search.params.get("scoring"))
        with call.interpreter.repeated(round((candidates or 5) * (folds or 5) * 0.8) + 1):
            fit(call, best, data, target)
    search.fit = dataclasses.replace(best.fit) if best.fit is not None else Fit()
    search.fit.parts = {"best": best}


def _check_grid(inner: Estimator, grid: Value | None, search: Estimator) -> int | None:
    """Number of candidates.

    Raises:
        Fault: ValueError for a parameter that the estimator does not have, TypeError for a value that is no list.
    """
    from wmrl_gym.world_models.static_analysis import installed

    if not isinstance(grid, Dict) or grid.items is None:
        return None
    signature = installed.signature(inner.cls)
    count = 1
    for name, values in grid.items.items():
        steps = dict(steps_of(inner) or [])
        head = str(name).partition("__")[0]
        known = signature is None or head in signature.parameters or head in steps or head == "estimator"
        if not known and inner.known:
            names = sorted(signature.parameters) if signature is not None else []
            message = f"Invalid parameter '{head}' for estimator {inner.cls.__name__}(). Valid parameters are: {names}."
            raise api_fault(message, "ValueError", second="TypeError")
        single = constant(values, MISSING)
        if single is not MISSING and not isinstance(single, tuple):
            message = (
                f"Parameter grid for parameter '{name}' needs to be a list or a numpy array, but got {single!r} (of type "
                f"{type(single).__name__}) instead. Single values need to be wrapped in a list with one element."
            )
            raise api_fault(message, "TypeError", second="ValueError")
        count *= len(values.items) if isinstance(values, Items) and values.items is not None else 3
    if "param_distributions" in search.params:
        wanted = search.parameter("n_iter", 10)
        return min(count, wanted) if isinstance(wanted, int) else 10
    return count


def _check_scoring(value: Value | None) -> None:
    from sklearn.metrics import get_scorer_names

    name = constant(value, None)
    if isinstance(name, str) and name not in get_scorer_names():
        message = f"The 'scoring' parameter must be a str among the scorer names. Got '{name}' instead."
        raise api_fault(message, "InvalidParameterError", second="ValueError", bases=("ValueError", "TypeError"))


def _predict_search(call: Call, search: Estimator, data: Value | None, method: str) -> Value:
    best = search.fit.parts.get("best") if search.fit is not None else None
    if not isinstance(best, Estimator):
        return UNKNOWN
    return _retold(predict(call, best, data, method), search)


def _retold(result: Value, owner: Estimator) -> Value:
    """The predictions are the composite's, which matters for their quality."""
    if not isinstance(result, Array):
        return result
    renamed = tuple(dataclasses.replace(p, tags=p.tags | {f"in:{owner.cls.__name__}"}) for p in result.cells.predictors)
    return dataclasses.replace(result, cells=dataclasses.replace(result.cells, predictors=renamed))


for _name in ("GridSearchCV", "RandomizedSearchCV", "HalvingGridSearchCV"):
    PREDICTORS[_name] = _predict_search

# Ensembles of given estimators


def _members(estimator: Estimator) -> list[Value] | None:
    raw = estimator.params.get("estimators")
    if isinstance(raw, Items) and raw.items and isinstance(raw.items[0], Estimator):
        message = (
            "Invalid 'estimators' attribute, 'estimators' should be a non-empty list of (string, estimator) tuples."
        )
        raise api_fault(message, "ValueError", second="TypeError")
    steps = steps_of(estimator)
    return None if steps is None else [part for _, part in steps]


_WRAPPERS = {
    "OneVsRestClassifier": 1,
    "OneVsOneClassifier": 1,
    "CalibratedClassifierCV": 5,
    "MultiOutputRegressor": 1,
    "MultiOutputClassifier": 1,
    "SelfTrainingClassifier": 3,
}


@fitter("VotingClassifier", "VotingRegressor", "StackingClassifier", "StackingRegressor", *_WRAPPERS)
def _fit_members(call: Call, estimator: Estimator, data: Value | None, target: Value | None) -> None:
    own = estimator.cls.__name__
    members = [estimator.params.get("estimator", UNKNOWN)] if own in _WRAPPERS else _members(estimator)
    if members is None:
        estimator.fit, estimator.known = Fit(), False
        return
    rounds = _WRAPPERS.get(own, 6 if own.startswith("Stacking") else 1)
    fitted: list[Estimator] = []
    for member in members:
        made = estimator_class(member)
        if made is not None:
            raise api_fault(
                f"The estimator {made.__name__} should be an instance, not a class.", "ValueError", second="TypeError"
            )
        if not isinstance(member, Estimator):
            continue
        if own.endswith("Regressor") and not own.startswith("Multi") and "Classifier" in member.cls.__name__:
            raise api_fault(f"The estimator {member.cls.__name__} should be a regressor.", "ValueError")
        twin = member.clone()
        with call.interpreter.repeated(rounds):
            fit(call, twin, data, _column_target(own, target))
        fitted.append(twin)
    remember(estimator, features_of(call.interpreter, data), target_of(call.interpreter, target))
    if estimator.fit is not None:
        estimator.fit.parts = {str(i): twin for i, twin in enumerate(fitted)}


def _column_target(own: str, target: Value | None) -> Value | None:
    """Wrappers for several outputs hand one of them to each member."""
    if own.startswith("MultiOutput") and isinstance(target, Frame):
        return Series(target.cells(), target.rows)
    return target


def _predict_members(call: Call, estimator: Estimator, data: Value | None, method: str) -> Value:
    members = [m for m in (estimator.fit.parts.values() if estimator.fit else []) if isinstance(m, Estimator)]
    soft = method == "predict_proba" and estimator.cls.__name__.startswith(("Voting", "Stacking"))
    for member in members:
        lacking = unavailable(member, "predict_proba") if soft and estimator.cls.__name__.startswith("Voting") else None
        if lacking is not None:
            raise api_fault(lacking, "AttributeError")
        predict(call, member, data, "predict")
    features = features_of(call.interpreter, data)
    result = predictions(estimator, features, method)
    if features is None:
        return result
    return result


for _name in ("VotingClassifier", "VotingRegressor", "StackingClassifier", "StackingRegressor", *_WRAPPERS):
    PREDICTORS[_name] = _predict_members


def _fit_homogeneous(call: Call, estimator: Estimator, data: Value | None, target: Value | None) -> None:
    """Bagging and boosting of a given estimator: checked as the inner one, costed as many of it."""
    inner = estimator.params.get("estimator")
    if not isinstance(inner, Estimator):
        fit_plainly(call, estimator, data, target)
        return
    rounds = estimator.parameter("n_estimators", 10 if "Bagging" in estimator.cls.__name__ else 50)
    with call.interpreter.repeated(rounds if isinstance(rounds, int) else 10):
        fit(call, inner.clone(), data, target)
    remember(estimator, features_of(call.interpreter, data), target_of(call.interpreter, target))


for _name in ("BaggingClassifier", "BaggingRegressor", "AdaBoostClassifier", "AdaBoostRegressor"):
    FITTERS[_name] = _fit_homogeneous


@fitter("TransformedTargetRegressor")
def _fit_transformed(call: Call, estimator: Estimator, data: Value | None, target: Value | None) -> None:
    inner = estimator.params.get("regressor")
    if isinstance(inner, Estimator):
        twin = inner.clone()
        fit(call, twin, data, target)
        estimator.fit = dataclasses.replace(twin.fit) if twin.fit is not None else Fit()
        estimator.fit.parts = {"best": twin}
    else:
        remember(estimator, features_of(call.interpreter, data), target_of(call.interpreter, target))


PREDICTORS["TransformedTargetRegressor"] = _predict_search


def require_estimator(value: Value | None) -> Estimator | None:
    """An estimator argument.

    Raises:
        Fault: TypeError if a class stands where an object should.
    """
    made = estimator_class(value) if value is not None else None
    if made is not None:
        message = f"{made.__name__}.get_params() missing 1 required positional argument: 'self'"
        raise runtime_fault(message, "TypeError", second="ValueError")
    return value if isinstance(value, Estimator) else None
