"""From verl's rows to the proxy's groups and back.

verl names a row "{uid}_{session}_{index}": one uid for each prompt of a step, one session for each trajectory of its
group, one index for each output of a trajectory (context that was summarised begins a new one). Rows come in any order,
padded up to a multiple of the machine's size, and without the sessions that failed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from wmrl_gym.core import ExecutorError, WorldModelError
from wmrl_gym.integrations.group_scoring import GroupScoring
from wmrl_gym.proxy.reward_proxy import ScoredStep

MAX_CONSECUTIVE_FAILURES = 16
"""Executions in a row without a score after which training stops."""


@dataclass(frozen=True)
class RowScore:
    """What the reward manager knows of one trajectory."""

    predicted: float | None
    executed: float | None
    is_anchor: bool
    error: str = ""
    """Why a score is unknown, if its scorer raised."""

    @property
    def shown(self) -> float:
        """The reward that verl logs: of an anchor the executed score, else the predicted one; 0 where unknown."""
        score = self.executed if self.is_anchor else self.predicted
        return 0.0 if score is None else score

    @property
    def is_known(self) -> bool:
        """Whether `shown` is a score."""
        return (self.executed if self.is_anchor else self.predicted) is not None

    def to_extra_info(self) -> dict[str, float | str]:
        """As verl carries it beside a row. It averages what it finds there: only numbers, and flags for the unknown."""
        return {
            "wmrl_predicted": 0.0 if self.predicted is None else self.predicted,
            "wmrl_predicted_known": float(self.predicted is not None),
            "wmrl_executed": 0.0 if self.executed is None else self.executed,
            "wmrl_executed_known": float(self.executed is not None),
            "wmrl_is_anchor": float(self.is_anchor),
            "wmrl_error": self.error,
        }

    @classmethod
    def from_extra_info(cls, info: Mapping[str, Any] | None, row: str) -> RowScore:
        """Read what `to_extra_info` wrote.

        Raises:
            ValueError: if it is not there: then another reward manager scored this row.
        """
        try:
            return cls(
                float(info["wmrl_predicted"]) if info["wmrl_predicted_known"] else None,  # type: ignore[index]
                float(info["wmrl_executed"]) if info["wmrl_executed_known"] else None,  # type: ignore[index]
                bool(info["wmrl_is_anchor"]),  # type: ignore[index]
                str(info["wmrl_error"]),  # type: ignore[index]
            )
        except (KeyError, TypeError) as error:
            raise ValueError(
                f"row {row!r} carries no scores of the proxy's reward manager (reward_extra_info: {info!r})\n"
                "  Set reward.reward_manager.name=wmrl, and let no agent loop of your own set reward_score."
            ) from error


@dataclass(frozen=True)
class DrawnGroup:
    """A group as it was drawn, before its trajectories were generated."""

    key: str
    is_anchor: bool
    propensity: float


@dataclass(frozen=True, eq=False)
class ScoredRows:
    """What a step's rows teach, in the order in which they were given."""

    advantages: list[float | None]
    """Group weight times centred reward; None of padding and where nothing is known, which must teach nothing."""
    step: ScoredStep


STEPS_WITHOUT_PREDICTION = 3
"""So many steps in a row without a single predicted score stop a run, also where no scorer raises."""


class FailureWatch:
    """Stops a run whose scorers are dead, which would silently turn into training on one stream alone."""

    def __init__(self) -> None:
        self._failures = 0
        self._steps_without_prediction = 0

    def look(self, rows: Sequence[RowScore]) -> None:
        """Look at the trajectories of one step.

        Raises:
            WorldModelError: if no trajectory outside the anchors has a predicted score: at once if scorers raised and
                the step has two or more trajectories, else after `STEPS_WITHOUT_PREDICTION` such steps in a row.
            ExecutorError: after `MAX_CONSECUTIVE_FAILURES` anchors in a row without an executed score.
        """
        errors = [row.error for row in rows if row.error]
        last = f"\n  the last error: {errors[-1]}" if errors else ""
        others = [row for row in rows if not row.is_anchor]
        is_blind = bool(others) and all(row.predicted is None for row in others)
        self._steps_without_prediction = self._steps_without_prediction + 1 if is_blind else 0
        raised = is_blind and len(rows) > 1 and any(row.error for row in others)
        if raised or self._steps_without_prediction >= STEPS_WITHOUT_PREDICTION:
            raise WorldModelError(
                f"no trajectory of this step ({len(others)} that are not executed) has a predicted score{last}\n"
                "  Mend what wmrl.scorer names and resume from the last checkpoint."
            )
        for row in rows:
            if row.is_anchor:
                self._failures = self._failures + 1 if row.executed is None else 0
            if self._failures >= MAX_CONSECUTIVE_FAILURES:
                raise ExecutorError(
                    f"{self._failures} executions in a row gave no score{last}\n"
                    "  Without executions there are no anchors. Mend the executor and resume from the last checkpoint."
                )


