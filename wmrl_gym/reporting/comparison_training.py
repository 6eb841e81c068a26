"""How well agents do in training at its end: what tells arms apart best, because so many more episodes are behind it.

Shares of submissions that achieved something are compared where the domain has a status that says so. Where it has
not, the reward would be no substitute: most of it is the word of a world model, and an arm whose world model flatters
would look best. So there it is the mean score of the episodes that were really executed, which are few but drawn at
random.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from wmrl_gym.reporting.bootstrap import interval_of

Kind = Literal["achieved", "executed score"]


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
    achieved: Part | None
    """Share of the submissions that were told the domain's status of success; None if none was told any status."""
    knows_success: bool
    """Whether the domain has such a status."""
    executed_score: Part | None
    """Mean score of the executed episodes; None if none was executed."""

    def part(self, kind: Kind) -> Part | None:
        """What is known of that kind."""
        return self.achieved if kind == "achieved" else self.executed_score


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


def training_end(
    records: Sequence[Mapping[str, Any]], episodes_per_step: int, success_status: str | None = None
) -> TrainingEnd | None:
    """What a run's metrics say of its last third; None without a step.

    Args:
        records: metrics of each step.
        episodes_per_step: trajectories of a step.
        success_status: what the domain calls an outcome that achieved something; None if it does not say.
    """
    if not records:
        return None
    last = records[-math.ceil(len(records) / 3) :]
    told = [] if success_status is None else [_share_of(success_status, record) for record in last]
    shares = [share for share in told if share is not None]
    executed = [record for record in last if record.get("executed_score") is not None]
    # Runs that did not count the scores are weighed by their anchors, of which some may have no result.
    weights = [record.get("executed_scores", episodes_per_step * record["executed_share"]) for record in executed]
    scores = [record["executed_score"] for record in executed]
    return TrainingEnd(
        first_step=len(records) - len(last) + 1,
        last_step=len(records),
        achieved=Part(float(np.mean(shares)), episodes_per_step * len(shares)) if shares else None,
        knows_success=success_status is not None,
        executed_score=(Part(float(np.average(scores, weights=weights)), round(sum(weights))) if scores else None),
    )


def _share_of(status: str, record: Mapping[str, Any]) -> float | None:
    """Of the turns of a step whose status is known; None if that is none.

    A status that nobody was told in a step is not written down: beside others it is a share of 0.
    """
    known = sum(share for key, share in record.items() if key.startswith("status/") and key != "status/unknown")
    return record.get(f"status/{status}", 0.0) / known if known else None


def common_kind(ends: Sequence[TrainingEnd]) -> Kind | None:
    """What all runs of a comparison are compared by; None if nothing is known of their training."""
    if not ends:
        return None
    return "achieved" if any(end.knows_success for end in ends) else "executed score"


def over_seeds(ends: Sequence[TrainingEnd], kind: Kind, picks: NDArray[np.int64], level: float) -> InTraining | None:
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
