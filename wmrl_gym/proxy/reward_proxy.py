"""The reward proxy: anchoring, debiasing and fusion in the paper's order, and the ledger of what they saw.

One training step goes: draw the anchors; score them with both scorers; put the pairs into the ledger; refit the map;
measure the residual on *calibrated* scores; calibrate the rest; form the weights. Another order would measure the world
model's raw error, or weigh by a residual of the step before.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wmrl_gym.core import Group, Trajectory
from wmrl_gym.proxy.anchoring import AnchorDraw, RandomAnchors
from wmrl_gym.proxy.debiasing import IsotonicDebiaser
from wmrl_gym.proxy.fusion import InverseVarianceFusion


@dataclass(frozen=True)
class Pair:
    """One trajectory scored by both: a line of the ledger."""

    step: int
    group_key: str
    predicted: float
    calibrated: float
    """What the map made of the prediction once this pair had entered it."""
    executed: float
    propensity: float
    status: str
    """Status of the last execution of the trajectory."""
    seconds: float
    """Seconds of execution, summed over the trajectory's turns."""


@dataclass(frozen=True, eq=False)
class ScoredStep:
    """What a step's groups are worth."""

    rewards: list[list[float | None]]
    """Reward of each trajectory: executed in anchor groups, calibrated in the others, None where unknown."""
    weights: NDArray[np.float64]
    """Weight of each group, shape (G,). Mean 1 over the kept groups, 0 for the dropped."""
    dropped: NDArray[np.bool_]
    """Groups with fewer than two scored members: nothing can be compared in them."""


