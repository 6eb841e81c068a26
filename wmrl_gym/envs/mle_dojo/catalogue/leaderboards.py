"""Reference leaderboards: scores that a pool of scripted solutions really reached.

They are not human scores and are labelled "reference" wherever they appear. `reference_solutions` makes them.
"""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

from wmrl_gym.envs.mle_dojo.catalogue.spec import CompetitionSpec

FOLDER = Path(__file__).parent / "leaderboards"


def leaderboard_file(name: str) -> Path:
    """The package's file with columns solution, score, seconds."""
    return FOLDER / f"{name}.csv"


def reference_scores(name: str) -> list[float]:
    """Scores of a competition's reference solutions, in the order they were run; empty if none was run yet."""
    path = leaderboard_file(name)
    if not path.is_file():
        return []
    with path.open(newline="", encoding="utf-8") as lines:
        return [float(row["score"]) for row in csv.DictReader(lines)]


def split_boards(spec: CompetitionSpec, scores: list[float]) -> tuple[list[float], list[float]]:
    """Halve the scores at random (fixed seed) into a public and a private board, each best first.

    MLE-Dojo ranks a score on both boards and averages, so two different boards rank twice as finely as one copied.
    """
    order = np.random.default_rng(spec.seed).permutation(len(scores))
    public, private = ([scores[i] for i in order[start::2]] for start in (0, 1))
    return (
        sorted(public, reverse=spec.higher_is_better),
        sorted(private, reverse=spec.higher_is_better),
    )


def render_board(scores: list[float]) -> str:
    """A board in MLE-Dojo's format, best score first."""
    lines = ["rank,score", *(f"{rank},{score:.6f}" for rank, score in enumerate(scores, start=1))]
    return "\n".join(lines) + "\n"
