"""Estimators: how they are made, what attributes they have, and what their methods need and return."""

from __future__ import annotations

import functools
import inspect
from typing import Any

from wmrl_gym.scriptcheck import installed
from wmrl_gym.scriptcheck.arguments import callable_name
from wmrl_gym.scriptcheck.cells import Cells
from wmrl_gym.scriptcheck.estimators.features import check_lengths, features_of, target_of
from wmrl_gym.scriptcheck.estimators.fitting import fit, predict, transform
from wmrl_gym.scriptcheck.faults import Fault, api_fault, runtime_fault
from wmrl_gym.scriptcheck.models import Call, Evaluator, Models
from wmrl_gym.scriptcheck.values.data import Array
from wmrl_gym.scriptcheck.values.estimators import Estimator
from wmrl_gym.scriptcheck.values.objects import Bound, Dict, Items, Real, constant
from wmrl_gym.scriptcheck.values.scalars import NONE, UNKNOWN, Const, Scalar, Value

MODELS = Models()


@functools.lru_cache(maxsize=2048)
def is_estimator(cls: type) -> bool:
    """Whether a class is a scikit-learn estimator."""
    return any(base.__name__ == "BaseEstimator" and base.__module__.startswith("sklearn") for base in cls.__mro__)


def construct(call: Call, cls: type) -> Value:
    """``SomeEstimator(...)``: nothing but the signature is checked when it is made."""
    call.bind(cls, quote=callable_name(cls))
    params = dict(call.bound)
    signature = installed.signature(cls)
    variadic = (
        next((p.name for p in signature.parameters.values() if p.kind is p.VAR_KEYWORD), None) if signature else None
    )
    if variadic is not None:
        params = {k: v for k, v in params.items() if k != variadic}
    return Estimator(cls, params, known=not call.open_ended)


# Attributes


@MODELS.attribute(Estimator)
def _attribute(interpreter: Evaluator, estimator: Estimator, name: str) -> Value:
    if name in estimator.params:
        return estimator.params[name]
    if installed.class_attribute(estimator.cls, name):
        return _class_attribute(estimator, name)
    if not estimator.known or name.startswith("__"):
        return UNKNOWN
    signature = installed.signature(estimator.cls)
    if signature is not None and name in signature.parameters:
        default = signature.parameters[name].default
        return Const(default) if isinstance(default, bool | int | float | str | None) else UNKNOWN
    return _learned_attribute(estimator, name)


@MODELS.subscript(Estimator)
def _subscript(interpreter: Evaluator, estimator: Estimator, key: Value) -> Value:
    if estimator.cls.__name__ == "Pipeline":
        steps = steps_of(estimator)
        index = constant(key)
        if steps is not None and isinstance(index, int) and -len(steps) <= index < len(steps):
            return steps[index][1]
        if steps is not None and isinstance(index, str):
            return dict(steps).get(index, UNKNOWN)
        return UNKNOWN
    if hasattr(estimator.cls, "__getitem__"):
        return UNKNOWN
    raise runtime_fault(f"'{estimator.cls.__name__}' object is not subscriptable", "TypeError")


def _class_attribute(estimator: Estimator, name: str) -> Value:
    found = inspect.getattr_static(estimator.cls, name)
    if isinstance(found, property):
        if name.endswith("_") and estimator.known and estimator.fit is None:
            raise not_fitted(estimator)
        if name == "feature_importances_" and estimator.fit is not None:
            return Array(Cells("float", missing=False, negative=False), (estimator.fit.width,))
        if name == "named_steps":
            steps = steps_of(estimator)
            return Dict(dict(steps) if steps is not None else None)
        return UNKNOWN
    if not callable(found) and not hasattr(found, "__get__"):
        return UNKNOWN
    problem = unavailable(estimator, name)
    if problem is not None:
        raise api_fault(problem, "AttributeError", second="NotFittedError")
    return Bound(estimator, name)


