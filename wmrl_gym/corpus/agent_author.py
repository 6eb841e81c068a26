"""An agent as an author: it plays episodes whose answers are really executed, and may revise what it handed in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

from wmrl_gym.core import Decision, Executor, Outcome, Policy, Submission
from wmrl_gym.corpus.competition_environment import CompetitionEnvironment

STREAM = 2
"""Keeps a corpus' random numbers apart from those of training (0) and evaluation (1)."""


@dataclass(eq=False)
class AgentEpisode:
    """One episode to play."""

    number: int
    task: str
    temperature: float
    revised: bool
    """Whether it goes on after the first answer, to the environment's last turn."""
    observation: str = ""
    decisions: list[Decision] = field(default_factory=list)


@dataclass(frozen=True, eq=False)
class AgentTurn:
    """One script of an episode and what became of it."""

    episode: AgentEpisode
    turn: int
    script: str
    outcome: Outcome


def play(
    policy: Policy,
    episodes: Sequence[AgentEpisode],
    environments: Sequence[CompetitionEnvironment],
    executor: Executor,
    seed: int,
) -> Iterator[AgentTurn]:
    """Play the episodes in step, one environment each. Answers without a script yield nothing."""
    table = {episode.number: environment for episode, environment in zip(episodes, environments, strict=False)}
    for episode in episodes:
        episode.observation = table[episode.number].reset(options={"competition": episode.task})[0]
    playing = list(episodes)
    while playing:
        _act(policy, playing, seed)
        handed_in: list[tuple[AgentEpisode, Submission | None, Future[Outcome] | None]] = []
        for episode in playing:
            submission = table[episode.number].submit(episode.decisions[-1].action)
            handed_in.append((episode, submission, None if submission is None else executor.submit(submission)))
        playing = []
        for episode, submission, future in handed_in:
            outcome = None if future is None else future.result()
            episode.observation, _, terminated, _, _ = table[episode.number].advance(outcome)
            if submission is not None and outcome is not None:
                yield AgentTurn(episode, len(episode.decisions) - 1, str(submission.content), outcome)
            if episode.revised and not terminated:
                playing.append(episode)


def _act(policy: Policy, playing: Sequence[AgentEpisode], seed: int) -> None:
    """One answer of each, in one batch for each temperature."""
    for temperature in sorted({episode.temperature for episode in playing}):
        batch = [episode for episode in playing if episode.temperature == temperature]
        decisions = policy.act(
            [episode.observation for episode in batch],
            histories=[episode.decisions for episode in batch],
            seeds=[(seed, STREAM, episode.number, len(episode.decisions)) for episode in batch],
            temperature=temperature,
        )
        for episode, decision in zip(batch, decisions, strict=True):
            episode.decisions.append(decision)
