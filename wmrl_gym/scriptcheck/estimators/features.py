"""Features and targets as an estimator sees them, and the checks scikit-learn's input validation makes."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

from wmrl_gym.scriptcheck.cells import Cells
from wmrl_gym.scriptcheck.data.arrays import as_array
from wmrl_gym.scriptcheck.faults import Fault, shape_fault
from wmrl_gym.scriptcheck.models import Evaluator
from wmrl_gym.scriptcheck.values.data import Array, Frame, Series
from wmrl_gym.scriptcheck.values.estimators import Estimator, Fit
from wmrl_gym.scriptcheck.values.objects import Items
from wmrl_gym.scriptcheck.values.scalars import Scalar, Unknown, Value


@dataclasses.dataclass(eq=False)
class Features:
    """A feature matrix."""

    cells: Cells
    rows: int | None = None
    width: int | None = None
    ndim: int | None = 2
    sparse: bool | None = False
    names: tuple[str, ...] | None = None
    columns: dict[str, Cells] = dataclasses.field(default_factory=dict)
    dummies: tuple[tuple[str, str, int | None], ...] = ()
    complete: bool = True
    is_frame: bool = False
    is_series: bool = False
    origin: str | None = None
    basis: int | None = None
    absent: frozenset[str] = frozenset()
    density: float | None = None
    doubled: tuple[str, ...] = ()
    """Names of columns that are there more than once."""
    likely_width: int | None = None
    """A guess at the width, for costs only."""


def features_of(interpreter: Evaluator, value: Value | None) -> Features | None:
    """Describe what is handed over as X; None if nothing is known of it."""
    if isinstance(value, Frame):
        names = tuple(value.columns) if value.complete and all(isinstance(n, str) for n in value.columns) else None
        return Features(
            value.cells(),
            value.rows,
            value.width,
            names=names,
            columns=dict(value.columns),
            dummies=value.dummies,
            complete=value.complete,
            is_frame=True,
            origin=value.origin,
            absent=value.absent,
            doubled=value.doubled,
            likely_width=len(value.columns) + sum(unique or 10 for _, _, unique in value.dummies),
        )
    if isinstance(value, Series):
        return Features(value.cells, value.rows, None, 1, is_series=True, origin=value.origin)
    if value is None or isinstance(value, Unknown | Scalar):
        return None
    array = as_array(interpreter, value)
    if array is None:
        return None
    width = array.shape[1] if array.shape is not None and len(array.shape) == 2 else None
    return Features(
        array.cells,
        array.rows,
        width,
        array.ndim,
        array.sparse,
        origin=array.origin,
        basis=array.basis,
        density=array.density,
        likely_width=array.likely_width,
    )


@functools.lru_cache(maxsize=512)
def tags(cls: type) -> Any:
    """scikit-learn's own tags of an estimator class, None where it cannot be made without arguments."""
    try:
        return cls().__sklearn_tags__()
    except Exception:
        return None


def text_in(cells: Cells) -> bool:
    """Whether there is text among the values that cannot be read as numbers, for certain."""
    if cells.kind in ("str", "object"):
        return True
    return cells.kind == "category" and bool(cells.examples) and not all(map(_is_number, cells.examples))


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def could_not_convert(cells: Cells) -> Fault:
    """The ValueError of text where numbers are needed."""
    example = cells.examples[0] if cells.examples else "a"
    message = f"could not convert string to float: '{example}'"
    return shape_fault(message, second="TypeError", reason="text columns reach an estimator that wants numbers")


def check_features(features: Features, cls: type) -> None:
    """What ``validate_data`` refuses, in its order.

    Raises:
        Fault: for text, wrong dimensions, sparse where dense is needed, missing or negative values.
    """
    check_unique_names(features)
    found = tags(cls)
    if found is None or found.no_validation:
        return
    accepts = found.input_tags
    if accepts.string:
        return
    check_dimensions(features, cls)
    if features.sparse and not accepts.sparse and cls.__name__ != "StandardScaler":  # it depends on with_mean there
        message = (
            "Sparse data was passed for X, but dense data is required. Use '.toarray()' to convert to a dense numpy "
            "array."
        )
        raise shape_fault(message, "TypeError", second="ValueError")
    if not accepts.categorical:
        _check_numbers(features, cls)
    if features.cells.missing and not accepts.allow_nan:
        raise missing_values(cls)
    if accepts.positive_only and features.cells.negative and not features.sparse:
        raise shape_fault(f"Negative values in data passed to {cls.__name__} (input X).")