def steps_of(estimator: Estimator) -> list[tuple[str, Value]] | None:
    """Named parts of a pipeline or similar, None if they cannot be followed."""
    parameter = {"ColumnTransformer": "transformers", "FeatureUnion": "transformer_list"}.get(estimator.cls.__name__)
    steps = estimator.params.get(parameter or ("steps" if estimator.cls.__name__ == "Pipeline" else "estimators"))
    if not isinstance(steps, Items) or steps.items is None:
        return None
    found: list[tuple[str, Value]] = []
    for step in steps.items:
        if not isinstance(step, Items) or step.items is None or len(step.items) < 2:
            return None
        found.append((str(constant(step.items[0], "?")), step.items[1]))
    return found


def unavailable(estimator: Estimator, name: str) -> str | None:
    """Why a method does not exist on this estimator as it is configured; None if it does, or nobody knows."""
    static = inspect.getattr_static(estimator.cls, name, None)
    own = estimator.cls.__name__
    if static is None:
        return f"'{own}' object has no attribute '{name}'" if not hasattr(estimator.cls, "__getattr__") else None
    if type(static).__name__ != "_AvailableIfDescriptor" or not estimator.known:
        return None
    inner = _responsible(estimator, name)
    if inner is NONE:
        return _conditional(estimator, name)
    if isinstance(inner, Estimator) and unavailable(inner, name) is not None:
        return f"This '{own}' has no attribute '{name}'"
    return None


def _responsible(estimator: Estimator, name: str) -> Value:
    """The part that a composite estimator delegates to; NONE for an estimator that delegates nothing."""
    own = estimator.cls.__name__
    if own == "Pipeline":
        steps = steps_of(estimator)
        return steps[-1][1] if steps else UNKNOWN
    for parameter in ("estimator", "regressor", "final_estimator"):
        if parameter in estimator.params:
            return estimator.params[parameter]
    if own.startswith(("Stacking", "FeatureUnion", "ColumnTransformer")):
        return UNKNOWN
    if own == "VotingClassifier":
        return NONE if estimator.parameter("voting", "hard") == "hard" else UNKNOWN
    return NONE


def _conditional(estimator: Estimator, name: str) -> str | None:
    """Ask a real, unfitted estimator with the same constant parameters: nothing is computed by that."""
    plain = {k: v.value for k, v in estimator.params.items() if isinstance(v, Const)}
    required: dict[str, list[Any]] = {k: [] for k in ("estimators",) if k in estimator.params}
    try:
        real = estimator.cls(**plain, **required)
    except Exception:
        return None
    try:
        getattr(real, name)
    except AttributeError as error:
        return str(error)
    except Exception:
        return None
    return None


def _learned_attribute(estimator: Estimator, name: str) -> Value:
    """Attributes such as ``coef_``, which exist after fit only, and others which never do."""
    own = estimator.cls.__name__
    if hasattr(estimator.cls, "__getattr__"):
        return UNKNOWN
    learned = installed.instance_attributes(estimator.cls)
    message = f"'{own}' object has no attribute '{name}'"
    if "*" not in learned and name not in learned:
        raise api_fault(message, "AttributeError", second="NotFittedError")
    if estimator.fit is None:
        raise api_fault(message, "AttributeError", second="NotFittedError")
    if name == "best_estimator_":
        return estimator.fit.parts.get("best", UNKNOWN)
    if name in ("best_params_",):
        return Dict(None)
    if name in ("best_score_", "intercept_"):
        return Scalar(Cells("float"))
    if name == "coef_":
        return Array(Cells("float", missing=False), None)
    if name == "classes_":
        target = estimator.fit.target
        return Array(Cells(target.kind, missing=False), (target.unique,))
    return UNKNOWN


def not_fitted(estimator: Estimator) -> Fault:
    """The NotFittedError of an estimator."""
    own = estimator.cls.__name__
    message = (
        f"This {own} instance is not fitted yet. Call 'fit' with appropriate arguments before using this estimator."
    )
    if own in ("TfidfVectorizer", "TfidfTransformer"):
        message = "The TF-IDF vectorizer is not fitted"
    elif own == "CountVectorizer":
        message = "Vocabulary not fitted or provided"
    return api_fault(message, "NotFittedError", second="AttributeError", bases=("ValueError", "AttributeError"))


# Methods


def _bind(call: Call, estimator: Estimator) -> None:
    """Bind a call of a method to the estimator's own signature."""
    target = inspect.getattr_static(estimator.cls, call.callee, None)
    target = getattr(target, "fn", target)
    if inspect.isfunction(target):
        call.bind(target, method=True)


