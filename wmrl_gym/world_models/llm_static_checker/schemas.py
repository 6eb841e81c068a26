"""The shape of each answer, as a JSON schema that an engine can hold a model to."""

from __future__ import annotations

from typing import Any, Literal

from wmrl_gym.envs.mle_dojo.ladder import Status
from wmrl_gym.scriptcheck.verdicts import Check
from wmrl_gym.world_models.verdicts import QUALITY_BUCKETS

Mode = Literal["decomposed", "holistic"]

HOLISTIC = "holistic"
"""The question of the holistic mode; those of the decomposed mode are named like their checks."""

OUTCOMES: tuple[str, ...] = (
    Status.RUNTIME_ERROR,
    Status.TIMEOUT,
    Status.OUT_OF_MEMORY,
    Status.INVALID_SUBMISSION,
    Status.VALID,
)

_REASON: dict[str, Any] = {"type": "string", "maxLength": 300}
_CLASS: dict[str, Any] = {"type": ["string", "null"], "maxLength": 40}
_LINE: dict[str, Any] = {"type": ["integer", "null"]}
_FEEDBACK: dict[str, Any] = {"type": "string", "maxLength": 300}
# A choice among steps, because not every engine keeps a number between a minimum and a maximum.
_CONFIDENCE: dict[str, Any] = {"enum": [step / 20 for step in range(21)]}
_BUCKET: dict[str, Any] = {"enum": list(QUALITY_BUCKETS)}


def questions(mode: Mode) -> tuple[str, ...]:
    """What is asked about each submission, in order."""
    return (HOLISTIC,) if mode == "holistic" else tuple(check.value for check in Check)


def answer_schema(question: str) -> dict[str, Any]:
    """Schema of the answer to a question. The reason comes first: a model that has to argue judges better."""
    if question == HOLISTIC:
        return _object(
            reason=_REASON,
            status={"enum": list(OUTCOMES)},
            exception=_CLASS,
            second_status={"enum": list(OUTCOMES)},
            second=_CLASS,
            confidence=_CONFIDENCE,
            line=_LINE,
            feedback=_FEEDBACK,
            bucket=_BUCKET,
        )
    if question == Check.QUALITY:
        return _object(reason=_REASON, bucket=_BUCKET, confidence=_CONFIDENCE)
    return _object(
        reason=_REASON,
        verdict={"enum": ["pass", "fail"]},
        confidence=_CONFIDENCE,
        exception=_CLASS,
        second=_CLASS,
        line=_LINE,
        feedback=_FEEDBACK,
    )


def _object(**properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