def score_rows(
    scoring: GroupScoring,
    row_keys: Sequence[str],
    rows: Sequence[RowScore | None],
    drawn: Mapping[str, DrawnGroup],
    watch: FailureWatch,
) -> ScoredRows:
    """Score a step by verl's row keys, and begin the next one.

    Args:
        scoring: the proxy; it learns from this step's anchors.
        row_keys: verl's keys, one per row. Rows of one trajectory share its advantage.
        rows: their scores; None is padding.
        drawn: how each group was drawn, by uid.
        watch: stops the run if the scorers are dead.

    Raises:
        ValueError: if a row was not drawn, if rows of one trajectory or one group contradict each other, or if a
            score is NaN or infinite. Nothing is learned then.
        RuntimeError: if no group has two scored trajectories, or a scorer is dead.
    """
    sessions: dict[str, dict[str, RowScore]] = {}
    for row_key, row in zip(row_keys, rows, strict=True):
        if row is None:
            continue
        uid, session = split_row_key(row_key)
        known = sessions.setdefault(uid, {}).setdefault(session, row)
        _check_row(row_key, row, known, drawn.get(uid))
    watch.look([row for group in sessions.values() for row in group.values()])
    uids = list(sessions)
    predicted = [[row.predicted for row in sessions[uid].values()] for uid in uids]
    executed = [[row.executed for row in sessions[uid].values()] for uid in uids]
    groups = [drawn[uid] for uid in uids]
    if not any(sum(row.is_known for row in group.values()) > 1 for group in sessions.values()):
        raise RuntimeError(
            f"no group of this step ({len(uids)} of them) has two trajectories with a score: there is nothing to learn "
            "from\n  See the reward workers' log for what their scorer met."
        )
    done = scoring.score(
        [group.key for group in groups],
        [group.is_anchor for group in groups],
        predicted,
        executed,
        [group.propensity for group in groups],
    )
    found = {
        (uid, session): advantage
        for uid, advantages in zip(uids, done.advantages, strict=True)
        for session, advantage in zip(sessions[uid], advantages, strict=True)
    }
    return ScoredRows(
        [None if row is None else found[split_row_key(row_key)] for row_key, row in zip(row_keys, rows, strict=True)],
        done.scored,
    )


def split_row_key(row_key: str) -> tuple[str, str]:
    """Uid and session of a row's key.

    Raises:
        ValueError: if it is no key of a row.
    """
    parts = row_key.rsplit("_", 2)
    if len(parts) != 3:
        raise ValueError(f"row key {row_key!r} is not of the form '{{uid}}_{{session}}_{{index}}' of verl 0.9")
    return parts[0], parts[1]


def _check_row(row_key: str, row: RowScore, known: RowScore, group: DrawnGroup | None) -> None:
    if group is None:
        raise ValueError(
            f"row {row_key!r} belongs to a prompt that was not drawn in this step: it was scored before, or generated "
            "by something else than this trainer"
        )
    if row != known:
        raise ValueError(f"row {row_key!r} has other scores than the first row of its trajectory: {row} and {known}")
    if row.is_anchor != group.is_anchor:
        raise ValueError(
            f"row {row_key!r} was scored as {'an anchor' if row.is_anchor else 'no anchor'}, but its group was drawn "
            "otherwise"
        )
    for name, score in (("predicted", row.predicted), ("executed", row.executed)):
        if score is not None and not math.isfinite(score):
            raise ValueError(f"{name} score of row {row_key!r} is {score}: give a finite number, or None if unknown")
