"""What an answer says, once it is understood: its fields checked one by one."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any

from wmrl_gym.envs.mle_dojo.feedback import clip_middle
from wmrl_gym.scriptcheck.verdicts import Check
from wmrl_gym.world_models.llm_static_checker.answers import as_text, candidates, writable
from wmrl_gym.world_models.llm_static_checker.schemas import HOLISTIC, OUTCOMES
from wmrl_gym.world_models.verdicts import QUALITY_BUCKETS

_REASON_CHARS = 600
_FEEDBACK_CHARS = 2000


@dataclass(frozen=True)
class Reading:
    """One answer to one question."""

    label: str
    """What it decides: "pass" or "fail", a quality bucket, or (holistic) a status."""
    confidence: float
    """0 to 1."""
    reason: str = ""
    exception: str | None = None
    second: str | None = None
    second_status: str | None = None
    """Holistic only."""
    line: int | None = None
    feedback: str = ""
    bucket: str | None = None
    """Quality bucket; None where it is not asked for, or not told."""
    repaired: bool = False
    """Whether the answer was not the bare object that was asked for."""


def read_answer(question: str, answer: object, lines: int, *, finished: bool = True) -> Reading | None:
    """Understand an answer; None if that would take guessing.

    Without label and confidence there is no reading. Any other field that is missing or wrong is dropped. Of several
    objects in one answer those that make sense must agree.

    Args:
        question: name of a check, or "holistic".
        answer: what the engine returned as text.
        lines: number of lines of the script; a line beyond them is dropped.
        finished: whether the model ended by itself.
    """
    key = {HOLISTIC: "status", Check.QUALITY.value: "bucket"}.get(question, "verdict")
    objects, repaired = candidates(as_text(answer), key, finished=finished)
    readings = [reading for item in objects if (reading := _reading(question, item, key, lines, repaired)) is not None]
    agree = len({reading.label for reading in readings}) == 1
    return readings[-1] if agree else None


def _reading(question: str, item: dict[str, Any], key: str, lines: int, repaired: bool) -> Reading | None:
    label, confidence = _label(question, item[key]), _confidence(item.get("confidence"))
    if label is None or confidence is None:
        return None
    if question == Check.QUALITY:
        return Reading(label, confidence, _text(item.get("reason"), _REASON_CHARS), bucket=label, repaired=repaired)
    return Reading(
        label,
        confidence,
        reason=_text(item.get("reason"), _REASON_CHARS),
        exception=_class_name(item.get("exception")),
        second=_class_name(item.get("second")),
        second_status=_choice(item.get("second_status"), OUTCOMES),
        line=_line(item.get("line"), lines),
        feedback=_text(item.get("feedback"), _FEEDBACK_CHARS),
        bucket=_choice(item.get("bucket"), tuple(QUALITY_BUCKETS)),
        repaired=repaired,
    )


def _label(question: str, value: object) -> str | None:
    if question == HOLISTIC:
        return _choice(value, OUTCOMES)
    if question == Check.QUALITY:
        return _choice(value, tuple(QUALITY_BUCKETS))
    word = {"passed": "pass", "failed": "fail"}.get(_word(value) or "", value)
    return _choice(word, ("pass", "fail"))


def _word(value: object) -> str | None:
    return re.sub(r"[\s-]+", "_", value.strip(" \t\r\n.!\"'").lower()) if isinstance(value, str) else None


def _choice(value: object, choices: tuple[str, ...]) -> str | None:
    word = _word(value)
    return next((str(choice) for choice in choices if choice == word), None)


def _confidence(value: object) -> float | None:
    """A number from 0 to 1; text that holds one, or a percentage. 95 alone could be a scale of any length."""
    if isinstance(value, str):
        match = re.fullmatch(r"\s*(\d{1,3}(?:\.\d{1,20})?|\.\d{1,20})\s*(%?)\s*", value, re.ASCII)
        if match is None:
            return None
        value = float(match[1]) / (100 if match[2] else 1)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    # Compared before it is converted: an integer may be too large for a float.
    return float(value) if 0 <= value <= 1 and math.isfinite(value) else None


def _class_name(value: object) -> str | None:
    """The class alone, without its module or message."""
    if not isinstance(value, str):
        return None
    match = re.match(r"\s*(?:[A-Za-z_]\w*\.)*([A-Z]\w{0,79})\s*(?:[:(]|$)", value[:500], re.ASCII)
    return None if match is None or match[1] in ("None", "NaN", "NULL") else match[1]


def _line(value: object, lines: int) -> int | None:
    if isinstance(value, str):
        match = re.fullmatch(r"\s*(?:line\s+)?(\d{1,7})\s*", value, re.ASCII | re.IGNORECASE)
        value = int(match[1]) if match is not None else None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 1 <= value <= lines:
        return None
    return int(value) if value == int(value) else None


def _text(value: object, max_chars: int) -> str:
    return clip_middle(writable(value).strip(), max_chars) if isinstance(value, str) else ""
