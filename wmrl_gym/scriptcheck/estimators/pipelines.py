"""Estimators made of estimators: pipelines, column transformers, searches, ensembles of given models."""

from __future__ import annotations

from wmrl_gym.scriptcheck.cells import Cells, merge_cells
from wmrl_gym.scriptcheck.estimators.estimators import estimator_class, steps_of
from wmrl_gym.scriptcheck.estimators.features import features_of, target_of
from wmrl_gym.scriptcheck.estimators.fitting import (
    fit,
    predict,
    remember,
    transform,
)
from wmrl_gym.scriptcheck.faults import api_fault
from wmrl_gym.scriptcheck.language.operators import type_name
from wmrl_gym.scriptcheck.models import Call, Models
from wmrl_gym.scriptcheck.values.data import Array
from wmrl_gym.scriptcheck.values.estimators import Estimator, Fit
from wmrl_gym.scriptcheck.values.objects import Dict, Items, constant
from wmrl_gym.scriptcheck.values.scalars import MISSING, UNKNOWN, Const, Value

MODELS = Models()

_SKIPPED = ("passthrough", "drop", None)

# Making


@MODELS.function("make_pipeline", "make_union", of="sklearn.pipeline")
def _make_pipeline(call: Call) -> Value:
    import sklearn.pipeline as module

    for keyword in call.kwargs:
        if keyword not in ("memory", "verbose", "transform_input", "n_jobs", "verbose_feature_names_out"):
            raise api_fault(f"{call.callee}() got an unexpected keyword argument '{keyword}'")
    pairs = Items("list", [Items("tuple", [Const(step_name(arg)), arg]) for arg in call.args])
    union = call.callee == "make_union"
    cls = module.FeatureUnion if union else module.Pipeline
    return Estimator(cls, {"transformer_list" if union else "steps": pairs}, known=not call.open_ended)


def step_name(value: Value) -> str:
    """The name that scikit-learn makes up for a step."""
    return (type_name(value) or "step").lower()


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
                f"'passthrough' '{part.cls.__name__}()' (type <class "
                f"'{part.cls.__module__}.{part.cls.__name__}'>) doesn't"
            )
            raise api_fault(message, "TypeError", second="ValueError")
        if isinstance(part, Items | Dict) and last:
            message = (
                "Last step of Pipeline should implement fit or be the string 'passthrough'. "
                f"'{type_name(part)}' doesn't"
            )
            raise api_fault(message, "TypeError", second="ValueError")
    return steps


def _generated(steps: list[tuple[str, Value]]) -> bool:
    """Whether the names were made up by ``make_pipeline``, which numbers equal ones."""
    return all(name == step_name(part) for name, part in steps)


def _transforms(part: Estimator) -> bool:
    return hasattr(part.cls, "transform") or hasattr(part.cls, "fit_transform")


@MODELS.fitter("Pipeline")
def _fit_pipeline(call: Call, pipeline: Estimator, data: Value | None, target: Value | None) -> None:
    for keyword in call.kwargs:
        if keyword not in ("X", "y") and "__" not in keyword and call.callee == "fit":
            message = (
                f"Pipeline.fit does not accept the {keyword} parameter. You can pass parameters to specific steps of "
                "your pipeline using the stepname__parameter format, e.g. `Pipeline.fit(X, y, "
                f"logisticregression__{keyword}={keyword})`."
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


@MODELS.predictor("Pipeline")
def _predict_pipeline(call: Call, pipeline: Estimator, data: Value | None, method: str) -> Value:
    steps = steps_of(pipeline)
    last = steps[-1][1] if steps else None
    if not isinstance(last, Estimator) or last.fit is None:
        return UNKNOWN
    return predict(call, last, _pipeline_features(call, pipeline, data), method)


@MODELS.transformer("Pipeline")
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


# Unions


@MODELS.fitter("FeatureUnion")
def _fit_union(call: Call, estimator: Estimator, data: Value | None, target: Value | None) -> None:
    for _, part in steps_of(estimator) or []:
        if isinstance(part, Estimator):
            fit(call, part, data, target)
    remember(estimator, features_of(call.interpreter, data), None)


@MODELS.transformer("FeatureUnion")
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
