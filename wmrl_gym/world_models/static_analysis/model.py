"""The world model without a language model: static analysis of the script, in place of running it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Literal

from wmrl_gym.core import Outcome, Submission
from wmrl_gym.envs.mle_dojo.feedback import FeedbackStyle, render_feedback
from wmrl_gym.envs.mle_dojo.ladder import RewardLadder, Status
from wmrl_gym.envs.mle_dojo.runner import syntax_problem
from wmrl_gym.scriptcheck.check import check_script
from wmrl_gym.scriptcheck.limits import MAX_SOURCE
from wmrl_gym.scriptcheck.overview import Overview
from wmrl_gym.scriptcheck.verdicts import Check, Verdict
from wmrl_gym.world_models.static_analysis.quality import expected_percentile
from wmrl_gym.world_models.verdicts import QUALITY_BUCKETS, aggregate, first_failure, quality_bucket


class StaticAnalysis:
    """Predicts what executing a script would give, check by check, without executing any of it.

    It is fast (milliseconds a script), deterministic, and certain where it fails a script: what it cannot follow, it
    passes. So it errs on the lenient side, which is what debiasing is for.

    Implements `wmrl_gym.core.WorldModel`. Submissions need ``context["overview"]``.

    Args:
        budget_seconds: wall-clock limit of the sandbox, for the compute check.
        memory_mb: memory limit of the sandbox.
        ladder: scores of the statuses.
        quality: "bucket" scores a valid script by its bucket's percentile, as the paper does (seven raw scores in
            all); "continuous" by the estimate itself.
        feedback_chars: length of the feedback, as the environment's own.
        feedback_style: "full", "compact", or None to go by the length.
        extra_columns: whether graders overlook superfluous columns of a submission.
    """

    def __init__(
        self,
        budget_seconds: float = 20.0,
        memory_mb: float = 2048.0,
        ladder: RewardLadder | None = None,
        *,
        quality: Literal["bucket", "continuous"] = "bucket",
        feedback_chars: int = 2000,
        feedback_style: FeedbackStyle | None = None,
        extra_columns: bool = True,
    ) -> None:
        if quality not in ("bucket", "continuous"):
            raise ValueError(f"quality is {quality!r}: choose 'bucket' or 'continuous'")
        self.budget_seconds = budget_seconds
        self.memory_mb = memory_mb
        self.ladder = ladder if ladder is not None else RewardLadder()
        self.quality = quality
        self.feedback_chars = feedback_chars
        self.feedback_style = feedback_style
        self.extra_columns = extra_columns
        self.failures = 0
        """Submissions so far for which the analysis itself failed; their outcome is unknown."""

    def predict(self, submissions: Sequence[Submission]) -> list[Outcome]:
        """One outcome per submission, in order. An item that cannot be analysed has the score None."""
        return [self._predict_one(submission) for submission in submissions]

    def verdicts(self, script: str, overview: Overview) -> tuple[list[Verdict], float | None, float]:
        """The eight verdicts on a script that compiles.

        Returns:
            (verdicts in the paper's order, expected percentile or None, estimated run time in seconds).
        """
        report = check_script(
            script,
            overview,
            budget_seconds=self.budget_seconds,
            memory_mb=self.memory_mb,
            extra_columns=self.extra_columns,
        )
        percentile: float | None = None
        if report.ended == "end":
            percentile = expected_percentile(overview, report.submission)
        elif report.ended == "limit":
            percentile = QUALITY_BUCKETS["low"]
        quality = _quality_verdict(percentile)
        if report.ended == "refused":
            quality = Verdict(Check.QUALITY, None, 0.0, reason=report.reason)
        return [*report.verdicts, quality], percentile, report.seconds

    def _predict_one(self, submission: Submission) -> Outcome:
        started = time.perf_counter()
        try:
            return self._outcome(submission, started)
        except Exception as error:
            self.failures += 1
            return Outcome(
                score=None,
                status=Status.UNKNOWN.value,
                feedback="",
                source="world_model",
                seconds=time.perf_counter() - started,
                details={"analysis_error": f"{type(error).__name__}: {error}"},
            )

    def _outcome(self, submission: Submission, started: float) -> Outcome:
        overview = submission.context.get("overview")
        if not isinstance(overview, Overview):
            raise TypeError("static analysis needs submission.context['overview'], an Overview")
        script = str(submission.content)
        # Compiling megabytes takes seconds: a script that is too long is not even parsed.
        problem = syntax_problem(script) if len(script) <= MAX_SOURCE else None
        has_code = bool(script.strip())
        found: list[Verdict] = []
        percentile: float | None = None
        seconds = 0.0
        if problem is None and has_code:
            found, percentile, seconds = self.verdicts(script, overview)
            if percentile is not None and self.quality == "bucket":
                percentile = QUALITY_BUCKETS[quality_bucket(percentile)]
        status, score = aggregate(found, self.ladder, percentile, compiles=problem is None, has_code=has_code)
        decisive = first_failure(found)
        return Outcome(
            score=score,
            status=status.value,
            feedback=self._feedback(status, decisive, problem, percentile, overview),
            source="world_model",
            seconds=time.perf_counter() - started,
            details=_details(found, decisive, problem, percentile if status is Status.VALID else None, seconds),
        )

    def _feedback(
        self,
        status: Status,
        decisive: Verdict | None,
        problem: str | None,
        percentile: float | None,
        overview: Overview,
    ) -> str:
        invalid = status is Status.INVALID_SUBMISSION and decisive is not None
        crashed = status is Status.RUNTIME_ERROR and decisive is not None
        return render_feedback(
            status,
            stderr=problem or (decisive.feedback if crashed and decisive is not None else ""),
            percentile=percentile if status is Status.VALID else None,
            metric=overview.metric,
            higher_is_better=overview.higher_is_better,
            max_chars=self.feedback_chars,
            problem=decisive.feedback if invalid and decisive is not None else None,
            wall_seconds=self.budget_seconds,
            style=self.feedback_style,
        )


def _quality_verdict(percentile: float | None) -> Verdict:
    if percentile is None:
        return Verdict(Check.QUALITY, None, 0.0, reason="not reached")
    bucket = quality_bucket(percentile)
    return Verdict(Check.QUALITY, True, 0.5, reason=f"{bucket}: about percentile {percentile:.2f}")


def _details(
    found: list[Verdict], decisive: Verdict | None, problem: str | None, percentile: float | None, seconds: float
) -> dict[str, Any]:
    exception = decisive.exception if decisive is not None else "SyntaxError" if problem is not None else None
    return {
        "verdicts": [verdict.as_dict() for verdict in found],
        "exception": exception,
        "second": decisive.second if decisive is not None else None,
        "line": decisive.line if decisive is not None else None,
        "confidence": decisive.confidence if decisive is not None else None,
        "percentile": percentile,
        "problem": decisive.reason if decisive is not None else problem,
        "estimated_seconds": seconds,
    }
