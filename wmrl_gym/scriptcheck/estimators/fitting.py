"""Fitting, transforming and predicting: the checks, what is remembered, and what comes out."""

from __future__ import annotations

import dataclasses
import itertools

from wmrl_gym.scriptcheck import cost
from wmrl_gym.scriptcheck.cells import Cells, Predictor
from wmrl_gym.scriptcheck.estimators.features import (
    Features,
    Target,
    check_against_fit,
    check_features,
    check_target,
    features_of,
    tags,
    target_of,
)
from wmrl_gym.scriptcheck.estimators.parameters import check_parameters
from wmrl_gym.scriptcheck.faults import shape_fault
from wmrl_gym.scriptcheck.models import Call
from wmrl_gym.scriptcheck.values.data import Array
from wmrl_gym.scriptcheck.values.estimators import Estimator, Fit
from wmrl_gym.scriptcheck.values.scalars import UNKNOWN, Value

_basis = itertools.count(1)


def next_basis() -> int:
    """A new identity for a set of columns whose number is not known."""
    return next(_basis)


def fit(call: Call, estimator: Estimator, data: Value | None, target: Value | None) -> None:
    """``estimator.fit(data, target)``.

    Raises:
        Fault: whatever scikit-learn would raise about parameters, features or target.
    """
    check_parameters(estimator)
    own = call.interpreter.models.fitters.get(estimator.cls.__name__)
    if own is not None:
        own(call, estimator, data, target)
        return
    fit_plainly(call, estimator, data, target)


def fit_plainly(call: Call, estimator: Estimator, data: Value | None, target: Value | None) -> None:
    """Fit an estimator that is not made of others."""
    features = features_of(call.interpreter, data)
    described = target_of(call.interpreter, target)
    if features is not None:
        check_features(features, estimator.cls)
    if described is not None:
        check_target(described, features, estimator)
        _check_classes(estimator, described)
    elif tags(estimator.cls) is not None and target is None and _needs_target(estimator.cls):
        message = f"{estimator.cls.__name__} requires y to be passed, but the target y is None."
        raise shape_fault(message, second="TypeError")
    cost.spend_fit(call, estimator, features, described)
    remember(estimator, features, described)


def _needs_target(cls: type) -> bool:
    found = tags(cls)
    return bool(found.target_tags.required and found.estimator_type in ("regressor", "classifier"))


def _check_classes(estimator: Estimator, target: Target) -> None:
    solver = estimator.parameter("solver", None)
    classes = target.cells.unique
    if estimator.cls.__name__ == "LogisticRegression" and solver == "liblinear" and classes is not None and classes > 2:
        message = (
            "The 'liblinear' solver does not support multiclass classification (n_classes >= 3). Either use another "
            "solver or wrap the estimator in a OneVsRestClassifier to keep applying a one-versus-rest scheme."
        )
        raise shape_fault(message, second="InvalidParameterError")
    least = estimator.parameter("n_neighbors", None)
    if isinstance(least, int) and target.rows is not None and least > target.rows:
        estimator.known = False


def remember(estimator: Estimator, features: Features | None, target: Target | None) -> None:
    """Store what an estimator was fitted on."""
    found = features or Features(Cells(), ndim=None, sparse=None, complete=False)
    estimator.fit = Fit(
        names=found.names,
        width=found.width,
        rows=found.rows,
        features=found.cells,
        target=target.cells if target is not None else Cells(),
        outputs=target.outputs if target is not None else None,
        columns=found.columns,
        dummies=found.dummies,
        complete=found.complete,
        is_frame=found.is_frame,
        basis=found.basis,
    )


def transform(call: Call, estimator: Estimator, data: Value | None, just_fitted: bool = False) -> Value:
    """``estimator.transform(data)``.

    Args:
        call: the call it is part of.
        estimator: a fitted transformer.
        data: what to transform.
        just_fitted: whether it was fitted on the very same data, which then needs no second check.
    """
    own = call.interpreter.models.transformers.get(estimator.cls.__name__)
    if own is not None:
        return own(call, estimator, data, just_fitted)
    features = features_of(call.interpreter, data)
    if features is None:
        return UNKNOWN
    if not just_fitted:
        check_again(features, estimator)
    return Array(features.cells.derived(unique=None), (features.rows, None), sparse=None, origin=features.origin)


def check_again(features: Features, estimator: Estimator) -> None:
    """What transforming and predicting check: first names, then the values, then their number."""
    if estimator.fit is not None and features.is_frame and estimator.fit.is_frame:
        check_against_fit(dataclasses.replace(features, width=None, basis=None), estimator.fit, estimator.cls)
    check_features(features, estimator.cls)
    if estimator.fit is not None:
        check_against_fit(features, estimator.fit, estimator.cls)


def predict(call: Call, estimator: Estimator, data: Value | None, method: str) -> Value:
    """``estimator.predict(data)`` and its kin."""
    own = call.interpreter.models.predictors.get(estimator.cls.__name__)
    if own is not None:
        return own(call, estimator, data, method)
    features = features_of(call.interpreter, data)
    if features is not None:
        check_again(features, estimator)
    cost.spend_predict(call, estimator, features)
    _check_neighbours(estimator)
    return predictions(estimator, features, method)


def _check_neighbours(estimator: Estimator) -> None:
    wanted, rows = estimator.parameter("n_neighbors", 5), estimator.fit.rows if estimator.fit else None
    if (
        estimator.cls.__name__.startswith("KNeighbors")
        and isinstance(wanted, int)
        and rows is not None
        and wanted > rows
    ):
        message = f"Expected n_neighbors <= n_samples_fit, but n_neighbors = {wanted}, n_samples_fit = {rows}"
        raise shape_fault(message, second="InvalidParameterError")


def predictions(estimator: Estimator, features: Features | None, method: str) -> Array:
    """The array of predictions, which remembers the model behind it."""
    fitted = estimator.fit or Fit()
    target = fitted.target
    rows = features.rows if features is not None else None
    kind_of = getattr(tags(estimator.cls), "estimator_type", None)
    predictor = Predictor(
        estimator=estimator,
        sources=fitted.features.sources,
        tags=fitted.features.tags,
        rows=fitted.rows,
        width=fitted.width,
        target=target,
        method=method,
    )
    role, kind, negative = _role_of(method, kind_of, target)
    cells = Cells(
        kind=kind,
        missing=False,
        negative=negative,
        fractional=True if role != "labels" else target.fractional,
        sources=fitted.features.sources,
        predictors=(predictor,),
        role=role,
        examples=target.examples if role == "labels" else (),
        unique=target.unique if role == "labels" else None,
    )
    shape: tuple[int | None, ...] = (rows,)
    if method in ("predict_proba", "predict_log_proba") or (
        method == "decision_function" and target.unique is not None and target.unique > 2
    ):
        shape = (rows, target.unique)
    elif fitted.outputs is not None and fitted.outputs >= 1:
        shape = (rows, fitted.outputs)
    return Array(cells, shape, origin=features.origin if features is not None else None)


def _role_of(method: str, estimator_type: str | None, target: Cells) -> tuple[str, str, bool | None]:
    if method in ("predict_proba", "predict_log_proba"):
        return "probability", "float", False
    if method == "decision_function":
        return "decision", "float", None
    if estimator_type == "regressor":
        return "regression", "float", None
    return "labels", target.kind, target.negative
