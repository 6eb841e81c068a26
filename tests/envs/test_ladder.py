"""The reward ladder."""

from __future__ import annotations

import math

import pytest

from wmrl_gym.envs.mle_dojo.ladder import RewardLadder, Status


def test_a_valid_submission_that_beats_nobody_still_stands_above_every_failure() -> None:
    ladder = RewardLadder()
    worst_valid = ladder.score("valid", 0.0)
    assert worst_valid == 0.5
    failures = [status for status in Status if status not in (Status.VALID, Status.UNKNOWN)]
    assert max(ladder.score(status) or 0.0 for status in failures) < worst_valid


def test_rungs_are_those_of_the_paper() -> None:
    ladder = RewardLadder()
    scores = {status: ladder.score(status, 0.6) for status in Status}
    assert scores == {
        "no_code": 0.0,
        "syntax_error": 0.0,
        "runtime_error": 0.1,
        "timeout": 0.1,
        "out_of_memory": 0.1,
        "invalid_submission": 0.2,
        "valid": 0.8,
        "unknown": None,
    }


@pytest.mark.parametrize("percentile", [None, math.nan, -0.1, 1.1])
def test_a_valid_submission_needs_a_percentile(percentile: float | None) -> None:
    with pytest.raises(ValueError, match="percentile between 0 and 1"):
        RewardLadder().score(Status.VALID, percentile)


def test_an_unheard_of_status_is_an_error_and_not_a_zero() -> None:
    with pytest.raises(ValueError, match="fine"):
        RewardLadder().score("fine")
