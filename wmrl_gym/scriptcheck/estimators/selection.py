"""Splitting, cross-validation and metrics."""

from __future__ import annotations

import dataclasses
import inspect
import math
from typing import Any

from wmrl_gym.scriptcheck.cells import Cells
from wmrl_gym.scriptcheck.data.frames import few_rows, part_of
from wmrl_gym.scriptcheck.estimators.features import check_lengths, features_of, target_of
from wmrl_gym.scriptcheck.estimators.fitting import fit, predictions
from wmrl_gym.scriptcheck.estimators.parameters import function_violation, invalid_parameter
from wmrl_gym.scriptcheck.estimators.searches import all_fits, check_scoring, folds_of, require_estimator
from wmrl_gym.scriptcheck.faults import api_fault, shape_fault
from wmrl_gym.scriptcheck.models import Call, Models
from wmrl_gym.scriptcheck.values.data import Array, Frame, Series
from wmrl_gym.scriptcheck.values.objects import Instance, Items, constant
from wmrl_gym.scriptcheck.values.scalars import MISSING, NONE, UNKNOWN, Const, Scalar, Value

MODELS = Models()


def check_function(call: Call, function: Any) -> None:
    """Signature and argument values of a scikit-learn function.

    Raises:
        Fault: TypeError or InvalidParameterError.
    """
    call.bind(function)
    for name, value in call.bound.items():
        plain = constant(value)
        if plain is not MISSING:
            message = function_violation(function, name, type(plain).__name__, plain)
            if message is not None:
                raise invalid_parameter(message)


@MODELS.function("sklearn.model_selection.train_test_split")
def _train_test_split(call: Call) -> Value:
    from sklearn.model_selection import train_test_split

    check_function(call, train_test_split)
    sizes = [call.interpreter.length(arg) for arg in call.args]
    known = [n for n in sizes if n is not None]
    if len(known) == len(sizes) and len(set(known)) > 1:
        raise shape_fault(f"Found input variables with inconsistent numbers of samples: {known}", second="TypeError")
    if not call.args and not call.open_ended:
        raise api_fault("At least one array required as input", "ValueError")
    stratify = call.kwargs.get("stratify")
    if isinstance(stratify, Series) and stratify.cells.fractional and stratify.cells.kind == "float":
        message = "The least populated classes in y have only 1 member, which is too few."
        raise shape_fault(message, second="TypeError")
    out: list[Value] = []
    for arg in call.args:
        train, test = _split_sizes(call, call.interpreter.length(arg))
        out += [_portion(arg, train), _portion(arg, test)]
    return Items("list", out)


def _split_sizes(call: Call, rows: int | None) -> tuple[int | None, int | None]:
    test, train = constant(call.kwargs.get("test_size"), None), constant(call.kwargs.get("train_size"), None)
    if rows is None or MISSING in (test, train):
        return None, None
    if test is None and train is None:
        test = 0.25
    if isinstance(test, int) and test >= rows:
        message = (
            f"test_size={test} should be either positive and smaller than the number of samples "
            f"{rows} or a float in the (0, 1) range"
        )
        raise shape_fault(message)
    n_test = None if test is None else math.ceil(rows * test) if isinstance(test, float) else test
    n_train = None if train is None else math.floor(rows * train) if isinstance(train, float) else train
    if n_test is None:
        n_test = rows - (n_train or 0)
    return (rows - n_test if n_train is None else n_train), n_test


def _portion(value: Value, rows: int | None) -> Value:
    if isinstance(value, Frame):
        return part_of(value, rows)
    if isinstance(value, Series):
        return dataclasses.replace(value, rows=rows, origin=None, cells=few_rows(value.cells, rows), parts=())
    if isinstance(value, Array):
        shape = None if value.shape is None else (rows, *value.shape[1:])
        return dataclasses.replace(value, shape=shape, origin=None, cells=few_rows(value.cells, rows))
    if isinstance(value, Items):
        return Items("list", None, value.representative(), rows)
    return UNKNOWN


@MODELS.function("cross_val_score", "cross_validate", "cross_val_predict", of="sklearn.model_selection")
def _cross_validation(call: Call) -> Value:
    import sklearn.model_selection as module

    check_function(call, getattr(module, call.callee))
    check_scoring(call.get("scoring"))
    estimator = require_estimator(call.get("estimator"))
    folds = folds_of(call.get("cv"))
    features = features_of(call.interpreter, call.get("X"))
    target = target_of(call.interpreter, call.get("y"))
    if features and target:
        check_lengths(features.rows, target.rows)
    if estimator is not None:
        twin = estimator.clone()
        with all_fits(folds), call.interpreter.repeated(folds):
            fit(call, twin, call.get("X"), call.get("y"))
        if call.callee == "cross_val_predict":
            method = constant(call.get("method"), "predict")
            return predictions(twin, features, method if isinstance(method, str) else "predict")
    if call.callee == "cross_validate":
        return UNKNOWN
    return Array(Cells("float", missing=None), (folds,))