method = functools.partial(MODELS.method, Estimator, bind=_bind)


def _data(call: Call) -> Value | None:
    for name in ("X", "raw_documents", "y"):
        if name in call.bound:
            return call.bound[name]
    return call.first()


@method("fit", "partial_fit")
def _fit(call: Call, estimator: Estimator) -> Value:
    fit(call, estimator, _data(call), call.get("y"))
    return estimator


@method("predict", "predict_proba", "decision_function", "predict_log_proba")
def _predict(call: Call, estimator: Estimator) -> Value:
    if estimator.fit is None:
        if not estimator.known:
            return UNKNOWN
        raise not_fitted(estimator)
    return predict(call, estimator, _data(call), call.callee)


@method("transform")
def _transform(call: Call, estimator: Estimator) -> Value:
    if estimator.fit is None:
        if estimator.cls.__name__ in ("HashingVectorizer", "FunctionTransformer", "Normalizer", "Binarizer"):
            fit(call, estimator, _data(call), None)
        elif not estimator.known:
            return UNKNOWN
        else:
            raise not_fitted(estimator)
    return transform(call, estimator, _data(call))


@method("fit_transform")
def _fit_transform(call: Call, estimator: Estimator) -> Value:
    fit(call, estimator, _data(call), call.get("y"))
    return transform(call, estimator, _data(call), just_fitted=True)


@method("fit_predict")
def _fit_predict(call: Call, estimator: Estimator) -> Value:
    fit(call, estimator, _data(call), call.get("y"))
    return predict(call, estimator, _data(call), "predict")


@method("score")
def _score(call: Call, estimator: Estimator) -> Value:
    if estimator.fit is None:
        if not estimator.known:
            return UNKNOWN
        raise not_fitted(estimator)
    predict(call, estimator, _data(call), "predict")
    features, target = features_of(call.interpreter, _data(call)), target_of(call.interpreter, call.get("y"))
    if features and target:
        check_lengths(target.rows, features.rows)
    return Scalar(Cells("float", missing=False))


@method("set_params")
def _set_params(call: Call, estimator: Estimator) -> Value:
    signature = installed.signature(estimator.cls)
    for name, value in call.kwargs.items():
        plain = name.partition("__")[0]
        if signature is not None and "__" not in name and plain not in signature.parameters:
            valid = sorted(signature.parameters)
            message = (
                f"Invalid parameter '{name}' for estimator {estimator.cls.__name__}(). Valid parameters are: {valid}."
            )
            raise api_fault(message, "ValueError", second="TypeError")
        if "__" in name:
            estimator.known = False
        else:
            estimator.params[name] = value
    return estimator


@method("get_params")
def _get_params(call: Call, estimator: Estimator) -> Value:
    return Dict(None)


@method("set_output", "set_fit_request", "set_score_request")
def _set_output(call: Call, estimator: Estimator) -> Value:
    estimator.known = False
    return estimator


@method("inverse_transform")
def _inverse_transform(call: Call, estimator: Estimator) -> Value:
    if estimator.fit is None and estimator.known:
        raise not_fitted(estimator)
    source = _data(call) or call.first()
    if isinstance(source, Array) and estimator.fit is not None and estimator.cls.__name__ == "LabelEncoder":
        target = estimator.fit.target
        cells = Cells(target.kind, False, predictors=source.cells.predictors, role="labels", examples=target.examples)
        return Array(cells, source.shape, origin=source.origin)
    return UNKNOWN


@method("get_feature_names_out")
def _feature_names(call: Call, estimator: Estimator) -> Value:
    if estimator.fit is None and estimator.known:
        raise not_fitted(estimator)
    width = estimator.fit.width if estimator.fit is not None else None
    same = estimator.cls.__name__.endswith(("Scaler", "Imputer"))
    return Items("list", None, Scalar(Cells("str", missing=False)), width if same else None)


def estimator_class(value: Value) -> type | None:
    """The class of an estimator that was handed over without being made, a common slip."""
    return value.obj if isinstance(value, Real) and isinstance(value.obj, type) and is_estimator(value.obj) else None
