"""Writing a corpus: authors are drawn, their scripts really executed, agents told what came of theirs.

Everything drawn comes from the stream (seed, episode), and episodes are written down block by block, so that a corpus
that was interrupted goes on with the same scripts, and a longer one begins with those of a shorter one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import numpy as np

from wmrl_gym.core import Executor, Outcome, Policy, Submission
from wmrl_gym.corpus.agent_author import AgentEpisode, play
from wmrl_gym.corpus.authors import Draft, write_draft
from wmrl_gym.corpus.competition_environment import CompetitionEnvironment
from wmrl_gym.corpus.file import Record
from wmrl_gym.corpus.timeouts import executed_facts
from wmrl_gym.envs.mle_dojo.competition import Competition

BLOCK = 16
"""Episodes drawn, executed and written down together."""
BARREN_BLOCKS = 25
"""Blocks in a row without a new script, after which there is no sense in going on."""


@dataclass(frozen=True)
class Agent:
    """A policy among the authors."""

    name: str
    policy: Policy
    temperatures: tuple[float, ...]
    revised: float
    """Share of its episodes that go on after the first answer."""


@dataclass(frozen=True)
class Plan:
    """What is to be drawn."""

    seed: int
    shares: Mapping[str, float]
    """Author, of `WRITERS` or "agent" -> share of the episodes."""
    tasks: Sequence[str]


class FinishedBlocks(Protocol):
    """Where finished blocks are kept, so that an interrupted call goes on: a `wmrl_gym.runs.records` `WorkFile`."""

    portions: list[Any]
    """What is finished, in order."""

    def append(self, portion: Any) -> None:
        """Keep a finished block."""
        ...

    def understood(self, read: Callable[[list[Any]], list[Record]]) -> list[Record]:
        """What `read` makes of the finished blocks; an error of it says that the file is damaged."""
        ...


def write_blocks(
    plan: Plan,
    count: int,
    environments: Sequence[CompetitionEnvironment],
    agent: Agent | None,
    executor: Executor,
    work: FinishedBlocks,
    on_block: Callable[[int], None],
) -> list[Record]:
    """Draw and execute until there are `count` different scripts.

    Args:
        plan: what to draw.
        count: scripts wanted.
        environments: at least `BLOCK`, which play any of the tasks.
        agent: the author "agent"; None if it has no share.
        executor: executes.
        work: finished blocks, from which an interrupted call goes on.
        on_block: called with the number of scripts after each block.

    Raises:
        RuntimeError: if the authors have nothing new to say.
        OtherWork: if the finished blocks cannot be read.
    """
    records = work.understood(lambda blocks: [Record(**record) for block in blocks for record in block])
    seen = {(record.task, record.script) for record in records}
    keys = {name: _environment(environments[0], name) for name in plan.tasks}
    barren = 0
    while len(records) < count:
        first = BLOCK * len(work.portions)
        block = list(_block(plan, range(first, first + BLOCK), environments, agent, executor, keys))
        new = []
        for record in sorted(block, key=lambda record: (record.episode, record.turn)):
            if (record.task, record.script) not in seen:
                seen.add((record.task, record.script))
                new.append(record)
        work.append([asdict(record) for record in new])
        records += new
        barren = 0 if new else barren + 1
        if barren >= BARREN_BLOCKS:
            raise RuntimeError(
                f"{BARREN_BLOCKS * BLOCK} episodes brought no new script; {len(records)} of {count} are there\n"
                "  ask for fewer (count=...), or give more authors, tasks or higher temperatures."
            )
        on_block(min(len(records), count))
    return records[:count]


def _block(
    plan: Plan,
    episodes: range,
    environments: Sequence[CompetitionEnvironment],
    agent: Agent | None,
    executor: Executor,
    keys: Mapping[str, str],
) -> Iterator[Record]:
    competitions = environments[0].competitions
    waiting: list[tuple[int, Draft, Competition, Future[Outcome]]] = []
    played: list[AgentEpisode] = []
    for episode in episodes:
        rng = np.random.default_rng((plan.seed, episode))
        competition = competitions[plan.tasks[episode % len(plan.tasks)]]
        author = str(rng.choice(list(plan.shares), p=_probabilities(plan.shares)))
        if author == "agent" and agent is not None:
            temperature = float(rng.choice(agent.temperatures))
            revised = bool(rng.random() < agent.revised)
            played.append(AgentEpisode(episode, competition.name, temperature, revised))
            continue
        draft = write_draft(author, competition, rng)
        if draft is not None:
            submission = Submission(competition.name, draft.script, {"overview": competition.overview})
            waiting.append((episode, draft, competition, executor.submit(submission)))
    for episode, draft, competition, future in waiting:
        yield _record(competition.name, draft, episode, 0, future.result(), keys[competition.name])
    if agent is not None and played:
        for turn in play(agent.policy, played, environments, executor, plan.seed):
            draft = Draft(turn.script, agent.name, f"temperature {turn.episode.temperature:g}")
            task = turn.episode.task
            yield _record(task, draft, turn.episode.number, turn.turn, turn.outcome, keys[task])


def _probabilities(shares: Mapping[str, float]) -> list[float]:
    total = sum(shares.values())
    return [share / total for share in shares.values()]


def _environment(environment: CompetitionEnvironment, task: str) -> str:
    key = getattr(environment.runner, "environment_key", None)
    return str(key([task])) if key is not None else "unknown"


def _record(task: str, draft: Draft, episode: int, turn: int, outcome: Outcome, environment: str) -> Record:
    return Record(
        task=task,
        script=draft.script,
        author=draft.author,
        variant=draft.variant,
        mistake=draft.mistake,
        episode=episode,
        turn=turn,
        environment=environment[:16],
        **executed_facts(outcome),
    )
