"""The proxy in a named Ray actor, for verl's trainers that cannot be replaced.

verl's advantage estimators get rewards and uids and nothing else: no session tells the rows of a group apart. They
need not be told apart by it, for the reward itself says which score a row has, and equal scores of one group have equal
advantages. Only an unknown score must not look like a known one, so it is shown as a number that no scorer returns.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from wmrl_gym.integrations.group_scoring import GroupScoring
from wmrl_gym.integrations.verl_rows import DrawnGroup, FailureWatch, RowScore, score_rows
from wmrl_gym.integrations.verl_settings import CHECKPOINT_CALLBACK

ACTOR_NAME = "wmrl_proxy"
"""In the namespace of the Ray job, so that two trainings on one cluster never share a proxy."""
UNKNOWN_REWARD = 2.0**-126
"""Shown for an unknown score: the smallest normal number of 32 bits, which is 0 in every average."""


class ProxyState:
    """What the actor holds: the proxy, and the reports of trajectories that have not been scored yet.

    Args:
        scoring: the proxy.
    """

    def __init__(self, scoring: GroupScoring) -> None:
        self.scoring = scoring
        self._reports: dict[str, dict[int, RowScore]] = {}
        self._steps: dict[str, int] = {}
        self._watch = FailureWatch()
        self._metrics: dict[str, float | None] = {}

    def report(self, step: int, uid: str, session: int, score: RowScore) -> None:
        """Note the scores of a trajectory. One that is reported again has been generated again."""
        self._reports.setdefault(uid, {})[session] = score
        self._steps[uid] = step

    def score(self, uids: Sequence[str], shown: Sequence[float]) -> list[float | None]:
        """Advantage of each row of a step, None where its score is unknown. Its reports are forgotten then.

        Args:
            uids: of the rows, in any order, with as many rows of a trajectory as it has.
            shown: the rows' rewards.

        Raises:
            ValueError: if nothing was reported for a uid, or a reward is none that was reported.
            RuntimeError: if no group has two scored trajectories, or a scorer is dead.
        """
        rows_by_uid: dict[str, dict[float, RowScore]] = {}
        seen: dict[str, set[float]] = {}
        for uid, value in zip(uids, shown, strict=True):
            if uid not in rows_by_uid:
                rows_by_uid[uid] = {_shown(row): row for row in self._reported(uid).values()}
            if float(np.float32(value)) not in rows_by_uid[uid]:
                raise ValueError(
                    f"a row of prompt {uid!r} has the reward {value}, which no trajectory of it was given: "
                    f"{sorted(rows_by_uid[uid])}\n"
                    "  Something changes rewards between the reward manager and the estimator; take that away."
                )
            seen.setdefault(uid, set()).add(float(np.float32(value)))
        keys, rows = [], []
        for uid, values in seen.items():
            for session, row in self._reports[uid].items():
                if _shown(row) in values:  # others were scored and then lost
                    keys.append(f"{uid}_{session}_0")
                    rows.append(row)
        anchors = self.scoring.proxy.anchors
        drawn = {
            uid: DrawnGroup(uid, next(iter(self._reports[uid].values())).is_anchor, anchors.fraction) for uid in seen
        }
        scored = score_rows(self.scoring, keys, rows, drawn, self._watch)
        advantages = {
            (key.rsplit("_", 2)[0], _shown(row)): advantage
            for key, row, advantage in zip(keys, rows, scored.advantages, strict=True)
        }
        self._metrics = scored.step.metrics
        self._forget(seen)
        return [advantages[uid, float(np.float32(value))] for uid, value in zip(uids, shown, strict=True)]

    def metrics(self) -> dict[str, float | None]:
        """The proxy's metrics after the newest step; see `RewardProxy.metrics`."""
        return self._metrics

    def state_dict(self) -> dict[str, Any]:
        """See `GroupScoring.state_dict`."""
        return self.scoring.state_dict()

    def _reported(self, uid: str) -> dict[int, RowScore]:
        if uid not in self._reports:
            raise ValueError(
                f"no trajectory of prompt {uid!r} was reported, or it has been scored before\n"
                "  Set reward.reward_manager.name=wmrl, and let no agent loop of your own set reward_score."
            )
        return self._reports[uid]

    def _forget(self, scored: Any) -> None:
        """Forget these groups and all that are older: prompts of a step that never came back."""
        newest = max(self._steps[uid] for uid in scored)
        for uid in [uid for uid, step in self._steps.items() if uid in scored or step < newest]:
            del self._reports[uid], self._steps[uid]


def start_proxy_actor(scoring: GroupScoring, state_file: Path | None = None) -> Any:
    """Start the actor of this Ray job.

    Args:
        scoring: the proxy at step 0.
        state_file: a checkpoint's state to restore.

    Raises:
        RuntimeError: if this job has one already.
    """
    import ray

    if state_file is not None:
        scoring.restore(state_file)
    try:
        actor: Any = ray.remote(ProxyState).options(name=ACTOR_NAME, num_cpus=0).remote(scoring)
        ray.get(actor.metrics.remote())  # so that the name is known to all when this returns
    except ValueError as error:
        raise RuntimeError(
            f"this Ray job already has an actor {ACTOR_NAME!r}, with the proxy of another training: run each training "
            "in a job of its own"
        ) from error
    return actor


def proxy_actor() -> Any:
    """The actor of this Ray job.

    Raises:
        RuntimeError: if there is none.
    """
    import ray

    try:
        return ray.get_actor(ACTOR_NAME)
    except ValueError as error:
        raise RuntimeError(
            f"this Ray job has no actor {ACTOR_NAME!r}, which keeps the proxy: set "
            f"trainer.checkpoint_callback_class={CHECKPOINT_CALLBACK}, which starts it and saves its state"
        ) from error


def _shown(row: RowScore) -> float:
    """The reward that stands for a score, with the 32 bits that verl keeps."""
    return float(np.float32(row.shown)) if row.is_known else UNKNOWN_REWARD
