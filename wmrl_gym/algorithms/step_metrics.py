"""What happened in a step's rollouts, as numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from wmrl_gym.core import Group
from wmrl_gym.proxy.reward_proxy import ScoredStep


def rollout_metrics(groups: Sequence[Group], scored: ScoredStep) -> dict[str, float | None]:
    """Rewards, scores, statuses and lengths of one step; a mean over nothing is None.

    ``status/<name>`` is the share of turns that were told that status, ``executed_share`` the share of trajectories
    that were really executed, ``executed_scores`` how many of these have a score, ``executed_seconds`` what their
    executions took, added up, ``unscored`` the share of those without a reward, ``flat_groups`` the share of kept
    groups without variance, from which nothing is learned, ``gave_up`` the share of trajectories that their agent
    ended, for example because they no longer fitted its context, ``turns`` the mean number of turns of a trajectory.
    """
    trajectories = [(group, trajectory) for group in groups for trajectory in group.trajectories]
    rewards = [reward for row in scored.rewards for reward in row if reward is not None]
    kept = [row for row, dropped in zip(scored.rewards, scored.dropped, strict=True) if not dropped]
    flat = [float(np.ptp([r for r in row if r is not None]) < 1e-9) for row in kept]
    turns = [turn for _, trajectory in trajectories for turn in trajectory.turns]
    outcomes = [turn.outcome for turn in turns if turn.outcome is not None]
    executed = [t.executed for t in turns if t.executed is not None and t.executed.source == "execution"]
    statuses = Counter(str(outcome.status) for outcome in outcomes)
    decisions = [turn.decision for turn in turns]
    executed_scores = [t.executed_score for _, t in trajectories if t.executed_score is not None]
    return {
        "reward": _mean(rewards),
        "predicted_score": _mean([t.predicted_score for _, t in trajectories if t.predicted_score is not None]),
        "executed_score": _mean(executed_scores),
        "executed_scores": float(len(executed_scores)),
        "executed_share": _mean([float(group.is_anchor) for group, _ in trajectories]),
        "executed_seconds": sum((outcome.seconds for outcome in executed), 0.0),
        "unscored": 1.0 - len(rewards) / len(trajectories) if trajectories else None,
        "flat_groups": _mean(flat),
        "dropped_groups": float(scored.dropped.sum()),
        "turns": _mean([float(len(trajectory.turns)) for _, trajectory in trajectories]),
        "tokens_per_turn": _mean([float(len(decision.token_ids)) for decision in decisions]),
        "gave_up": _mean([float("gave_up" in trajectory.final_info) for _, trajectory in trajectories]),
        "cut_at_limit": _mean([float(not decision.finished) for decision in decisions]),
        **{f"status/{name}": count / len(outcomes) for name, count in sorted(statuses.items())},
    }


def _mean(values: Sequence[float]) -> float | None:
    return float(np.mean(values)) if values else None
