from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

import numpy as np
import pytest

from wmrl_gym.algorithms.rollout import GroupPlan, StageClock, collect
from wmrl_gym.core import Group, Outcome, Submission, Trajectory
from wmrl_gym.execution.local import LocalExecutor
from wmrl_gym.proxy import RewardProxyVectorEnv

from .letters import GAMED, LetterEnv, LetterPolicy, TableWorldModel
from .tiny_lm import Bytes, tiny_policy

PLANS = [GroupPlan(f"{g}:letters", "letters", g % 2 == 0, 0.5, 4) for g in range(4)]


def slow(submission: Submission) -> Outcome:
    """Takes longer for some than for others, so that anchors arrive in another order than they were sent."""
    time.sleep(0.005 * (sum(map(ord, submission.content)) % 8))
    return Bytes().execute(submission)


def play(policy: Any, mode: Any, env: Any = Bytes, seed: int = 3) -> list[Group]:
    executor = LocalExecutor(slow, max_workers=3)
    vector_env = RewardProxyVectorEnv([env] * 16, Bytes.WorldModel(), executor, mode=mode)
    try:
        return collect(policy, vector_env, PLANS, seed=seed, step=1)
    finally:
        executor.close()


def content(trajectory: Trajectory) -> tuple[Any, ...]:
    turns = [(u.decision.observation, u.decision.prompt_ids.tolist(), u.decision.token_ids.tolist(), u.predicted,
              None if u.executed is None else u.executed.score) for u in trajectory.turns]  # fmt: skip
    return (*turns, trajectory.predicted_score, trajectory.executed_score)


def test_asynchronous_rollouts_of_a_language_model_play_the_same_episodes() -> None:
    policy = tiny_policy()
    lockstep, asynchronous = play(policy, "lockstep"), play(policy, "async")
    for one, other in zip(lockstep, asynchronous, strict=True):
        assert (one.key, one.is_anchor) == (other.key, other.is_anchor)
        for a, b in zip(one.trajectories, other.trajectories, strict=True):
            assert content(a) == content(b)
            for u, v in zip(a.turns, b.turns, strict=True):
                np.testing.assert_allclose(u.decision.log_probs, v.decision.log_probs, atol=1e-5)
    assert len({str(content(t)) for group in lockstep for t in group.trajectories}) > 8, "the episodes must differ"


class Gate:
    """An executor whose outcomes come only when it is opened."""

    capacity = 100

    def __init__(self) -> None:
        self.opened = threading.Event()
        self.pending: list[tuple[Submission, Future[Outcome]]] = []

    def submit(self, submission: Submission) -> Future[Outcome]:
        future: Future[Outcome] = Future()
        self.pending.append((submission, future))
        if self.opened.is_set():
            self.open()
        return future

    def open(self) -> None:
        self.opened.set()
        for submission, future in self.pending:
            future.set_result(LetterEnv().execute(submission))
        self.pending.clear()

    def close(self) -> None:
        """Nothing to free."""


def test_predicted_episodes_go_on_to_their_end_while_anchors_still_execute() -> None:
    gate = Gate()
    batches: list[int] = []

    class Watching(LetterPolicy):
        def act(self, observations: Sequence[Any], **kwargs: Any) -> Any:
            batches.append(len(observations))
            if len(batches) == 3:  # all predicted episodes have had their third and last turn decided
                gate.open()
            return super().act(observations, **kwargs)

    vector_env = RewardProxyVectorEnv([lambda: LetterEnv(turns=3)] * 16, TableWorldModel(GAMED), gate, mode="async")
    groups = collect(Watching(), vector_env, PLANS, seed=0, step=0)
    assert batches[:3] == [16, 8, 8], "in lock-step, this would wait for ever"
    assert all(len(t.turns) == 3 for group in groups for t in group.trajectories)
    assert all((t.executed_score is not None) == group.is_anchor for group in groups for t in group.trajectories)


def test_a_decision_depends_on_its_own_stream_alone() -> None:
    vector_env = RewardProxyVectorEnv([LetterEnv] * 16, TableWorldModel(GAMED))
    whole = collect(LetterPolicy(), vector_env, PLANS, seed=3, step=1)
    alone = collect(LetterPolicy(), vector_env, PLANS[:1], seed=3, step=1)
    assert [content(t) for t in whole[0].trajectories] == [content(t) for t in alone[0].trajectories]
    for other in ({"seed": 4, "step": 1}, {"seed": 3, "step": 2}, {"seed": 3, "step": 1, "stream": 1}):
        assert [content(t) for t in collect(LetterPolicy(), vector_env, PLANS[:1], **other)[0].trajectories] != [
            content(t) for t in alone[0].trajectories
        ]


def test_a_group_starts_alike_and_groups_and_steps_start_differently() -> None:
    vector_env = RewardProxyVectorEnv([LetterEnv] * 16, TableWorldModel(GAMED))

    def starts(step: int) -> list[set[str]]:
        groups = collect(LetterPolicy(), vector_env, PLANS, seed=3, step=step)
        return [{t.turns[0].decision.observation for t in group.trajectories} for group in groups]

    first = starts(0)
    assert all(len(observations) == 1 for observations in first)
    assert len(set.union(*first)) == 4
    assert starts(0) == first and not set.union(*starts(1)) & set.union(*first)


def test_what_the_environment_scores_by_itself_stands_in_both_streams() -> None:
    class Strict(LetterEnv):
        def submit(self, action: str) -> Any:
            return None if action in "abcd" else super().submit(action)

        def advance(self, outcome: Outcome | None) -> Any:
            own = None if outcome is not None else Outcome(0.0, "refused", source="environment")
            step = super().advance(outcome or own)
            return (*step[:4], {} if own is None else {"outcome": own})

    vector_env = RewardProxyVectorEnv([Strict] * 16, TableWorldModel(GAMED))
    groups = collect(LetterPolicy(), vector_env, PLANS, seed=0, step=0)
    turns = [turn for group in groups for t in group.trajectories for turn in t.turns]
    refused = [turn for turn in turns if turn.submission is None]
    assert 0 < len(refused) < len(turns)
    assert all(turn.outcome is not None and turn.outcome.status == "refused" for turn in refused)
    scored = [turn for group in groups if group.is_anchor for t in group.trajectories for turn in t.turns]
    assert vector_env.n_executions == len({turn.submission.key for turn in scored if turn.submission is not None})


def test_too_few_environments_are_refused_and_the_clock_names_its_stages() -> None:
    vector_env = RewardProxyVectorEnv([LetterEnv] * 15, TableWorldModel(GAMED))
    with pytest.raises(ValueError, match="16 episodes are planned for 15"):
        collect(LetterPolicy(), vector_env, PLANS, seed=0, step=0)
    clock = StageClock()
    collect(LetterPolicy(), vector_env, PLANS[:3], seed=0, step=0, clock=clock)
    assert set(clock.seconds) == {"generate", "predict", "execute"}


def test_decision_is_told_how_many_actions_of_its_chunk_were_taken() -> None:
    class Cut(LetterEnv):
        def advance(self, outcome: Outcome | None) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
            *step, info = super().advance(outcome)
            return (*step, {**info, "actions_used": 3})  # type: ignore[return-value]

    plans = [GroupPlan("a", "letters", False, 0.0, 2)]
    for env, expected in ((Cut, 3), (LetterEnv, None)):
        vector_env = RewardProxyVectorEnv([env] * 2, TableWorldModel(GAMED))
        (group,) = collect(LetterPolicy(), vector_env, plans, seed=0, step=0)
        assert {t.decision.actions_used for trajectory in group.trajectories for t in trajectory.turns} == {expected}
