"""What scikit-learn's transformers make of their input."""

from __future__ import annotations

import dataclasses

from wmrl_gym.scriptcheck.cells import Cells
from wmrl_gym.scriptcheck.estimators.features import (
    Features,
    check_against_fit,
    check_dimensions,
    check_features,
    features_of,
    text_in,
)
from wmrl_gym.scriptcheck.estimators.fitting import check_again, remember
from wmrl_gym.scriptcheck.faults import Fault, shape_fault
from wmrl_gym.scriptcheck.language.builtin_functions import apply
from wmrl_gym.scriptcheck.models import Call, Models
from wmrl_gym.scriptcheck.values.data import Array
from wmrl_gym.scriptcheck.values.estimators import Estimator, Fit
from wmrl_gym.scriptcheck.values.objects import Function, Real
from wmrl_gym.scriptcheck.values.scalars import UNKNOWN, Unknown, Value

MODELS = Models()


def checked_features(call: Call, estimator: Estimator, data: Value | None, just_fitted: bool) -> Features | None:
    """Describe what is transformed, checked against what was fitted."""
    features = features_of(call.interpreter, data)
    if features is not None and not just_fitted:
        check_again(features, estimator)
    return features


def array_like(features: Features, cells: Cells, width: int | None, **facts: object) -> Array:
    """An array of as many rows as the features have."""
    made = Array(cells, (features.rows, width), sparse=False, origin=features.origin)
    return dataclasses.replace(made, **facts)  # type: ignore[arg-type]


# Scaling


@MODELS.transformer(
    "StandardScaler",
    "MinMaxScaler",
    "MaxAbsScaler",
    "RobustScaler",
    "Normalizer",
    "PowerTransformer",
    "QuantileTransformer",
)
def _scale(call: Call, estimator: Estimator, data: Value | None, just_fitted: bool) -> Value:
    features = checked_features(call, estimator, data, just_fitted)
    if features is None:
        return UNKNOWN
    centres = estimator.cls.__name__ == "StandardScaler" and estimator.parameter("with_mean", True)
    if features.sparse and centres:
        raise _cannot_center()
    # A standardised column has values on both sides of zero.
    negative = True if centres else (False if estimator.cls.__name__ == "MinMaxScaler" else None)
    cells = features.cells.derived(kind="float", negative=negative, unique=None, fractional=True).tagged("scaled")
    return array_like(features, cells, features.width, sparse=features.sparse, basis=features.basis)


def _cannot_center() -> Fault:
    message = (
        "Cannot center sparse matrices: pass `with_mean=False` instead. See docstring for motivation and alternatives."
    )
    return shape_fault(message, second="TypeError")


@MODELS.fitter("StandardScaler")
def _fit_scaler(call: Call, estimator: Estimator, data: Value | None, target: Value | None) -> None:
    features = features_of(call.interpreter, data)
    if features is not None:
        check_features(features, estimator.cls)
        if features.sparse and estimator.parameter("with_mean", True):
            raise _cannot_center()
    remember(estimator, features, None)


# Missing values


@MODELS.fitter("SimpleImputer")
def _fit_imputer(call: Call, estimator: Estimator, data: Value | None, target: Value | None) -> None:
    features = features_of(call.interpreter, data)
    if features is not None:
        check_dimensions(features, estimator.cls)
        strategy = estimator.parameter("strategy", "mean")
        text = next((c for c in features.columns.values() if text_in(c)), None)
        if text is None and not features.is_frame and text_in(features.cells):
            text = features.cells
        if strategy in ("mean", "median") and text is not None:
            example = text.examples[0] if text.examples else "a"
            message = (
                f"Cannot use {strategy} strategy with non-numeric data:\ncould not convert string to float: '{example}'"
            )
            raise shape_fault(message, second="TypeError")
    remember(estimator, features, None)


@MODELS.transformer("SimpleImputer", "KNNImputer", "IterativeImputer")
def _impute(call: Call, estimator: Estimator, data: Value | None, just_fitted: bool) -> Value:
    features = features_of(call.interpreter, data)
    if features is None:
        return UNKNOWN
    if not just_fitted and estimator.fit is not None:
        check_dimensions(features, estimator.cls)
        check_against_fit(features, estimator.fit, estimator.cls)
    kind = "float" if features.cells.numeric else features.cells.kind
    width = features.width if not estimator.parameter("add_indicator", False) else None
    cells = features.cells.derived(kind=kind, missing=False, unique=None, examples=features.cells.examples).tagged(
        "imputed"
    )
    return array_like(features, cells, width, sparse=features.sparse)


# Kinds kept


@MODELS.transformer("TfidfTransformer", "Binarizer", "VarianceThreshold")
def _same_kind(call: Call, estimator: Estimator, data: Value | None, just_fitted: bool) -> Value:
    features = checked_features(call, estimator, data, just_fitted)
    if features is None:
        return UNKNOWN
    width = None if estimator.cls.__name__ == "VarianceThreshold" else features.width
    cells = features.cells.derived(kind="float", unique=None)
    basis = features.basis if width == features.width else None
    return array_like(features, cells, width, sparse=features.sparse, basis=basis)


# Functions


@MODELS.transformer("FunctionTransformer")
def _function(call: Call, estimator: Estimator, data: Value | None, just_fitted: bool) -> Value:
    function = estimator.params.get("func")
    if isinstance(function, Function | Real) and data is not None and not isinstance(data, Unknown):
        return apply(call, function, data)
    return data if function is None and data is not None else UNKNOWN


@MODELS.fitter("FunctionTransformer")
def _fit_function(call: Call, estimator: Estimator, data: Value | None, target: Value | None) -> None:
    estimator.fit = Fit()