@MODELS.method(Instance, "split")
def _split(call: Call, splitter: Instance) -> Value:
    if not splitter.cls.__module__.startswith("sklearn.model_selection"):
        return UNKNOWN
    target = target_of(call.interpreter, call.args[1]) if len(call.args) > 1 else None
    if splitter.cls.__name__ == "StratifiedKFold":
        if target is None and len(call.args) < 2 and "y" not in call.kwargs:
            raise api_fault("StratifiedKFold.split() missing 1 required positional argument: 'y'")
        if target is not None and target.cells.fractional and target.cells.kind == "float":
            message = "Supported target types are: ('binary', 'multiclass'). Got 'continuous' instead."
            raise shape_fault(message, second="TypeError")
    folds = folds_of(splitter)
    indices = Array(Cells("int", missing=False, negative=False, fractional=False), (None,))
    pair = Items("tuple", [indices, indices])
    return Items("generator", [pair] * folds if folds is not None and folds <= 20 else None, pair)


_SPLITTERS = ("KFold", "StratifiedKFold", "ShuffleSplit", "StratifiedShuffleSplit", "TimeSeriesSplit")


@MODELS.function(*_SPLITTERS, of="sklearn.model_selection")
def _splitter(call: Call) -> Value:
    import sklearn.model_selection as module

    cls = getattr(module, call.callee)
    call.bind(cls, quote=f"{call.callee}.__init__() ")
    folds = call.constant("n_splits", 5)
    if call.callee.endswith("KFold") and isinstance(folds, int):
        if folds <= 1:
            message = (
                "k-fold cross-validation requires at least one train/test split by setting n_splits=2 or more, got "
                f"n_splits={folds}."
            )
            raise api_fault(message, "ValueError")
        if call.constant("random_state", None) not in (None, MISSING) and call.constant("shuffle", False) is False:
            message = (
                "Setting a random_state has no effect since shuffle is False. You should leave random_state to its "
                "default (None), or set shuffle=True."
            )
            raise api_fault(message, "ValueError")
    return Instance(cls, {"n_splits": Const(folds) if folds is not MISSING else UNKNOWN})


# Metrics

_LABEL_METRICS = ("accuracy_score", "f1_score", "precision_score", "recall_score", "balanced_accuracy_score")
_NUMBER_METRICS = (
    "mean_squared_error",
    "root_mean_squared_error",
    "mean_absolute_error",
    "r2_score",
    "mean_squared_log_error",
    "root_mean_squared_log_error",
    "median_absolute_error",
    "mean_absolute_percentage_error",
)
_OTHER_METRICS = ("roc_auc_score", "log_loss", "average_precision_score", "confusion_matrix", "classification_report")


@MODELS.function(*_LABEL_METRICS, *_NUMBER_METRICS, *_OTHER_METRICS, of="sklearn.metrics")
def _metric(call: Call) -> Value:
    import sklearn.metrics as module

    function = getattr(module, call.callee)
    check_function(call, function)
    first_two = list(inspect.signature(function).parameters)[:2]
    truth, guess = (target_of(call.interpreter, call.get(name)) for name in first_two)
    if truth is not None and guess is not None:
        check_lengths(truth.rows, guess.rows, second="TypeError")
        _check_kinds(call, truth.cells, guess.cells)
    return Scalar(Cells("float", missing=False))


def _check_kinds(call: Call, truth: Cells, guess: Cells) -> None:
    name = call.callee
    if name in _LABEL_METRICS:
        continuous = guess.role in ("probability", "regression", "decision") and guess.fractional
        if continuous and truth.kind in ("int", "str", "bool"):
            kind = "binary" if truth.unique == 2 else "multiclass"
            message = f"Classification metrics can't handle a mix of {kind} and continuous targets"
            raise shape_fault(message, second="TypeError")
        averaged = name in ("f1_score", "precision_score", "recall_score")
        if averaged and "average" not in call.bound and truth.unique is not None and truth.kind in ("int", "str"):
            if truth.unique > 2:
                message = (
                    "Target is multiclass but average='binary'. Please choose another average setting, one of "
                    "[None, 'micro', 'macro', 'weighted']."
                )
                raise shape_fault(message)
            if truth.kind == "str" and "pos_label" not in call.bound:
                raise shape_fault(f"pos_label=1 is not a valid label. It should be one of {list(truth.examples)}")
    if name in _NUMBER_METRICS and "str" in (truth.kind, guess.kind):
        example = (truth.examples or guess.examples or ("a",))[0]
        raise shape_fault(f"could not convert string to float: '{example}'", second="TypeError")
    if truth.missing:
        raise shape_fault("Input contains NaN.", second="TypeError")


@MODELS.function("sklearn.base.clone")
def _clone(call: Call) -> Value:
    estimator = require_estimator(call.first())
    return estimator.clone() if estimator is not None else UNKNOWN


@MODELS.function("shuffle", "resample", of="sklearn.utils")
def _shuffle(call: Call) -> Value:
    out = [_portion(arg, call.interpreter.length(arg)) for arg in call.args]
    return out[0] if len(out) == 1 else Items("list", out)


@MODELS.function("sklearn.set_config", "sklearn.utils.class_weight.compute_class_weight")
def _nothing(call: Call) -> Value:
    return NONE if call.callee == "set_config" else UNKNOWN
