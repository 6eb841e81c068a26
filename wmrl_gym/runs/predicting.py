"""What a world model says of each solution, asked batch by batch and remembered, so that a killed process goes on."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from wmrl_gym.core import Outcome, Stateful, Submission, WorldModel, WorldModelError
from wmrl_gym.runs.records.work_file import WorkFile

TOKENS = ("prompt", "cached", "generated")


@dataclass(frozen=True)
class Prediction:
    """One predicted outcome, as far as fidelity is concerned."""

    status: str
    score: float | None
    """None: the world model abstains."""
    exception: str | None = None
    second_exception: str | None = None
    ranking: tuple[str, ...] | None = None
    """Statuses, most likely first; None if the world model names one only."""
    failed_checks: tuple[str, ...] = ()
    """Checks whose verdict counts as failing."""
    passed_checks: tuple[str, ...] = ()
    silent_checks: tuple[str, ...] = ()
    """Checks without an opinion."""
    tokens: Mapping[str, int | None] | None = None
    """Prompt, cached and generated tokens; None if no language model tells any."""
    seconds: float = 0.0
    """Wall-clock seconds, the batch's divided evenly."""
    cpu_seconds: float = 0.0
    """Processor seconds of this process, likewise."""

    @classmethod
    def of(cls, outcome: Outcome, seconds: float = 0.0, cpu_seconds: float = 0.0) -> Prediction:
        """Read a world model's outcome."""
        details = outcome.details
        verdicts = [item for item in details.get("verdicts") or [] if isinstance(item, Mapping) and "check" in item]

        def checks(passed: bool | None) -> tuple[str, ...]:
            return tuple(str(item["check"]) for item in verdicts if _effective(item) is passed)

        return cls(
            status=str(outcome.status),
            score=outcome.score,
            exception=details.get("exception"),
            second_exception=details.get("second"),
            ranking=status_ranking(outcome),
            failed_checks=checks(False),
            passed_checks=checks(True),
            silent_checks=checks(None),
            tokens=_tokens(details.get("tokens")),
            seconds=seconds,
            cpu_seconds=cpu_seconds,
        )

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Prediction:
        """Back from JSON."""
        values: dict[str, Any] = {name: tuple(item) if isinstance(item, list) else item for name, item in data.items()}
        return cls(**values)


def status_ranking(outcome: Outcome) -> tuple[str, ...] | None:
    """Statuses from the likeliest down, where the world model tells more than one.

    It may give ``details["status_probabilities"]``, a mapping from statuses to probabilities, or name one more in
    ``details["second_status"]`` (the LLM static checker does in its holistic mode). Nothing is made up for the others.
    """
    probabilities = outcome.details.get("status_probabilities")
    if isinstance(probabilities, Mapping) and probabilities:
        return tuple(str(status) for status in sorted(probabilities, key=lambda status: -float(probabilities[status])))
    second = outcome.details.get("second_status")
    return None if second is None else (str(outcome.status), str(second))


def predict_all(
    model: WorldModel, submissions: Sequence[Submission], work: WorkFile, batch: int, on_batch: Callable[[int], None]
) -> list[Prediction]:
    """Predictions in order; those of finished batches are not made again.

    A world model that remembers something between predictions goes on with what it remembered, if that is plain data.

    Raises:
        WorldModelError: if it answers with another number of outcomes than it was asked for.
        OtherWork: if the finished batches cannot be read.
    """
    rows = work.understood(lambda batches: [Prediction.from_data(row) for batch in batches for row in batch["rows"]])
    load = getattr(model, "load_state_dict", None)
    if work.portions and load is not None and work.portions[-1]["state"] is not None:
        load(work.portions[-1]["state"])
    for start in range(len(rows), len(submissions), batch):
        new = _predict(model, submissions[start : start + batch])
        work.append({"rows": [asdict(row) for row in new], "state": _plain_state(model)})
        rows += new
        on_batch(len(rows))
    return rows


def _predict(model: WorldModel, submissions: Sequence[Submission]) -> list[Prediction]:
    started, started_cpu = time.perf_counter(), time.process_time()
    outcomes = model.predict(submissions)
    if len(outcomes) != len(submissions):
        raise WorldModelError(
            f"{type(model).__name__}.predict gave {len(outcomes)} outcomes for {len(submissions)} submissions\n"
            "  it must give one for each, in order; an item it cannot judge has the score None."
        )
    seconds = (time.perf_counter() - started) / len(submissions)
    cpu_seconds = (time.process_time() - started_cpu) / len(submissions)
    return [Prediction.of(outcome, seconds, cpu_seconds) for outcome in outcomes]


def _effective(verdict: Mapping[str, Any]) -> bool | None:
    """A failing verdict with too little confidence counts as passing: the checker's gate."""
    passed = verdict.get("passed")
    return True if passed is False and verdict.get("gated") else passed


def _tokens(told: Any) -> dict[str, int | None] | None:
    if not isinstance(told, Mapping) or all(told.get(name) is None for name in TOKENS):
        return None
    return {name: told.get(name) for name in TOKENS}


def _plain_state(model: WorldModel) -> Any:
    if not isinstance(model, Stateful):
        return None
    try:
        return json.loads(json.dumps(model.state_dict()))
    except (TypeError, ValueError):  # weights and the like: too large to be written down after each batch
        return None
