"""Rollouts: a policy plays groups of episodes in a vector environment, all that are ready in one batch."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from wmrl_gym.core import Decision, Group, Policy, Trajectory, Turn
from wmrl_gym.proxy.vector_env import Received, RewardProxyVectorEnv


@dataclass(frozen=True)
class GroupPlan:
    """A group that is to be played."""

    key: str
    """Unique within the step."""
    task_id: str
    is_anchor: bool
    propensity: float
    size: int
    """Episodes in the group."""
    reset_options: Mapping[str, Any] | None = None


class StageClock:
    """Wall-clock seconds per stage of a step."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Count the time inside the block to a stage."""
        started = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - started


@dataclass
class _Episode:
    observation: Any
    decisions: list[Decision]
    turns: list[Turn]
    final_info: Mapping[str, Any] | None = None


def collect(
    policy: Policy,
    vector_env: RewardProxyVectorEnv,
    plans: Sequence[GroupPlan],
    *,
    seed: int,
    step: int,
    temperature: float = 1.0,
    stream: int = 0,
    before: Sequence[GroupPlan] = (),
    clock: StageClock | None = None,
) -> list[Group]:
    """Play every planned group to the end of all its episodes.

    Episode e of the step uses environment e. Its turn t draws from the random stream (seed, stream, step, e, t), so
    what it does depends neither on the batch it is in nor on the order in which executions arrive. All episodes of a
    group are reset with the same seed, for what they are compared by must not include their luck at the start.

    Args:
        policy: decides.
        vector_env: plays; its mode says whether anchors are waited for at each turn.
        plans: the groups.
        seed: of the run.
        step: training step.
        temperature: of sampling.
        stream: keeps uses of one seed apart, for example training (0) and evaluation (1).
        before: groups of the same step that were played already. Played in slices, episodes draw from the streams that
            they would have drawn from if all had been played at once.
        clock: counts the seconds of "generate", "predict" (submitting, too) and "execute" (waiting for it).

    Returns:
        The played groups, in the order of ``plans``.

    Raises:
        ValueError: if there are fewer environments than episodes.
    """
    clock = clock or StageClock()
    members = [plan for plan in plans for _ in range(plan.size)]
    if len(members) > vector_env.num_envs:
        raise ValueError(
            f"{len(members)} episodes are planned for {vector_env.num_envs} environments: make more of them"
        )
    first = sum(plan.size for plan in before)
    numbered = enumerate(plans, start=len(before))
    observations = vector_env.reset_episodes(
        range(len(members)),
        is_anchor=[plan.is_anchor for plan in members],
        seeds=[_reset_seed(seed, stream, step, g) for g, plan in numbered for _ in range(plan.size)],
        options=[plan.reset_options for plan in members],
    )
    episodes = [_Episode(observation, [], []) for observation in observations]
    ready = list(range(len(episodes)))
    playing = set(ready)
    while playing:
        if ready:
            with clock.stage("generate"):
                decisions = policy.act(
                    [episodes[i].observation for i in ready],
                    histories=[episodes[i].decisions for i in ready],
                    seeds=[(seed, stream, step, first + i, len(episodes[i].decisions)) for i in ready],
                    temperature=temperature,
                )
            acting = []
            for i, decision in zip(ready, decisions, strict=True):
                if decision.gives_up is None:
                    episodes[i].decisions.append(decision)
                    acting.append(i)
                else:
                    episodes[i].final_info = vector_env.give_up(i, decision.gives_up)
                    playing.discard(i)
            if acting:
                with clock.stage("predict"):
                    vector_env.send([episodes[i].decisions[-1].action for i in acting], acting)
        ready = []
        if not playing:
            break
        with clock.stage("execute"):
            received = vector_env.recv()
        for back in received:
            _take_in(episodes[back.env_id], back)
            if back.terminated or back.truncated:
                episodes[back.env_id].final_info = back.info
                playing.discard(back.env_id)
            else:
                ready.append(back.env_id)
    return _grouped(plans, episodes)


def _reset_seed(*stream: int) -> int:
    return int(np.random.SeedSequence(stream).generate_state(1)[0])


def _take_in(episode: _Episode, back: Received) -> None:
    info = back.info
    own = info["outcome"] if info["submission"] is None else None
    if info.get("actions_used") is not None:
        episode.decisions[-1] = dataclasses.replace(episode.decisions[-1], actions_used=int(info["actions_used"]))
    turn = Turn(
        decision=episode.decisions[-1],
        submission=info["submission"],
        # What the environment scored by itself stands in both streams.
        predicted=info["predicted"] or own,
        executed=info["executed"] or own,
        reward=back.reward,
    )
    episode.turns.append(turn)
    episode.observation = back.observation


def _grouped(plans: Sequence[GroupPlan], episodes: Sequence[_Episode]) -> list[Group]:
    groups, start = [], 0
    for plan in plans:
        trajectories = tuple(
            Trajectory(
                turns=tuple(episode.turns),
                predicted_score=(episode.final_info or {}).get("predicted_score"),
                executed_score=(episode.final_info or {}).get("executed_score"),
                final_info=episode.final_info or {},
            )
            for episode in episodes[start : start + plan.size]
        )
        groups.append(Group(plan.key, plan.task_id, plan.is_anchor, plan.propensity, trajectories))
        start += plan.size
    return groups
