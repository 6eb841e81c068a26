"""How the verdicts of the eight checks become a status and a score.

Any world model of scripts speaks this language, whether its verdicts come from static analysis or from a language
model (paper, "The world model"): so that they can be compared check by check, and share one aggregation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from wmrl_gym.envs.mle_dojo.ladder import RewardLadder, Status
from wmrl_gym.scriptcheck.verdicts import RUNTIME_CHECKS, Check, Verdict

QUALITY_BUCKETS: Mapping[str, float] = {"low": 0.05, "fair": 0.20, "mid": 0.45, "high": 0.75}
"""Percentile that stands for each bucket (paper, aggregation)."""

BUCKET_EDGES: tuple[tuple[float, str], ...] = ((0.1, "low"), (0.3, "fair"), (0.6, "mid"))
"""Upper edges of the buckets on real percentiles; above the last one it is "high"."""


def quality_bucket(percentile: float) -> str:
    """The bucket of a percentile in [0, 1]."""
    return next((name for edge, name in BUCKET_EDGES if percentile < edge), "high")


def first_failure(verdicts: Sequence[Verdict]) -> Verdict | None:
    """The verdict that decides: the first failing runtime check in execution order, else a failing submission."""
    runtime = [v for v in verdicts if v.passed is False and v.check in RUNTIME_CHECKS]
    if runtime:
        return min(runtime, key=lambda v: v.order)
    return next((v for v in verdicts if v.passed is False and v.check is Check.SUBMISSION), None)


def aggregate(
    verdicts: Sequence[Verdict],
    ladder: RewardLadder,
    quality: float | None,
    *,
    compiles: bool = True,
    has_code: bool = True,
) -> tuple[Status, float | None]:
    """Status and score of a script, in the paper's order.

    No code or code that does not compile; then any failing runtime check; then a failing submission check; otherwise
    it is valid at percentile `quality`. A missing verdict or one without an opinion fails nothing.

    Args:
        verdicts: at most one per check.
        ladder: the rungs' scores.
        quality: percentile in [0, 1] that a valid submission is expected to reach; None if there is no opinion, in
            which case a script that passes everything else has an unknown score.
        compiles: whether the code compiles.
        has_code: whether there is any code.
    """
    failure = first_failure(verdicts)
    if not has_code:
        status = Status.NO_CODE
    elif not compiles:
        status = Status.SYNTAX_ERROR
    elif failure is None:
        status = Status.VALID if quality is not None else Status.UNKNOWN
    elif failure.check is Check.SUBMISSION:
        status = Status.INVALID_SUBMISSION
    elif failure.check is Check.COMPUTE_BUDGET:
        status = Status.OUT_OF_MEMORY if failure.exception == "MemoryError" else Status.TIMEOUT
    else:
        status = Status.RUNTIME_ERROR
    return status, ladder.score(status, quality)
