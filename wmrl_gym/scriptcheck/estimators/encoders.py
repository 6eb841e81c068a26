"""Encoders of categories and labels."""

from __future__ import annotations

import dataclasses

from wmrl_gym.scriptcheck import cost
from wmrl_gym.scriptcheck.cells import Cells
from wmrl_gym.scriptcheck.estimators.features import (
    Features,
    check_against_fit,
    check_dimensions,
    features_of,
    target_of,
)
from wmrl_gym.scriptcheck.estimators.fitting import next_basis, remember
from wmrl_gym.scriptcheck.estimators.transformers import array_like
from wmrl_gym.scriptcheck.faults import shape_fault
from wmrl_gym.scriptcheck.models import Call, Models
from wmrl_gym.scriptcheck.values.data import Array
from wmrl_gym.scriptcheck.values.estimators import Estimator
from wmrl_gym.scriptcheck.values.objects import constant
from wmrl_gym.scriptcheck.values.scalars import UNKNOWN, Value

MODELS = Models()


def _categories(features: Features) -> int | None:
    counts = [c.unique + bool(c.missing) if c.unique is not None else None for c in features.columns.values()]
    if not features.is_frame or not features.complete or None in counts or not counts:
        return None
    return sum(counts)  # type: ignore[arg-type]


@MODELS.fitter("OneHotEncoder", "OrdinalEncoder", "TargetEncoder")
def _fit_encoder(call: Call, estimator: Estimator, data: Value | None, target: Value | None) -> None:
    features = features_of(call.interpreter, data)
    if features is not None:
        check_dimensions(features, estimator.cls)
    described = target_of(call.interpreter, target)
    remember(estimator, features, described)
    if features is not None and estimator.fit is not None:
        plain = {"drop", "min_frequency", "max_categories", "categories"} & set(estimator.params)
        estimator.fit.parts["categories"] = None if plain else _categories(features)
        estimator.fit.basis = next_basis()


@MODELS.transformer("OneHotEncoder")
def _one_hot(call: Call, estimator: Estimator, data: Value | None, just_fitted: bool) -> Value:
    features = _encoder_input(call, estimator, data, just_fitted)
    if features is None or estimator.fit is None:
        return UNKNOWN
    width = estimator.fit.parts.get("categories")
    sparse = estimator.parameter("sparse_output", True) is not False
    inputs = estimator.fit.width
    cells = Cells(
        "float",
        False,
        negative=False,
        fractional=False,
        sources=features.cells.sources,
        tags=features.cells.tags | {"onehot"},
    )
    if not sparse and width is not None and features.rows is not None:
        cost.allocate(call, width * features.rows * 8 / 2**20)
    density = inputs / width if inputs and width else None
    return array_like(features, cells, width, sparse=sparse, basis=estimator.fit.basis, density=density)


@MODELS.transformer("OrdinalEncoder", "TargetEncoder")
def _ordinal(call: Call, estimator: Estimator, data: Value | None, just_fitted: bool) -> Value:
    features = _encoder_input(call, estimator, data, just_fitted)
    if features is None:
        return UNKNOWN
    missing = features.cells.missing
    if "encoded_missing_value" in estimator.params or estimator.cls.__name__ == "TargetEncoder":
        missing = False
    unknown = constant(estimator.params.get("unknown_value"), 0)
    negative = isinstance(unknown, int) and unknown < 0 and not just_fitted
    cells = features.cells.derived(
        kind="float", missing=missing, fractional=False, negative=negative and None, unique=None
    )
    return array_like(features, cells.tagged("ordinal"), features.width)


def _encoder_input(call: Call, estimator: Estimator, data: Value | None, just_fitted: bool) -> Features | None:
    features = features_of(call.interpreter, data)
    if features is None or just_fitted or estimator.fit is None:
        return features
    check_dimensions(features, estimator.cls)
    check_against_fit(dataclasses.replace(features, basis=None), estimator.fit, estimator.cls)
    if estimator.parameter("handle_unknown", "error") == "error" and estimator.cls.__name__ != "TargetEncoder":
        for position, (name, cells) in enumerate(features.columns.items()):
            before = estimator.fit.columns.get(name)
            if before is not None and new_values(before, cells, estimator.fit.rows, features.rows):
                example = cells.examples[0] if cells.examples else "?"
                message = f"Found unknown categories ['{example}'] in column {position} during transform"
                raise shape_fault(message, second="KeyError", confidence=0.8)
    return features


def new_values(before: Cells, now: Cells, rows_before: int | None, rows_now: int | None) -> bool:
    """Whether a column certainly, or as good as certainly, has values that it did not have before."""
    if before.origin == now.origin and before.origin is not None and rows_before == rows_now:
        return False
    if before.unique is None or now.unique is None or before.origin is None or now.origin is None:
        return False
    if now.origin[0] != before.origin[0] and now.unique > before.unique:
        return True
    return rows_before is not None and before.unique > 0.3 * rows_before and now.unique > 5


@MODELS.fitter("LabelEncoder", "LabelBinarizer")
def _fit_labels(call: Call, estimator: Estimator, data: Value | None, target: Value | None) -> None:
    described = target_of(call.interpreter, data)
    if described is not None and described.outputs is not None and described.outputs > 1:
        message = f"y should be a 1d array, got an array of shape ({described.rows}, {described.outputs}) instead."
        raise shape_fault(message, second="TypeError")
    remember(estimator, None, described)
    if estimator.fit is not None and described is not None:
        estimator.fit.rows = described.rows


@MODELS.transformer("LabelEncoder")
def _labels(call: Call, estimator: Estimator, data: Value | None, just_fitted: bool) -> Value:
    described = target_of(call.interpreter, data)
    if described is None:
        return UNKNOWN
    before = estimator.fit.target if estimator.fit is not None else Cells()
    rows = estimator.fit.rows if estimator.fit is not None else None
    if not just_fitted and new_values(before, described.cells, rows, described.rows):
        example = described.cells.examples[0] if described.cells.examples else "?"
        raise shape_fault(f"y contains previously unseen labels: '{example}'", second="KeyError", confidence=0.8)
    cells = described.cells.derived(kind="int", missing=False, negative=False, fractional=False, unique=before.unique)
    return Array(cells.tagged("ordinal"), (described.rows,), origin=getattr(data, "origin", None))