class RewardProxy:
    """Scores groups of trajectories, most of them without execution.

    Args:
        anchors: which groups are executed.
        debiaser: recasts predicted scores; None takes them as they come.
        fusion: weighs anchor groups; None weighs all groups alike.
        success_score: executed score from which a trajectory counts as a success in the world model's AUC.
        metric_window: newest pairs over which the world model's accuracy is reported.
    """

    def __init__(
        self,
        anchors: RandomAnchors | None = None,
        debiaser: IsotonicDebiaser | None = None,
        fusion: InverseVarianceFusion | None = None,
        *,
        success_score: float = 0.5,
        metric_window: int = 512,
    ) -> None:
        self.anchors = RandomAnchors() if anchors is None else anchors
        self.debiaser = debiaser
        self.fusion = fusion
        self.success_score = success_score
        self.metric_window = metric_window
        self._ledger: list[Pair] = []
        self._counts = dict.fromkeys(("groups", "anchor_groups", "dropped_groups", "executed", "failed"), 0)

    @property
    def ledger(self) -> tuple[Pair, ...]:
        """All pairs, oldest first."""
        return tuple(self._ledger)

    def draw(self, step: int, group_keys: Sequence[str]) -> AnchorDraw:
        """Mark the anchors of a step; see `RandomAnchors.draw`."""
        return self.anchors.draw(step, group_keys)

    def calibrate(self, predicted: float | None) -> float | None:
        """One predicted score, recast; unknown stays unknown."""
        if predicted is None or self.debiaser is None:
            return predicted
        return float(self.debiaser.predict(np.array([predicted]))[0])

    def score(self, step: int, groups: Sequence[Group]) -> ScoredStep:
        """Score the groups of one step, learning from its anchors first.

        Args:
            step: training step.
            groups: finished groups; trajectories of anchors carry both scores, the others the predicted one.

        Returns:
            Rewards, weights and dropped groups, in the order of ``groups``.

        Raises:
            ValueError: if a score is NaN or infinite. Nothing is stored then.
        """
        _refuse_nonsense(groups)
        both = [[t for t in group.trajectories if group.is_anchor and _has_both(t)] for group in groups]
        self._learn(step, groups, both)
        rewards = [[self._reward(group, trajectory) for trajectory in group.trajectories] for group in groups]
        dropped_G = np.array([sum(r is not None for r in row) < 2 for row in rewards], bool)
        anchor_G = np.array([group.is_anchor for group in groups], bool)
        kept_G = ~dropped_G
        weights_G = np.zeros(len(groups))
        if kept_G.any():
            weights_G[kept_G] = 1.0 if self.fusion is None else self.fusion.weights(anchor_G[kept_G])
        self._count(groups, dropped_G)
        return ScoredStep(rewards, weights_G, dropped_G)

    def record_episode(self, step: int, key: str, trajectory: Trajectory, propensity: float) -> None:
        """Learn from a single anchor episode that belongs to no group."""
        self.score(step, [Group(key, key, True, propensity, (trajectory,))])

    def _learn(self, step: int, groups: Sequence[Group], both: Sequence[Sequence[Trajectory]]) -> None:
        predicted = np.array([t.predicted_score for row in both for t in row], float)
        executed = np.array([t.executed_score for row in both for t in row], float)
        if self.debiaser is not None and predicted.size:
            self.debiaser.update(predicted, executed)
        for group, row in zip(groups, both, strict=True):
            calibrated = [float(self.calibrate(t.predicted_score) or 0.0) for t in row]
            truth = [float(t.executed_score or 0.0) for t in row]
            if self.fusion is not None and row:
                self.fusion.update(calibrated, truth)
            for t, c in zip(row, calibrated, strict=True):
                self._ledger.append(_pair(step, group, t, c))

    def _reward(self, group: Group, trajectory: Trajectory) -> float | None:
        # An anchor whose execution failed never falls back to its prediction: the group would mix two scales.
        return trajectory.executed_score if group.is_anchor else self.calibrate(trajectory.predicted_score)

    def _count(self, groups: Sequence[Group], dropped_G: NDArray[np.bool_]) -> None:
        anchors = [group for group in groups if group.is_anchor]
        self._counts["groups"] += len(groups)
        self._counts["anchor_groups"] += len(anchors)
        self._counts["dropped_groups"] += int(dropped_G.sum())
        executed = [t for group in anchors for t in group.trajectories]
        self._counts["executed"] += len(executed)
        self._counts["failed"] += sum(t.executed_score is None for t in executed)

    def metrics(self) -> dict[str, float | None]:
        """What to watch. Unknown is None.

        The biases, the rank correlation and the AUC are over the newest ``metric_window`` pairs. A bias is the mean of
        predicted (or calibrated) minus executed.
        """
        recent = self._ledger[-self.metric_window :]
        predicted, calibrated, executed = (
            np.array([getattr(pair, name) for pair in recent], float)
            for name in ("predicted", "calibrated", "executed")
        )
        counts, debiaser, fusion = self._counts, self.debiaser, self.fusion
        return {
            "anchor_fraction": counts["anchor_groups"] / counts["groups"] if counts["groups"] else None,
            "pairs": float(len(self._ledger)),
            "refits": None if debiaser is None else float(debiaser.n_fits_),
            "bias_before": float((predicted - executed).mean()) if recent else None,
            "bias_after": float((calibrated - executed).mean()) if recent else None,
            "residual": None if fusion is None else fusion.residual_,
            "residual_calibration": None if fusion is None else fusion.calibration_residual_,
            "rho": None if fusion is None else fusion.rho,
            "anchor_failures": float(counts["failed"]),
            "dropped_groups": float(counts["dropped_groups"]),
            "rank_correlation": _rank_correlation(predicted, executed),
            "auc": _auc(predicted, executed >= self.success_score),
        }

    def write_ledger(self, path: str | Path) -> None:
        """Write the pairs as JSON Lines."""
        Path(path).write_text("".join(json.dumps(asdict(pair)) + "\n" for pair in self._ledger))

    def state_dict(self) -> dict[str, Any]:
        """All that was learned and counted, as plain data that survives JSON."""
        return {
            "ledger": [asdict(pair) for pair in self._ledger],
            "counts": dict(self._counts),
            "debiaser": None if self.debiaser is None else self.debiaser.state_dict(),
            "fusion": None if self.fusion is None else self.fusion.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned, bit for bit.

        Raises:
            ValueError: if the state has a debiaser or a fusion and this proxy has none, or the other way round.
        """
        for name in ("debiaser", "fusion"):
            if (state[name] is None) != (getattr(self, name) is None):
                raise ValueError(f"the saved proxy and this one differ in {name!r}: build it as it was when saved")
        ledger = [Pair(**pair) for pair in state["ledger"]]
        if self.debiaser is not None:
            self.debiaser.load_state_dict(state["debiaser"])
        if self.fusion is not None:
            self.fusion.load_state_dict(state["fusion"])
        self._ledger, self._counts = ledger, {name: int(count) for name, count in state["counts"].items()}


def _has_both(trajectory: Trajectory) -> bool:
    return trajectory.predicted_score is not None and trajectory.executed_score is not None


def _refuse_nonsense(groups: Sequence[Group]) -> None:
    for group in groups:
        for index, t in enumerate(group.trajectories):
            for name, score in (("predicted", t.predicted_score), ("executed", t.executed_score)):
                if score is not None and not np.isfinite(score):
                    raise ValueError(
                        f"{name} score of trajectory {index} in group {group.key!r} is {score}: "
                        "give a finite number, or None when it is unknown"
                    )


def _pair(step: int, group: Group, trajectory: Trajectory, calibrated: float) -> Pair:
    executed = [turn.executed for turn in trajectory.turns if turn.executed is not None]
    return Pair(
        step=step,
        group_key=group.key,
        predicted=float(trajectory.predicted_score or 0.0),
        calibrated=calibrated,
        executed=float(trajectory.executed_score or 0.0),
        propensity=float(group.propensity),
        status=str(executed[-1].status) if executed else "",
        seconds=float(sum(outcome.seconds for outcome in executed)),
    )


def _rank_correlation(predicted: NDArray[np.float64], executed: NDArray[np.float64]) -> float | None:
    if predicted.size < 3 or np.ptp(predicted) == 0 or np.ptp(executed) == 0:
        return None
    from scipy.stats import spearmanr

    return float(spearmanr(predicted, executed).statistic)


def _auc(predicted: NDArray[np.float64], success: NDArray[np.bool_]) -> float | None:
    if not success.any() or success.all():
        return None
    from sklearn.metrics import roc_auc_score

    return float(roc_auc_score(success, predicted))
