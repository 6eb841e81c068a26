"""How well agents do in training at its end: what tells arms apart best, because so many more episodes are behind it.

Shares of valid submissions are compared where the domain has such a status. Where it has not, the reward would be no
substitute: most of it is the word of a world model, and an arm whose world model flatters would look best. So there it
is the mean score of the episodes that were really executed, which are few but drawn at random.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from wmrl_gym.reporting.bootstrap import interval_of

Kind = Literal["valid", "executed score"]


@dataclass(frozen=True)
class Part:
    """A mean over some of a run's training episodes."""

    mean: float
    episodes: int


@dataclass(frozen=True)
class TrainingEnd:
    """The last third of one run's steps."""

    first_step: int
    """Steps are counted from 1."""
    last_step: int
    valid: Part | None
    """Share of the submissions that were told to be valid; None if none was told any status."""
    knows_valid: bool
    """Whether the run was ever told "valid": if none was, the domain may have no such status."""
    executed_score: Part | None
    """Mean score of the executed episodes; None if none was executed."""

    def part(self, kind: Kind) -> Part | None:
        """What is known of that kind."""
        return self.valid if kind == "valid" else self.executed_score


@dataclass(frozen=True)
class InTraining:
    """The last third of an arm's steps, averaged over its seeds."""

    first_step: int
    last_step: int
    estimate: float
    low: float | None
    """Bounds of a bootstrap over seeds; None with one seed, which says nothing of the spread."""
    high: float | None
    episodes: int
    """Training episodes behind it, of all seeds."""


def training_end(records: Sequence[Mapping[str, Any]], episodes_per_step: int) -> TrainingEnd | None:
    """What a run's metrics say of its last third; None without a step.

    Args:
        records: metrics of each step.
        episodes_per_step: trajectories of a step.
    """
    if not records:
        return None
    last = records[-math.ceil(len(records) / 3) :]
    shares = [share for record in last if (share := _valid_share(record)) is not None]
    executed = [record for record in last if record.get("executed_score") is not None]
    # Runs that did not count the scores are weighed by their anchors, of which some may have no result.
    weights = [record.get("executed_scores", episodes_per_step * record["executed_share"]) for record in executed]
    scores = [record["executed_score"] for record in executed]
    return TrainingEnd(
        first_step=len(records) - len(last) + 1,
        last_step=len(records),
        valid=Part(float(np.mean(shares)), episodes_per_step * len(shares)) if shares else None,
        knows_valid=any("status/valid" in record for record in records),
        executed_score=(
            Part(float(np.average(scores, weights=weights)), round(sum(weights))) if scores else None
        ),
    )


def _valid_share(record: Mapping[str, Any]) -> float | None:
    """Of the turns of a step whose status is known; None if that is none.

    A status that nobody was told in a step is not written down: beside others it is a share of 0.
    """
    known = sum(share for key, share in record.items() if key.startswith("status/") and key != "status/unknown")
    return record.get("status/valid", 0.0) / known if known else None


def common_kind(ends: Sequence[TrainingEnd]) -> Kind | None:
    """What all runs of a comparison are compared by; None if nothing is known of their training."""
    if not ends:
        return None
    return "valid" if any(end.knows_valid for end in ends) else "executed score"


def over_seeds(
    ends: Sequence[TrainingEnd], kind: Kind, picks: NDArray[np.int64], level: float
) -> InTraining | None:
    """An arm's mean over seeds.

    Args:
        ends: of its runs, one per seed.
        kind: of the number.
        picks: indices of the seeds that each resample draws, shape (resamples, seeds).
        level: of the interval.

    Returns:
        The mean; None if it is unknown of a seed, because that of the others would be a mean of something else.
    """
    parts = [part for end in ends if (part := end.part(kind)) is not None]
    if not parts or len(parts) < len(picks[0]):
        return None
    means = np.asarray([part.mean for part in parts])
    interval = interval_of(float(means.mean()), means[picks].mean(axis=1), level)
    several = len(means) > 1
    return InTraining(
        first_step=ends[0].first_step,
        last_step=ends[0].last_step,
        estimate=interval.estimate,
        low=interval.low if several else None,
        high=interval.high if several else None,
        episodes=sum(part.episodes for part in parts),
    )
