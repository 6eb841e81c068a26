"""The reward proxy: anchoring, debiasing and fusion in the paper's order, and the ledger of what they saw.

In each step the pairs of the anchors enter the ledger and the map *before* the residual is measured, the residual is
measured on *calibrated* scores, and only then are rewards and weights formed. Another order would measure the world
model's raw error, or weigh by the residual of the step before.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wmrl_gym.core import Group, Trajectory
from wmrl_gym.proxy.agreement import area_under_curve, rank_correlation
from wmrl_gym.proxy.anchoring import AnchorDraw, RandomAnchors
from wmrl_gym.proxy.debiasing import IsotonicDebiaser
from wmrl_gym.proxy.fusion import InverseVarianceFusion, group_weights
from wmrl_gym.proxy.ledger import Ledger, Pair

STATE_VERSION = 2

_COUNTS = ("groups", "anchor_groups", "dropped_groups", "anchor_failures", "unknown_predictions")


@dataclass(frozen=True, eq=False)
class ScoredStep:
    """What a step's groups are worth, in the order in which the groups were given."""

    rewards: list[list[float | None]]
    """Reward of each trajectory: executed in anchor groups, calibrated in the others, None where unknown."""
    weights: NDArray[np.float64]
    """Weight of each group, shape (G,). Mean 1 over the kept groups, 0 for the dropped."""
    dropped: NDArray[np.bool_]
    """Groups with fewer than two scored members, shape (G,): nothing can be compared in them."""
    metrics: dict[str, float | None]
    """`RewardProxy.metrics` after this step."""
    pairs: tuple[Pair, ...] = ()
    """What this step added to the ledger."""


