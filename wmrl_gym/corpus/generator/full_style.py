"""The corpus for a larger agent: the same scripts, with observations in the environment's full style.

Competitions keep their own names here, because a full overview (its story, its examples) cannot be renamed word by
word; an agent of this size can read names already.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from wmrl_gym.corpus.generator.authors import draw_author, draw_plan
from wmrl_gym.corpus.generator.conversations import (
    Written,
    failing_line,
    fenced,
    invent_percentile,
    write_next,
    write_script,
)
from wmrl_gym.corpus.generator.facts import HIGHER_IS_BETTER, TaskFacts, parse_facts
from wmrl_gym.corpus.generator.tasks import training_overviews
from wmrl_gym.engines.conversation import ConversationTurns
from wmrl_gym.envs.mle_dojo.feedback import render_feedback
from wmrl_gym.envs.mle_dojo.ladder import Status
from wmrl_gym.envs.mle_dojo.overview_text import render_overview
from wmrl_gym.envs.mle_dojo.prompts import first_message, next_message
from wmrl_gym.envs.mle_dojo.runner import syntax_problem

EPISODE_TURNS = 4
"""Turns that the first message promises: the environment's default."""
TIME_LIMIT = 20.0
"""Seconds that a time-out names."""


@dataclass(frozen=True)
class FullTask:
    """A competition as an author and as the agent know it."""

    facts: TaskFacts
    overview: str
    """In the full style."""


def full_tasks(data_root: Path | None = None) -> list[FullTask]:
    """Every training competition; held-out ones are never looked at.

    Args:
        data_root: folder of prepared competitions, filled where something is missing; None for a temporary one.
    """
    return [
        FullTask(parse_facts(render_overview(overview, "compact")), render_overview(overview, "full"))
        for overview in training_overviews(data_root)
    ]


def full_corpus(tasks: Sequence[FullTask], seed: int) -> Iterator[ConversationTurns]:
    """An endless stream of conversations."""
    rng = np.random.default_rng(seed)
    while True:
        yield draw_full_conversation(tasks, rng)


def draw_full_conversation(
    tasks: Sequence[FullTask], rng: np.random.Generator, turns: int | None = None
) -> ConversationTurns:
    """(observation, answer) of each turn of an episode; of 1 to 3 turns if not given."""
    task = tasks[int(rng.integers(len(tasks)))]
    count = turns or int(rng.choice([1, 2, 3], p=[0.5, 0.45, 0.05]))
    author = draw_author(rng)
    written = write_script(draw_plan(task.facts, author, rng), author.mistake_rate, rng)
    conversation = [(first_message(task.overview, EPISODE_TURNS), fenced(written.script))]
    best: float | None = None
    for turn in range(1, count):
        percentile = invent_percentile(written.plan, rng) if written.complaint is None else None
        if percentile is not None:
            best = max(percentile, best or 0.0)
        told = next_message(full_feedback(written, percentile, rng), EPISODE_TURNS - turn, best is not None, best)
        written = write_next(written, author, rng)
        conversation.append((told, fenced(written.script)))
    return conversation


def full_feedback(written: Written, percentile: float | None, rng: np.random.Generator) -> str:
    """What the sandbox says to a script, in the full style; the metric's value is invented as its percentile is."""
    facts, complaint = written.plan.facts, written.complaint
    if complaint is None:
        return render_feedback(
            Status.VALID,
            raw_score=float(rng.gamma(1.0, 0.5)),
            percentile=percentile,
            metric=facts.metric,
            higher_is_better=HIGHER_IS_BETTER[facts.metric],
            style="full",
        )
    if complaint == "timeout":
        return render_feedback(Status.TIMEOUT, wall_seconds=TIME_LIMIT, style="full")
    if complaint.startswith("invalid: "):
        return render_feedback(Status.INVALID_SUBMISSION, problem=complaint.removeprefix("invalid: "), style="full")
    if complaint.startswith("SyntaxError"):
        return render_feedback(Status.SYNTAX_ERROR, stderr=syntax_problem(written.script) or complaint, style="full")
    number, _, code = failing_line(written.plan, written.script, complaint).removeprefix("line ").partition(": ")
    traceback = (
        f'Traceback (most recent call last):\n  File "script.py", line {number}, in <module>\n    {code}\n{complaint}'
    )
    return render_feedback(Status.RUNTIME_ERROR, stderr=traceback, style="full")
