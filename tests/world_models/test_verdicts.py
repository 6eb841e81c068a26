from __future__ import annotations

import pytest

from wmrl_gym.envs.mle_dojo.ladder import RewardLadder, Status
from wmrl_gym.scriptcheck.verdicts import RUNTIME_CHECKS, Check, Verdict
from wmrl_gym.world_models.verdicts import QUALITY_BUCKETS, aggregate, first_failure, quality_bucket

LADDER = RewardLadder()


def test_no_code_and_code_that_does_not_compile_score_lowest() -> None:
    assert aggregate([], LADDER, 0.9, has_code=False) == (Status.NO_CODE, 0.0)
    assert aggregate([], LADDER, 0.9, compiles=False) == (Status.SYNTAX_ERROR, 0.0)


@pytest.mark.parametrize("check", [c for c in RUNTIME_CHECKS if c is not Check.COMPUTE_BUDGET])
def test_a_failing_runtime_check_outweighs_submission_and_quality(check: Check) -> None:
    verdicts = [Verdict(Check.SUBMISSION, False), Verdict(check, False), Verdict(Check.QUALITY, True)]
    assert aggregate(verdicts, LADDER, 0.9) == (Status.RUNTIME_ERROR, 0.1)


def test_the_budget_check_tells_time_from_memory() -> None:
    slow = Verdict(Check.COMPUTE_BUDGET, False, exception="TimeoutError")
    large = Verdict(Check.COMPUTE_BUDGET, False, exception="MemoryError")
    assert aggregate([slow], LADDER, 0.9) == (Status.TIMEOUT, 0.1)
    assert aggregate([large], LADDER, 0.9) == (Status.OUT_OF_MEMORY, 0.1)


def test_a_failing_submission_check_scores_between_crash_and_valid() -> None:
    assert aggregate([Verdict(Check.SUBMISSION, False)], LADDER, 0.9) == (Status.INVALID_SUBMISSION, 0.2)


def test_no_opinion_fails_nothing_and_quality_decides() -> None:
    verdicts = [Verdict(check, None) for check in Check]
    assert aggregate(verdicts, LADDER, 0.2) == (Status.VALID, pytest.approx(0.6))


def test_without_an_opinion_on_quality_the_score_is_unknown() -> None:
    assert aggregate([Verdict(check, True) for check in Check], LADDER, None) == (Status.UNKNOWN, None)


def test_of_several_faults_the_first_in_execution_order_decides() -> None:
    late = Verdict(Check.API_CALLS, False, line=9, order=2)
    early = Verdict(Check.SHAPES_AND_DTYPES, False, line=30, order=1)
    assert first_failure([late, early]) is early


def test_raw_scores_take_the_papers_seven_values() -> None:
    valid = {aggregate([], LADDER, q)[1] for q in QUALITY_BUCKETS.values()}
    failed = {
        aggregate([], LADDER, 0.5, compiles=False)[1],
        aggregate([Verdict(Check.API_CALLS, False)], LADDER, 0.5)[1],
        aggregate([Verdict(Check.SUBMISSION, False)], LADDER, 0.5)[1],
    }
    assert len(valid | failed) == 7


def test_bucket_edges_are_those_of_the_paper() -> None:
    assert [quality_bucket(q) for q in (0.0, 0.09, 0.1, 0.29, 0.3, 0.59, 0.6, 1.0)] == [
        *("low", "low", "fair", "fair", "mid", "mid", "high", "high")
    ]


def test_a_verdict_is_plain_data() -> None:
    import json

    verdict = Verdict(Check.API_CALLS, False, 0.9, "TypeError", "ValueError", 3, "text", "why")
    assert json.loads(json.dumps(verdict.as_dict()))["check"] == "api_calls"
