"""Hyper-parameters, checked with the constraints that scikit-learn itself declares."""

from __future__ import annotations

import functools
import re
from typing import Any

from wmrl_gym.scriptcheck.faults import Fault, api_fault
from wmrl_gym.scriptcheck.values.estimators import Estimator
from wmrl_gym.scriptcheck.values.objects import Dict, Items, constant
from wmrl_gym.scriptcheck.values.scalars import MISSING, Value


def check_parameters(estimator: Estimator) -> None:
    """What ``_validate_params`` refuses at fit.

    Raises:
        Fault: InvalidParameterError with scikit-learn's message, or ValueError for parameters that do not go together.
    """
    constraints = getattr(estimator.cls, "_parameter_constraints", None)
    if isinstance(constraints, dict):
        for name, value in estimator.params.items():
            plain = constant(value)
            if plain is MISSING:
                plain = _stand_in(value)
            if plain is MISSING or name not in constraints:
                continue
            message = _violation(estimator.cls, name, type(plain).__name__, _frozen(plain))
            if message is not None:
                raise invalid_parameter(message)
    _check_combinations(estimator)


def _stand_in(value: Value) -> Any:
    """A real object of the same type for containers and estimators, as far as their type alone can be wrong."""
    if isinstance(value, Dict) and value.items is not None:
        return {}
    if isinstance(value, Items) and value.kind == "list" and value.items is not None:
        plain = [constant(item) for item in value.items]
        return MISSING if MISSING in plain else plain
    return MISSING


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else () if isinstance(value, dict) else value


@functools.lru_cache(maxsize=4096)
def _violation(cls: type, name: str, type_name: str, value: Any) -> str | None:
    real = list(value) if type_name == "list" else {} if type_name == "dict" else value
    return _refusal(cls._parameter_constraints[name], name, real, cls.__name__)  # type: ignore[attr-defined]


@functools.lru_cache(maxsize=4096)
def function_violation(function: Any, name: str, type_name: str, value: Any) -> str | None:
    """The message of a function's InvalidParameterError about one argument, None if it is accepted."""
    constraints = getattr(function, "_skl_parameter_constraints", {})
    if name not in constraints:
        return None
    return _refusal(constraints[name], name, value, function.__qualname__)


def _refusal(constraint: Any, name: str, value: Any, caller: str) -> str | None:
    from sklearn.utils._param_validation import InvalidParameterError, validate_parameter_constraints

    try:
        validate_parameter_constraints({name: constraint}, {name: value}, caller_name=caller)
    except InvalidParameterError as error:
        return sorted_choices(str(error))
    except Exception:
        return None
    return None


def invalid_parameter(message: str) -> Fault:
    """The InvalidParameterError of an argument."""
    return api_fault(message, "InvalidParameterError", second="ValueError", bases=("ValueError", "TypeError"))


def sorted_choices(message: str) -> str:
    """scikit-learn prints sets of choices in hash order, which differs between processes; ours must not."""

    def in_order(match: re.Match[str]) -> str:
        return "{" + ", ".join(sorted(match.group(1).split(", "))) + "}"

    return re.sub(r"\{([^{}]*)\}", in_order, message)


def _check_combinations(estimator: Estimator) -> None:
    checker = _COMBINATIONS.get(estimator.cls.__name__)
    if checker is not None:
        checker(estimator)


_LOGISTIC_PENALTIES: dict[str, tuple[str | None, ...]] = {
    "lbfgs": ("l2", None),
    "newton-cg": ("l2", None),
    "newton-cholesky": ("l2", None),
    "sag": ("l2", None),
    "liblinear": ("l1", "l2"),
    "saga": ("l1", "l2", "elasticnet", None),
}


def _logistic(estimator: Estimator) -> None:
    solver = estimator.parameter("solver", "lbfgs")
    penalty = estimator.parameter("penalty", "l2")
    ratio = estimator.parameter("l1_ratio", None)
    if "penalty" not in estimator.params and isinstance(ratio, int | float):
        penalty = "l2" if ratio == 0 else "l1" if ratio == 1 else "elasticnet"
    allowed = _LOGISTIC_PENALTIES.get(solver)
    if allowed is None or penalty in allowed or penalty == "deprecated":
        return
    if solver == "liblinear" and penalty is None:
        raise api_fault("penalty=None is not supported for the liblinear solver", "ValueError")
    if solver == "liblinear" and penalty == "elasticnet":
        message = f"Only 'saga' solver supports elasticnet penalty, got solver={solver}."
        raise api_fault(message, "ValueError", second="InvalidParameterError")
    message = f"Solver {solver} supports only 'l2' or None penalties, got {penalty} penalty."
    raise api_fault(message, "ValueError", second="InvalidParameterError")


def _linear_svc(estimator: Estimator) -> None:
    penalty, loss = estimator.parameter("penalty", "l2"), estimator.parameter("loss", "squared_hinge")
    dual = estimator.parameter("dual", "auto")
    bad = (penalty == "l1" and (loss == "hinge" or dual is True)) or (
        penalty == "l2" and loss == "hinge" and dual is False
    )
    if bad:
        message = (
            f"Unsupported set of arguments: The combination of penalty='{penalty}' and loss='{loss}' is not supported, "
            f"Parameters: penalty='{penalty}', loss='{loss}', dual={dual}"
        )
        raise api_fault(message, "ValueError", second="InvalidParameterError")


_COMBINATIONS = {"LogisticRegression": _logistic, "LinearSVC": _linear_svc}