class RewardProxy:
    """Scores groups of trajectories, most of them without execution.

    Args:
        anchors: which groups are executed.
        debiaser: recasts predicted scores; None takes them as they come (an ablation).
        fusion: weighs anchor groups; None weighs all groups alike (an ablation).
        success_score: executed score from which a trajectory counts as a success in the metric ``auc``; None takes
            those above the median.
        metric_window: newest pairs over which the world model's accuracy is reported.
        ledger_window: newest pairs that are kept, at least ``metric_window``.
    """

    def __init__(
        self,
        anchors: RandomAnchors | None = None,
        debiaser: IsotonicDebiaser | None = None,
        fusion: InverseVarianceFusion | None = None,
        *,
        success_score: float | None = 0.5,
        metric_window: int = 512,
        ledger_window: int = 5000,
    ) -> None:
        if ledger_window < metric_window:
            raise ValueError(f"ledger_window ({ledger_window}) is smaller than metric_window ({metric_window})")
        self.anchors = RandomAnchors() if anchors is None else anchors
        self.debiaser = debiaser
        self.fusion = fusion
        self.success_score = success_score
        self.metric_window = metric_window
        self._ledger = Ledger(window=ledger_window)
        self._counts = dict.fromkeys(_COUNTS, 0)

    def draw(self, step: int, group_keys: Sequence[str]) -> AnchorDraw:
        """Mark the anchors of a step; see `RandomAnchors.draw`."""
        return self.anchors.draw(step, group_keys)

    def calibrate(self, predicted: float | None) -> float | None:
        """One predicted score, recast; unknown stays unknown."""
        return None if predicted is None else self._recast(predicted)

    def _recast(self, predicted: float) -> float:
        return predicted if self.debiaser is None else float(self.debiaser.predict(predicted))

    def score(self, step: int, groups: Sequence[Group]) -> ScoredStep:
        """Score the groups of one step, learning from its anchors first.

        An anchor trajectory whose execution is unknown is left out and counted. It never falls back to its prediction,
        which would compare the world model with the truth inside one group.

        Args:
            step: training step.
            groups: finished groups, length G; trajectories of anchors carry both scores, the others the predicted one.
                Without a world model the predicted scores may all be None.

        Raises:
            ValueError: if a score is NaN or infinite. Nothing is stored then.
        """
        _refuse_non_finite(groups)
        pairs_by_group = [self._pairs(step, group) for group in groups]
        new_pairs = tuple(pair for pairs in pairs_by_group for pair in pairs)
        self._learn(new_pairs)
        for pairs in pairs_by_group:
            self._measure_residual(pairs)
        rewards = [[self._reward(group, trajectory) for trajectory in group.trajectories] for group in groups]
        dropped_G = np.array([sum(reward is not None for reward in row) < 2 for row in rewards], bool)
        weights_G = np.zeros(len(groups))
        if not dropped_G.all():
            is_anchor_G = np.array([group.is_anchor for group in groups], bool)
            rho = 1.0 if self.fusion is None else self.fusion.rho
            weights_G[~dropped_G] = group_weights(is_anchor_G[~dropped_G], rho)
        self._count(groups, int(dropped_G.sum()))
        return ScoredStep(rewards, weights_G, dropped_G, self.metrics(), new_pairs)

    def score_arrays(
        self,
        step: int,
        group_keys: Sequence[str],
        is_anchor: ArrayLike,
        predicted: Sequence[Sequence[float | None]],
        executed: Sequence[Sequence[float | None]],
        propensity: ArrayLike | None = None,
    ) -> ScoredStep:
        """`score` for a trainer that has no `Group`: plain scores, one row per group, None where there is none.

        Args:
            step: training step.
            group_keys: one per group, length G.
            is_anchor: which groups were executed, shape (G,).
            predicted: predicted scores, G rows.
            executed: executed scores, G rows of the same lengths; those of other groups than anchors are not read.
            propensity: as `draw` returned it, shape (G,); None computes it from the keys.
        """
        propensity_G = self.draw(step, group_keys).propensity if propensity is None else np.asarray(propensity, float)
        columns = (group_keys, np.asarray(is_anchor, bool), propensity_G, predicted, executed)
        groups = [
            Group(key, key, bool(anchor), float(p), tuple(Trajectory((), *scores) for scores in zip(c, r, strict=True)))
            for key, anchor, p, c, r in zip(*columns, strict=True)
        ]
        return self.score(step, groups)

    def record_episode(
        self,
        step: int,
        key: str,
        *,
        predicted: float | None,
        executed: float | None,
        is_anchor: bool,
        propensity: float,
        status: str = "",
        seconds: float = 0.0,
    ) -> None:
        """Count one episode that belongs to no group and, if it is an anchor scored by both, learn from it.

        Without a group there is no residual to measure: fusion does not see it.
        """
        group = Group(key, key, is_anchor, propensity, (Trajectory((), predicted, executed),))
        _refuse_non_finite([group])
        self._count([group], n_dropped=0)
        if is_anchor and predicted is not None and executed is not None:
            forecast = float(self._recast(predicted))
            self._learn([Pair(step, key, float(predicted), forecast, float(executed), propensity, status, seconds)])

    @property
    def ledger(self) -> tuple[Pair, ...]:
        """The newest pairs, oldest first; `ScoredStep.pairs` hands on each as it comes."""
        return self._ledger.pairs

    def ledger_columns(self) -> dict[str, NDArray[Any]]:
        """The ledger as one array per field of `Pair`."""
        return self._ledger.columns()

    def write_ledger(self, path: str | Path) -> None:
        """Write the pairs that are kept as JSON Lines."""
        self._ledger.write(path)

    def metrics(self) -> dict[str, float | None]:
        """What to watch. Unknown is None.

        The counts and the realised anchor fraction are over all groups so far; the biases, the rank correlation
        (Spearman) and the AUC of the *raw* world model over the newest ``metric_window`` pairs. A bias is the mean of
        predicted (or calibrated) minus executed; each pair was calibrated before the map had seen it.
        """
        newest = self._ledger.columns(self.metric_window)
        predicted, calibrated, executed = newest["predicted"], newest["calibrated"], newest["executed"]
        bar = self.success_score
        success = executed >= bar if bar is not None else executed > np.median(executed if executed.size else [0.0])
        counts, debiaser, fusion = self._counts, self.debiaser, self.fusion
        return {
            "anchor_fraction": counts["anchor_groups"] / counts["groups"] if counts["groups"] else None,
            "pairs": float(self._ledger.n_pairs),
            "refits": None if debiaser is None else float(debiaser.n_fits_),
            "bias_before": float((predicted - executed).mean()) if executed.size else None,
            "bias_after": float((calibrated - executed).mean()) if executed.size else None,
            "residual": None if fusion is None else fusion.residual_,
            "residual_calibration": None if fusion is None else fusion.calibration_residual_,
            "rho": None if fusion is None else fusion.rho,
            "anchor_failures": float(counts["anchor_failures"]),
            "unknown_predictions": float(counts["unknown_predictions"]),
            "dropped_groups": float(counts["dropped_groups"]),
            "rank_correlation": rank_correlation(predicted, executed),
            "auc": area_under_curve(predicted, success),
        }

    def state_dict(self) -> dict[str, Any]:
        """All that was learned and counted, as plain data that survives JSON to the last bit."""
        return {
            "version": STATE_VERSION,
            "ledger": self._ledger.state_dict(),
            "counts": dict(self._counts),
            "debiaser": None if self.debiaser is None else self.debiaser.state_dict(),
            "fusion": None if self.fusion is None else self.fusion.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned, bit for bit.

        Raises:
            ValueError: if the state is of another version, or has a debiaser or a fusion and this proxy has none, or
                the other way round. Nothing is changed then.
        """
        if state.get("version") != STATE_VERSION:
            raise ValueError(
                f"the saved reward proxy has format {state.get('version')}, this library reads format {STATE_VERSION}: "
                "resume with the version of wmrl_gym that wrote it"
            )
        for name in ("debiaser", "fusion"):
            if (state[name] is None) != (getattr(self, name) is None):
                raise ValueError(f"the saved proxy and this one differ in {name!r}: build it as it was when saved")
        counts = {name: int(state["counts"][name]) for name in _COUNTS}
        ledger = Ledger(window=self._ledger.window)
        ledger.load_state_dict(state["ledger"])
        if self.debiaser is not None:
            self.debiaser.load_state_dict(state["debiaser"])
        if self.fusion is not None:
            self.fusion.load_state_dict(state["fusion"])
        self._ledger, self._counts = ledger, counts

    def _pairs(self, step: int, group: Group) -> list[Pair]:
        """The trajectories of an anchor group that both scored; none of another group."""
        pairs = []
        for trajectory in group.trajectories if group.is_anchor else ():
            if trajectory.predicted_score is None or trajectory.executed_score is None:
                continue
            outcomes = [turn.executed for turn in trajectory.turns if turn.executed is not None]
            pairs.append(
                Pair(
                    step=int(step),
                    group_key=str(group.key),
                    predicted=float(trajectory.predicted_score),
                    calibrated=float(self._recast(trajectory.predicted_score)),
                    executed=float(trajectory.executed_score),
                    propensity=float(group.propensity),
                    status=str(outcomes[-1].status) if outcomes else "",
                    seconds=float(sum(outcome.seconds for outcome in outcomes)),
                )
            )
        return pairs

    def _learn(self, pairs: Sequence[Pair]) -> None:
        self._ledger.extend(pairs)
        if self.debiaser is not None and pairs:
            self.debiaser.update([pair.predicted for pair in pairs], [pair.executed for pair in pairs])

    def _measure_residual(self, pairs: Sequence[Pair]) -> None:
        # Calibrated anew, with the map that has just learned from this step; the pair's own forecast is older.
        if self.fusion is not None and len(pairs) >= 2:
            calibrated = [float(self._recast(pair.predicted)) for pair in pairs]
            self.fusion.update(calibrated, [pair.executed for pair in pairs])

    def _reward(self, group: Group, trajectory: Trajectory) -> float | None:
        score = trajectory.executed_score if group.is_anchor else self.calibrate(trajectory.predicted_score)
        return None if score is None else float(score)

    def _count(self, groups: Sequence[Group], n_dropped: int) -> None:
        executed = [trajectory for group in groups if group.is_anchor for trajectory in group.trajectories]
        predicted = [trajectory for group in groups if not group.is_anchor for trajectory in group.trajectories]
        self._counts["groups"] += len(groups)
        self._counts["anchor_groups"] += sum(bool(group.is_anchor) for group in groups)
        self._counts["dropped_groups"] += n_dropped
        self._counts["anchor_failures"] += sum(trajectory.executed_score is None for trajectory in executed)
        self._counts["unknown_predictions"] += sum(trajectory.predicted_score is None for trajectory in predicted)


def _refuse_non_finite(groups: Sequence[Group]) -> None:
    for group in groups:
        for index, trajectory in enumerate(group.trajectories):
            for name in ("predicted_score", "executed_score"):
                score = getattr(trajectory, name)
                if score is not None and not math.isfinite(score):
                    raise ValueError(
                        f"{name} of trajectory {index} in group {group.key!r} is {score}: "
                        "give a finite number, or None when it is unknown"
                    )