def missing_values(cls: type) -> Fault:
    """The ValueError of NaN where it is not accepted."""
    message = (
        f"Input X contains NaN.\n{cls.__name__} does not accept missing values encoded as NaN natively. For supervised "
        "learning, you might want to consider sklearn.ensemble.HistGradientBoostingClassifier and Regressor which "
        "accept missing values encoded as NaNs natively. Alternatively, it is possible to preprocess the data, for "
        "instance by using an imputer transformer in a pipeline or drop samples with missing values. See "
        "https://scikit-learn.org/stable/modules/impute.html You can find a list of all estimators that handle NaN "
        "values at the following page: https://scikit-learn.org/stable/modules/impute.html"
        "#estimators-that-handle-nan-values"
    )
    return shape_fault(message, second="TypeError", reason=f"{cls.__name__} refuses missing values")


def check_unique_names(features: Features) -> None:
    """scikit-learn reads the names of a data frame first, and does not take two of a kind."""
    if features.doubled:
        counts = {name: features.doubled.count(name) + 1 for name in dict.fromkeys(features.doubled)}
        listed = "".join(f"\n- '{name}' {count} times" for name, count in counts.items())
        raise shape_fault(f"Expected unique column names, got:{listed}", "DuplicateError", second="ValueError")


def check_dimensions(features: Features, cls: type) -> None:
    """Features must be two-dimensional."""
    check_unique_names(features)
    if features.is_series:
        message = (
            "Expected a 2-dimensional container but got <class 'pandas.Series'> instead. Pass a DataFrame containing a "
            "single row (i.e. single sample) or a single column (i.e. single feature) instead."
        )
        raise shape_fault(message, second="TypeError")
    if features.ndim == 1:
        if text_in(features.cells):
            raise could_not_convert(features.cells)
        message = (
            "Expected 2D array, got 1D array instead:\narray=[...].\nReshape your data either using array.reshape(-1, "
            "1) if your data has a single feature or array.reshape(1, -1) if it contains a single sample."
        )
        raise shape_fault(message, second="TypeError")
    if features.ndim == 0:
        raise shape_fault("Expected 2D array, got scalar array instead:\narray=nan.", second="TypeError")
    if features.ndim is not None and features.ndim > 2:
        message = f"Found array with dim {features.ndim}, while dim <= 2 is required by {cls.__name__}."
        raise shape_fault(message, second="TypeError")


def _check_numbers(features: Features, cls: type) -> None:
    native_categories = cls.__name__.startswith("HistGradientBoosting")
    for cells in features.columns.values():
        if cells.kind == "category" and native_categories and features.is_frame:
            continue
        if text_in(cells):
            raise could_not_convert(cells)
    kinds = {cells.kind for cells in features.columns.values()}
    if "datetime" in kinds and kinds & {"int", "float", "bool"}:
        message = (
            "The DType <class 'numpy.dtypes.DateTime64DType'> could not be promoted by <class "
            "'numpy.dtypes.Float64DType'>. This means that no common DType exists for the given inputs."
        )
        raise shape_fault(message, "DTypePromotionError", second="TypeError")
    if not features.is_frame and text_in(features.cells):
        raise could_not_convert(features.cells)


def check_against_fit(features: Features, fit: Fit, cls: type) -> None:
    """What is transformed or predicted must look like what was fitted.

    Raises:
        Fault: ValueError for other feature names, another order, or another number of features.
    """
    if features.is_frame and fit.is_frame:
        _check_names(features, fit)
    width, expected = features.width, fit.width
    if width is not None and expected is not None and width != expected:
        raise _wrong_width(width, expected, cls)
    bases = features.basis, fit.basis
    if None not in bases and bases[0] != bases[1] and (width is None or expected is None):
        raise _wrong_width(width or (features.rows or 100) * 2, expected or (fit.rows or 100) * 2, cls)


def _wrong_width(width: int, expected: int, cls: type) -> Fault:
    message = f"X has {width} features, but {cls.__name__} is expecting {expected} features as input."
    return shape_fault(message, second="KeyError")


def _check_names(features: Features, fit: Fit) -> None:
    seen, now = list(fit.columns), list(features.columns)
    new = sorted(n for n in now if n not in fit.columns and fit.complete)
    lost = sorted(n for n in seen if n not in features.columns and (features.complete or n in features.absent))
    spread_new, spread_lost = _dummy_differences(features, fit)
    new, lost = new + spread_new, lost + spread_lost
    text = "The feature names should match those that were passed during fit.\n"
    if new or lost:
        if new:
            text += "Feature names unseen at fit time:\n" + _listed(new)
        if lost:
            text += "Feature names seen at fit time, yet now missing:\n" + _listed(lost)
        reason = f"features differ from those of fit: new {new[:3]}, missing {lost[:3]}"
        raise shape_fault(text, second="KeyError", reason=reason)
    if features.complete and fit.complete and seen != now and features.names is not None and fit.names is not None:
        text += "Feature names must be in the same order as they were in fit.\n"
        raise shape_fault(text, second="KeyError")


