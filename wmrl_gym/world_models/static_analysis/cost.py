"""What a script costs: seconds and memory, estimated from data size, estimator family and hyper-parameters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wmrl_gym.envs.mle_dojo.inventory import DataFile
from wmrl_gym.world_models.static_analysis.faults import Fault
from wmrl_gym.world_models.verdicts import Check

if TYPE_CHECKING:
    from wmrl_gym.world_models.static_analysis.calls import Call

START_SECONDS = 1.0
"""Interpreter start and imports."""
OPEN_IMAGE_SECONDS = 1.2e-4
PYTHON_ROUND_SECONDS = 5e-6


def read_table_seconds(file: DataFile) -> float:
    """Reading a table: pandas parses about 40 MB a second on one core."""
    return 2e-3 + file.size_bytes / 40e6


def spend(call: Call, seconds: float, what: str = "") -> None:
    """Account for time, as often as the code is executed.

    Raises:
        Fault: a timeout, if the budget is used up.
    """
    interpreter = call.interpreter
    interpreter.state.seconds += seconds * interpreter.multiplicity
    total = START_SECONDS + interpreter.state.seconds
    if total > interpreter.budget_seconds:
        limit = interpreter.budget_seconds
        ratio = total / limit
        raise Fault(
            Check.COMPUTE_BUDGET,
            "TimeoutError",
            f"execution timed out after {limit:g} s",
            confidence=min(0.95, 0.5 + 0.15 * (ratio - 1.0)),
            reason=f"{what or 'this call'} brings the run to about {total:.0f} s, with a limit of {limit:g} s",
        )


def allocate(call: Call, megabytes: float) -> None:
    """Account for one large allocation.

    Raises:
        Fault: MemoryError, if it cannot fit.
    """
    interpreter = call.interpreter
    interpreter.state.memory_mb = max(interpreter.state.memory_mb, megabytes)
    if megabytes > interpreter.memory_limit_mb:
        message = f"Unable to allocate {megabytes / 1024:.3g} GiB"
        raise Fault(Check.COMPUTE_BUDGET, "MemoryError", message, confidence=0.8)


def spend_fit(call: Call, estimator: Any, features: Any, target: Any) -> None:
    """Account for one fit."""


def spend_predict(call: Call, estimator: Any, features: Any) -> None:
    """Account for predictions."""


def spend_vectorize(call: Call, estimator: Any, rows: int | None, cells: Any) -> None:
    """Account for turning texts into counts."""
