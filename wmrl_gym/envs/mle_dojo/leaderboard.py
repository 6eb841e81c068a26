"""Leaderboards, and the share of one that a score reaches (MLE-Dojo's HumanRank)."""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np


@dataclass(frozen=True)
class Leaderboard:
    """The scores of one board, in no particular order."""

    name: str
    """ "private" or "public"."""
    scores: tuple[float, ...]

    def position(self, score: float, higher_is_better: bool) -> int:
        """Rank that the score would take, from 1 (first) to ``len(scores) + 1`` (worse than all).

        A tie counts in favour of the newcomer. A NaN or infinite score is no result at all and comes last.
        """
        if not math.isfinite(score):
            return len(self.scores) + 1
        board = np.asarray(self.scores, float)
        better = board > score if higher_is_better else board < score
        return 1 + int(better.sum())

    def position_score(self, score: float, higher_is_better: bool) -> float:
        """``(N - position + 1) / N``: 1 for the first place, 0 if worse than everybody."""
        return (len(self.scores) - self.position(score, higher_is_better) + 1) / len(self.scores)


def human_rank(score: float, boards: Sequence[Leaderboard], higher_is_better: bool) -> float | None:
    """Mean position score over the boards, in [0, 1] (MLE-Dojo, ``_calculate_leaderboard_position``).

    MLE-Dojo splits the public training data anew, so one and the same score is ranked on the private and the public
    board.

    Returns:
        The percentile, or None if there is no board with a score.
    """
    ranks = [board.position_score(score, higher_is_better) for board in boards if board.scores]
    return sum(ranks) / len(ranks) if ranks else None


def read_leaderboard(path: Path, name: str) -> Leaderboard:
    """Read a board: one header line, the score in the second column.

    Raises:
        ValueError: if a row has no number there, naming file and line.
    """
    scores = []
    with path.open(newline="", encoding="utf-8-sig") as file:
        for line, row in enumerate(csv.reader(file), start=1):
            if line == 1 or not row:
                continue
            try:
                score = float(row[1])
            except (IndexError, ValueError):
                raise ValueError(
                    f"{path}, line {line}: expected 'rank,score' with a number as the score, found {','.join(row)!r}"
                ) from None
            if math.isfinite(score):
                scores.append(score)
    return Leaderboard(name, tuple(scores))