def _listed(names: list[str]) -> str:
    shown = [f"- {name}\n" for name in names[:5]]
    return "".join(shown) + ("- ...\n" if len(names) > 5 else "")


def _dummy_differences(features: Features, fit: Fit) -> tuple[list[str], list[str]]:
    """Indicator columns that only one of the two tables has, where each was spread by itself."""
    before = {column: (file, unique) for column, file, unique in fit.dummies}
    after = {column: (file, unique) for column, file, unique in features.dummies}
    new = [f"{column}_..." for column in after if column not in before and fit.complete]
    lost = [f"{column}_..." for column in before if column not in after and features.complete]
    for column in before.keys() & after.keys():
        (file, unique), (other_file, other_unique) = before[column], after[column]
        if file == other_file or unique is None or other_unique is None:
            continue
        if other_unique > unique or (unique > 40 and other_unique > 40):
            new.append(f"{column}_...")
        if other_unique < unique or (unique > 40 and other_unique > 40):
            lost.append(f"{column}_...")
    return new, lost


# Targets


@dataclasses.dataclass(eq=False)
class Target:
    """What is handed over as y."""

    cells: Cells
    rows: int | None = None
    outputs: int | None = None
    """Columns, if it is two-dimensional."""


def target_of(interpreter: Evaluator, value: Value | None) -> Target | None:
    """Describe y; None if nothing is known of it."""
    if isinstance(value, Frame):
        return Target(value.cells(), value.rows, value.width)
    if isinstance(value, Series):
        return Target(value.cells, value.rows)
    if value is None or isinstance(value, Unknown | Scalar):
        return None
    if isinstance(value, Array | Items):
        array = as_array(interpreter, value)
        if array is None:
            return None
        outputs = array.shape[1] if array.shape is not None and len(array.shape) == 2 else None
        return Target(array.cells, array.rows, outputs)
    return None


def check_lengths(one: int | None, other: int | None, second: str | None = None) -> None:
    """Samples that belong together must be as many.

    Args:
        one: number of the first, None if unknown.
        other: number of the second.
        second: the second most likely exception.

    Raises:
        Fault: ValueError if they are not.
    """
    if one is not None and other is not None and one != other:
        raise shape_fault(
            f"Found input variables with inconsistent numbers of samples: [{one}, {other}]", second=second
        )


def check_target(target: Target, features: Features | None, estimator: Estimator) -> None:
    """What fitting refuses about y.

    Raises:
        Fault: for missing values, text given to a regressor, continuous values given to a classifier, other lengths.
    """
    found = tags(estimator.cls)
    kind = found.estimator_type if found is not None else None
    cells = target.cells
    dummy = estimator.cls.__name__.startswith("Dummy")
    if kind == "regressor" and text_in(cells) and not dummy and not estimator.cls.__name__.startswith("KNeighbors"):
        raise could_not_convert(cells)
    if cells.missing and kind in ("regressor", "classifier") and not dummy:
        message = "Input y contains NaN." if cells.kind in ("float", "int") else "Input contains NaN"
        raise shape_fault(message, second="TypeError", reason="the target has missing values")
    if features is not None:
        check_lengths(features.rows, target.rows, second="IndexError")
    if kind == "classifier" and cells.fractional and cells.kind == "float":
        message = (
            "Unknown label type: continuous. Maybe you are trying to fit a classifier, which expects discrete classes "
            "on a regression target with continuous values."
        )
        raise shape_fault(message, second="TypeError", reason="a classifier is fitted on a continuous target")
    _check_outputs(target, estimator, kind, found)


def _check_outputs(target: Target, estimator: Estimator, kind: str | None, found: Any) -> None:
    single = target.outputs is not None and target.outputs > 1 and found is not None
    if single and kind in ("classifier", "regressor") and not found.target_tags.multi_output:
        message = f"y should be a 1d array, got an array of shape ({target.rows}, {target.outputs}) instead."
        raise shape_fault(message, second="TypeError")
    if found is not None and found.target_tags.positive_only and target.cells.negative:
        raise shape_fault("Some value(s) of y are out of the valid range of the loss.", second="TypeError")
