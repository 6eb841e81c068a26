"""HumanRank, against a literal reading of MLE-Dojo's definition."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wmrl_gym.envs.mle_dojo.leaderboard import Leaderboard, human_rank, read_leaderboard

values = st.integers(-5, 5).map(float) | st.floats(-10, 10)


def walk_down_the_board(score: float, scores: list[float], higher_is_better: bool) -> float:
    """Position = first place, best first, whose holder is not better; (N - position + 1) / N."""
    position = len(scores) + 1
    for place, holder in enumerate(sorted(scores, reverse=higher_is_better), start=1):
        if (score >= holder) if higher_is_better else (score <= holder):
            position = place
            break
    return (len(scores) - position + 1) / len(scores)


@given(values, st.lists(values, min_size=1, max_size=12), st.lists(values, min_size=1, max_size=12), st.booleans())
def test_percentile_is_the_mean_position_score_of_both_boards(
    score: float, private: list[float], public: list[float], higher_is_better: bool
) -> None:
    boards = [Leaderboard("private", tuple(private)), Leaderboard("public", tuple(public))]
    expected = sum(walk_down_the_board(score, board, higher_is_better) for board in (private, public)) / 2
    assert human_rank(score, boards, higher_is_better) == pytest.approx(expected)


def test_a_tie_counts_for_the_newcomer() -> None:
    board = Leaderboard("private", (0.9, 0.8, 0.8, 0.7))
    assert board.position(0.8, higher_is_better=True) == 2
    assert board.position(0.9, higher_is_better=True) == 1
    assert board.position(0.8, higher_is_better=False) == 2


@pytest.mark.parametrize("score", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("higher_is_better", [True, False])
def test_a_score_that_is_no_number_reaches_nothing(score: float, higher_is_better: bool) -> None:
    assert human_rank(score, [Leaderboard("private", (1.0, 2.0))], higher_is_better) == 0.0


def test_without_a_scored_board_there_is_no_percentile() -> None:
    assert human_rank(0.5, [], True) is None
    assert human_rank(0.5, [Leaderboard("public", ())], True) is None


def test_the_only_board_decides_alone() -> None:
    assert human_rank(1.5, [Leaderboard("public", ()), Leaderboard("private", (1.0, 2.0))], True) == 0.5


def test_a_row_without_a_number_is_named(tmp_path: Path) -> None:
    path = tmp_path / "board.csv"
    path.write_text("rank,score\n1,0.5\n2,best\n")
    with pytest.raises(ValueError, match=r"board\.csv, line 3.*'2,best'"):
        read_leaderboard(path, "public")
