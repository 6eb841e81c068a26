"""Hyper-parameter searches and what cross-validation has in common with them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager

from wmrl_gym.scriptcheck import installed
from wmrl_gym.scriptcheck.estimators.estimators import estimator_class, steps_of
from wmrl_gym.scriptcheck.estimators.fitting import fit, predict
from wmrl_gym.scriptcheck.estimators.parameters import invalid_parameter
from wmrl_gym.scriptcheck.faults import Fault, api_fault, runtime_fault
from wmrl_gym.scriptcheck.models import Call, Models
from wmrl_gym.scriptcheck.values.data import Array
from wmrl_gym.scriptcheck.values.estimators import Estimator, Fit
from wmrl_gym.scriptcheck.values.objects import Dict, Instance, Items, constant
from wmrl_gym.scriptcheck.values.scalars import MISSING, UNKNOWN, Unknown, Value
from wmrl_gym.scriptcheck.verdicts import Check

MODELS = Models()


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
            f"\nAll the {count} fits failed.\nIt is very likely that your model is misconfigured.\nYou can try to "
            f"debug the error by setting error_score='raise'.\n\nBelow are more details about the failures:\n{rule}\n"
            f"{count} fits failed with the following error:\n{fault.exception}: {fault.message}\n"
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


@MODELS.fitter("GridSearchCV", "RandomizedSearchCV", "HalvingGridSearchCV")
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
        check_scoring(search.params.get("scoring"))
        with call.interpreter.repeated(round((candidates or 5) * (folds or 5) * 0.8) + 1):
            fit(call, best, data, target)
    search.fit = dataclasses.replace(best.fit) if best.fit is not None else Fit()
    search.fit.parts = {"best": best}


def _check_grid(inner: Estimator, grid: Value | None, search: Estimator) -> int | None:
    """Number of candidates.

    Raises:
        Fault: ValueError for a parameter that the estimator does not have, TypeError for a value that is no list.
    """
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
                f"Parameter grid for parameter '{name}' needs to be a list or a numpy array, but got {single!r} (of "
                f"type {type(single).__name__}) instead. Single values need to be wrapped in a list with one element."
            )
            raise api_fault(message, "TypeError", second="ValueError")
        count *= len(values.items) if isinstance(values, Items) and values.items is not None else 3
    if "param_distributions" in search.params:
        wanted = search.parameter("n_iter", 10)
        return min(count, wanted) if isinstance(wanted, int) else 10
    return count


def check_scoring(value: Value | None) -> None:
    """Refuse the name of a scorer that does not exist."""
    from sklearn.metrics import get_scorer_names

    name = constant(value, None)
    if isinstance(name, str) and name not in get_scorer_names():
        message = f"The 'scoring' parameter must be a str among the scorer names. Got '{name}' instead."
        raise invalid_parameter(message)


@MODELS.predictor("GridSearchCV", "RandomizedSearchCV", "HalvingGridSearchCV", "TransformedTargetRegressor")
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
