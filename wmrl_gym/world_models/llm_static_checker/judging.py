"""From the opinions on a script to its status and score: the gate, abstentions, and the paper's aggregation."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence

from wmrl_gym.envs.mle_dojo.ladder import RewardLadder, Status
from wmrl_gym.scriptcheck.verdicts import RUNTIME_CHECKS, Check, Verdict
from wmrl_gym.world_models.llm_static_checker.schemas import HOLISTIC
from wmrl_gym.world_models.llm_static_checker.settings import JudgingSettings
from wmrl_gym.world_models.llm_static_checker.understood_answer import Reading
from wmrl_gym.world_models.verdicts import QUALITY_BUCKETS, aggregate, first_failure

_NO_LINE = 1_000_000
"""Where a fault without a line stands among the others: last."""


@dataclasses.dataclass(frozen=True)
class Judgement:
    """What becomes of a script, as far as anybody can tell."""

    status: Status
    score: float | None
    decisive: Verdict | None = None
    """The verdict that fails it."""
    percentile: float | None = None
    """Expected percentile of a valid submission."""


class FailureRates:
    """How often each check fails the scripts it has an opinion on, so far."""

    def __init__(self) -> None:
        self.counts: dict[str, list[int]] = {}
        """check -> [opinions, failures]"""

    def observe(self, verdicts: Sequence[Verdict]) -> None:
        """Count the verdicts that are opinions."""
        for verdict in verdicts:
            if verdict.passed is not None:
                count = self.counts.setdefault(verdict.check.value, [0, 0])
                count[0] += 1
                count[1] += not verdict.passed

    def rate(self, check: Check) -> float:
        """Laplace's rule of succession: (failures + 1) / (opinions + 2), so a check that never spoke counts half."""
        opinions, failures = self.counts.get(check.value, (0, 0))
        return (failures + 1) / (opinions + 2)


@dataclasses.dataclass(frozen=True)
class Judge:
    """The rules by which opinions become a score."""

    ladder: RewardLadder
    settings: JudgingSettings

    def gated(self, verdicts: Sequence[Verdict]) -> list[Verdict]:
        """The verdicts, with those that fail below the gate turned into passing ones."""
        gate = self.settings.confidence_gate
        return [
            dataclasses.replace(v, passed=True) if v.passed is False and v.confidence < gate else v for v in verdicts
        ]

    def judge(
        self, verdicts: Sequence[Verdict], bucket: str | None, rates: FailureRates, *, unserved: int = 0
    ) -> Judgement:
        """Status and score.

        Args:
            verdicts: one per check that was asked, ``passed=None`` where it abstained; gated already.
            bucket: quality bucket; None if there is no opinion.
            rates: for ``default_to="calibrated"``.
            unserved: how many abstentions are the engine's fault. Nothing is ever held against a script because a
                server was down.
        """
        silent = [v.check for v in verdicts if v.passed is None and v.check is not Check.QUALITY]
        if len(silent) > self.settings.max_abstentions or all(v.passed is None for v in verdicts):
            return Judgement(Status.UNKNOWN, None)
        quality = None if bucket is None else QUALITY_BUCKETS[bucket]
        if silent and self.settings.default_to == "fail":
            if unserved:
                return Judgement(Status.UNKNOWN, None)
            verdicts = [_held_against(v) if v.check in silent else v for v in verdicts]
        status, score = aggregate(verdicts, self.ladder, quality)
        if silent and self.settings.default_to == "calibrated" and score is not None:
            status, score = self._mixture(status, score, silent, first_failure(verdicts), rates)
        decisive = first_failure(verdicts)
        return Judgement(status, score, decisive, quality if status is Status.VALID else None)

    def _mixture(
        self, status: Status, score: float, silent: Sequence[Check], failure: Verdict | None, rates: FailureRates
    ) -> tuple[Status, float]:
        """Most probable status and expected score, if each silent check fails independently at its own rate."""
        if failure is not None and failure.check in RUNTIME_CHECKS:
            return status, score
        crashes = 1 - math.prod(1 - rates.rate(check) for check in silent if check in RUNTIME_CHECKS)
        invalid = (1 - crashes) * (rates.rate(Check.SUBMISSION) if Check.SUBMISSION in silent else 0.0)
        chances = [
            (1 - crashes - invalid, status, score),
            (crashes, Status.RUNTIME_ERROR, self.ladder.runtime_error),
            (invalid, Status.INVALID_SUBMISSION, self.ladder.invalid_submission),
        ]
        likeliest = max(chances, key=lambda chance: chance[0])[1]
        return likeliest, sum(chance * value for chance, _, value in chances)


def _held_against(verdict: Verdict) -> Verdict:
    return dataclasses.replace(verdict, passed=False, reason="no answer, which counts as failing", order=_NO_LINE)


def verdicts_of(readings: Mapping[str, Reading | None]) -> tuple[list[Verdict], str | None]:
    """The verdicts, and the quality bucket, that the answers to all questions about a script amount to."""
    if HOLISTIC in readings:
        return _holistic(readings[HOLISTIC])
    quality = readings.get(Check.QUALITY.value)
    verdicts = [_verdict(Check(question), reading) for question, reading in readings.items()]
    return verdicts, None if quality is None else quality.bucket


def _verdict(check: Check, reading: Reading | None) -> Verdict:
    if reading is None:
        return Verdict(check, None, 0.0, reason="no usable answer")
    passed = check is Check.QUALITY or reading.label == "pass"
    exception = reading.exception
    if check is Check.COMPUTE_BUDGET and exception is not None:
        exception = "MemoryError" if "memory" in exception.lower() else "TimeoutError"
    reason = f"{reading.label}: {reading.reason}" if check is Check.QUALITY else reading.reason
    return Verdict(
        check,
        passed,
        reading.confidence,
        exception=None if passed else exception,
        second=reading.second,
        line=reading.line,
        feedback="" if passed else reading.feedback,
        reason=reason,
        # The line stands for the time: scripts run mostly from top to bottom.
        order=reading.line or _NO_LINE,
    )


_CHECK_OF = {
    Status.RUNTIME_ERROR.value: (Check.OTHER_RUNTIME, None),
    Status.TIMEOUT.value: (Check.COMPUTE_BUDGET, "TimeoutError"),
    Status.OUT_OF_MEMORY.value: (Check.COMPUTE_BUDGET, "MemoryError"),
    Status.INVALID_SUBMISSION.value: (Check.SUBMISSION, None),
}


def _holistic(reading: Reading | None) -> tuple[list[Verdict], str | None]:
    """One call names an outcome and no check: any exception is filed under "other runtime"."""
    asked = (Check.COMPUTE_BUDGET, Check.OTHER_RUNTIME, Check.SUBMISSION, Check.QUALITY)
    if reading is None:
        return [Verdict(check, None, 0.0, reason="no usable answer") for check in asked], None
    failing, exception = _CHECK_OF.get(reading.label, (None, None))
    verdicts = []
    for check in asked:
        if check is not failing:
            verdicts.append(Verdict(check, True, reading.confidence))
            continue
        verdicts.append(
            Verdict(
                check,
                False,
                reading.confidence,
                exception=exception or reading.exception,
                second=reading.second or reading.second_status,
                line=reading.line,
                feedback=reading.feedback,
                reason=reading.reason,
            )
        )
    return verdicts, reading.bucket
