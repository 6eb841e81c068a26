"""An agent may end its episode: what it achieved counts, and nobody else notices."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from wmrl_gym.algorithms.evaluation import EvaluationSettings, evaluate
from wmrl_gym.algorithms.rollout import GroupPlan, collect
from wmrl_gym.algorithms.step_metrics import rollout_metrics
from wmrl_gym.core import Decision, Outcome, Submission
from wmrl_gym.proxy import RewardProxy, RewardProxyVectorEnv

from .letters import TRUTH, LetterEnv, LetterPolicy, TableWorldModel


class Tiring(LetterPolicy):
    """Gives up in some episodes: where the start is odd, after a turn; where it is a multiple of 4, at once."""

    def act(self, observations: Sequence[Any], **given: Any) -> list[Decision]:
        decisions = super().act(observations, **given)
        return [
            dataclasses.replace(decision, gives_up="tired", action="")
            if self.is_tired(given["seeds"][i][3], given["seeds"][i][4])
            else decision
            for i, decision in enumerate(decisions)
        ]

    def is_tired(self, episode: int, turn: int) -> bool:
        return (episode % 4 == 1 and turn == 1) or (episode % 4 == 2 and turn == 0)


@pytest.mark.parametrize("mode", ["lockstep", "async"])
def test_what_was_achieved_before_counts(mode: Any) -> None:
    env = RewardProxyVectorEnv([LetterEnv] * 8, TableWorldModel(TRUTH), mode=mode)
    plans = [GroupPlan(f"{g}:letters", "letters", g == 0, 0.5, 4) for g in range(2)]
    groups = collect(Tiring(), env, plans, seed=0, step=0)
    again = RewardProxyVectorEnv([LetterEnv] * 8, TableWorldModel(TRUTH))
    untroubled = collect(LetterPolicy(), again, plans, seed=0, step=0)
    for group, other in zip(groups, untroubled, strict=True):
        for i, (trajectory, whole) in enumerate(zip(group.trajectories, other.trajectories, strict=True)):
            actions = [turn.decision.action for turn in trajectory.turns]
            assert actions == [turn.decision.action for turn in whole.turns][: {1: 1, 2: 0}.get(i, 2)]
            expected = max((TRUTH[action] for action in actions), default=None)
            assert trajectory.predicted_score == expected
            assert trajectory.executed_score == (expected if group.is_anchor else None)
            assert trajectory.final_info.get("gave_up") == ("tired" if i in (1, 2) else None)
    scored = RewardProxy().score(0, groups)
    assert rollout_metrics(groups, scored)["gave_up"] == 0.5


def test_in_an_evaluation_an_agent_that_gave_up_at_once_has_failed() -> None:
    result = evaluate(Tiring(), [LetterEnv] * 4, ["letters"], EvaluationSettings(samples=4))
    assert result.unknown == 0
    assert [record.metric is None for record in result.records] == [False, False, True, False]


def test_nothing_can_be_given_up_while_it_waits() -> None:
    env = RewardProxyVectorEnv([LetterEnv], TableWorldModel(TRUTH))
    env.reset_episodes([0])
    env.send(["a"], [0])
    with pytest.raises(ValueError, match="recv first"):
        env.give_up(0, "tired")
    env.recv()
    assert env.give_up(0, "tired")["predicted_score"] == TRUTH["a"]


def test_a_step_in_which_everybody_gives_up_at_once_learns_nothing_and_ends_nothing() -> None:
    from wmrl_gym.algorithms.wmrl_grpo import WMRLGRPO, WMRLGRPOSettings

    class Tired(Tiring):
        def is_tired(self, episode: int, turn: int) -> bool:
            return True

    class Never(LetterEnv):
        def execute(self, submission: Submission) -> Outcome:
            raise AssertionError("nothing was handed in")

    policy = Tired()
    before = [parameter.detach().clone() for parameter in policy.parameters()]
    settings = WMRLGRPOSettings(steps=1, groups_per_step=2, group_size=2)
    env = RewardProxyVectorEnv([Never] * 4, TableWorldModel(TRUTH))
    metrics = WMRLGRPO(policy, env, ["letters"], RewardProxy(), settings).step(0)
    assert metrics["gave_up"] == 1.0 and metrics["updates"] == 0 and metrics["reward"] is None
    for old, new in zip(before, policy.parameters(), strict=True):
        np.testing.assert_array_equal(old, new.detach())
