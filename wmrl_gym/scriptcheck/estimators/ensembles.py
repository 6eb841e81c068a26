"""Ensembles and wrappers of given estimators."""

from __future__ import annotations

import dataclasses

from wmrl_gym.scriptcheck.estimators.estimators import estimator_class, steps_of, unavailable
from wmrl_gym.scriptcheck.estimators.features import features_of, target_of
from wmrl_gym.scriptcheck.estimators.fitting import (
    fit,
    fit_plainly,
    predict,
    predictions,
    remember,
)
from wmrl_gym.scriptcheck.faults import api_fault
from wmrl_gym.scriptcheck.models import Call, Models
from wmrl_gym.scriptcheck.values.data import Frame, Series
from wmrl_gym.scriptcheck.values.estimators import Estimator, Fit
from wmrl_gym.scriptcheck.values.objects import Items
from wmrl_gym.scriptcheck.values.scalars import UNKNOWN, Value

MODELS = Models()


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


@MODELS.fitter("VotingClassifier", "VotingRegressor", "StackingClassifier", "StackingRegressor", *_WRAPPERS)
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


@MODELS.predictor("VotingClassifier", "VotingRegressor", "StackingClassifier", "StackingRegressor", *_WRAPPERS)
def _predict_members(call: Call, estimator: Estimator, data: Value | None, method: str) -> Value:
    members = [m for m in (estimator.fit.parts.values() if estimator.fit else []) if isinstance(m, Estimator)]
    soft = method == "predict_proba" and estimator.cls.__name__.startswith(("Voting", "Stacking"))
    for member in members:
        lacking = unavailable(member, "predict_proba") if soft and estimator.cls.__name__.startswith("Voting") else None
        if lacking is not None:
            raise api_fault(lacking, "AttributeError")
        predict(call, member, data, "predict")
    features = features_of(call.interpreter, data)
    return predictions(estimator, features, method)


@MODELS.fitter("BaggingClassifier", "BaggingRegressor", "AdaBoostClassifier", "AdaBoostRegressor")
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


@MODELS.fitter("TransformedTargetRegressor")
def _fit_transformed(call: Call, estimator: Estimator, data: Value | None, target: Value | None) -> None:
    inner = estimator.params.get("regressor")
    if isinstance(inner, Estimator):
        twin = inner.clone()
        fit(call, twin, data, target)
        estimator.fit = dataclasses.replace(twin.fit) if twin.fit is not None else Fit()
        estimator.fit.parts = {"best": twin}
    else:
        remember(estimator, features_of(call.interpreter, data), target_of(call.interpreter, target))
