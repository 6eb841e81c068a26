"""Whole conversations: a first script, what the sandbox says to it, and a script that repairs or improves it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from wmrl_gym.corpus.generator.authors import Author, draw_author, draw_plan, redraw_settings
from wmrl_gym.corpus.generator.estimators import tier
from wmrl_gym.corpus.generator.facts import TaskFacts
from wmrl_gym.corpus.generator.mistakes import draw_faulty
from wmrl_gym.corpus.generator.naming import rename
from wmrl_gym.corpus.generator.scripts import Plan, render_plan

REPAIRED = 0.18
"""Chance that a failed script is mended at the next turn."""
RENAMED = 0.7
"""Share of conversations about renamed competitions."""


@dataclass(frozen=True)
class CorpusTurn:
    """One observation and the answer to it."""

    observation: str
    response: str


@dataclass(frozen=True)
class Written:
    """A script and what is known of it."""

    plan: Plan
    script: str
    complaint: str | None
    """None for a script that should run."""


def draw_conversation(
    tasks: Sequence[TaskFacts], rng: np.random.Generator, turns: int | None = None
) -> tuple[CorpusTurn, ...]:
    """A conversation about one of the competitions, usually under invented names; of 1 to 3 turns if not given."""
    facts = tasks[int(rng.integers(len(tasks)))]
    if rng.random() < RENAMED:
        facts = rename(facts, rng)
    count = turns or int(rng.choice([1, 2, 3], p=[0.5, 0.45, 0.05]))
    author = draw_author(rng)
    written = write_script(draw_plan(facts, author, rng), author.mistake_rate, rng)
    observation = facts.render()
    conversation = [CorpusTurn(observation, fenced(written.script))]
    for _ in range(count - 1):
        observation = feedback(written.plan, written.script, written.complaint, rng)
        written = write_next(written, author, rng)
        conversation.append(CorpusTurn(observation, fenced(written.script)))
    return tuple(conversation)


def fenced(script: str) -> str:
    """A script as an answer."""
    return f"```python\n{script}```"


def feedback(plan: Plan, script: str, complaint: str | None, rng: np.random.Generator) -> str:
    """What the sandbox says, in compact form. Percentiles are invented, higher for stronger estimators."""
    if complaint is None:
        return f"ok percentile {invent_percentile(plan, rng):.2f} {plan.facts.metric} {rng.gamma(1.0, 0.5):.4f}"
    if complaint == "timeout":
        return "error timeout after 20s"
    if complaint.startswith("invalid: "):
        return f"invalid submission: {complaint.removeprefix('invalid: ')}"
    return f"error {complaint}\n{failing_line(plan, script, complaint)}"


def invent_percentile(plan: Plan, rng: np.random.Generator) -> float:
    """A percentile for a script that runs, higher for stronger estimators."""
    return float(np.clip(rng.normal(0.15 + 0.2 * tier(plan.estimator, plan.facts), 0.15), 0, 1))


def failing_line(plan: Plan, script: str, complaint: str) -> str:
    """The failing line, as the sandbox names it."""
    lines = script.split("\n")
    sound = render_plan(plan).split("\n")
    changed = next((i for i, line in enumerate(lines) if i >= len(sound) or line != sound[i]), 0)
    marks = (
        ("NaN", ".fit("),
        ("could not convert", ".fit("),
        ("inconsistent numbers", ".fit("),
        ("Found array", ".fit("),
        ("Input X", ".fit("),
        ("InvalidParameter", ".fit("),
        ("not in index", f"{plan.names.features_test} = {plan.names.features_test}["),
        ("expecting", ".predict"),
        ("columns are missing", ".predict"),
        ("no attribute 'predict_proba'", ".predict_proba"),
        ("ength", f"{plan.names.submission} = "),
        ("Per-column", f"{plan.names.submission} = "),
        (f"KeyError: '{plan.facts.id_column}'", f"{plan.names.submission} = "),
        ("NameError: name 'np'", "np."),
        ("NameError", f"{plan.names.model} = " if plan.estimator.name in complaint else ".predict"),
        ("jpg", "Image.open("),
        ("/images/", "Image.open("),
        ("unexpected keyword", f"{plan.estimator.name}(" if plan.estimator.name in complaint else "\0"),
    )
    for mark, place in marks:
        if mark in complaint:
            changed = next((i for i, line in enumerate(lines) if place in line), changed)
            break
    return f"line {changed + 1}: {lines[changed].strip()}"


def write_script(plan: Plan, mistake_rate: float, rng: np.random.Generator) -> Written:
    """A script that follows the plan, or one with a mistake in it."""
    if rng.random() < mistake_rate:
        _, faulty = draw_faulty(plan, rng)
        return Written(plan, faulty.script, faulty.complaint)
    return Written(plan, render_plan(plan), None)


def write_next(last: Written, author: Author, rng: np.random.Generator) -> Written:
    """Mend what failed, or improve what ran; neither always succeeds."""
    plan, choice = last.plan, rng.random()
    if last.complaint is not None:
        if choice < REPAIRED:
            return Written(plan, render_plan(plan), None)
        if choice < REPAIRED + 0.2:
            return last  # it did not see what was wrong
        if choice < REPAIRED + 0.35:
            return write_script(plan, 1.0, rng)
        return write_script(draw_plan(plan.facts, author, rng), author.mistake_rate, rng)
    if choice < 0.4:
        plan = draw_plan(plan.facts, author, rng, at_least=min(3, tier(plan.estimator, plan.facts) + 1))
    elif choice < 0.65:
        plan = redraw_settings(plan, rng)
    else:
        plan = draw_plan(plan.facts, author, rng)
    return write_script(plan, 0.6 * author.mistake_rate, rng)
