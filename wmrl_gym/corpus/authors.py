"""Who writes the solutions of a corpus, agents aside: the nano corpus' generator, reference solutions, damaged scripts.

Static analysis was developed on scripts of the generator, so what it is worth shows on the other authors.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass

import numpy as np

from wmrl_gym.corpus.mutations import mutate
from wmrl_gym.corpus.reference_scripts import reference_recipes, reference_script
from wmrl_gym.envs.mle_dojo.catalogue import CATALOGUE
from wmrl_gym.envs.mle_dojo.competition import Competition
from wmrl_gym.envs.mle_dojo.overview_text import render_overview

GENERATOR, REFERENCE, MUTANT = "generator", "reference", "mutant"
WRITERS = (GENERATOR, REFERENCE, MUTANT)
SOUND_SHARE = 0.5
"""Share of the generator's scripts without a mistake."""


@dataclass(frozen=True)
class Draft:
    """A script and who wrote it."""

    script: str
    author: str
    variant: str
    """Which of the author's manners: the generator's kind of author, a recipe, an agent's temperature."""
    mistake: str | None = None
    """What was done to a script that would run; None if nothing was, or nobody knows."""


def write_draft(author: str, competition: Competition, rng: np.random.Generator) -> Draft | None:
    """A script of one of `WRITERS`; None if that author has nothing to say about this competition.

    Raises:
        ValueError: for another author.
    """
    if author == GENERATOR:
        return _generated(competition, rng, SOUND_SHARE)
    if author == REFERENCE:
        return _reference(competition, rng)
    if author == MUTANT:
        return _mutant(competition, rng)
    raise ValueError(f"no author is called {author!r}: choose {', '.join(WRITERS)}")


def _generated(competition: Competition, rng: np.random.Generator, sound: float) -> Draft:
    from wmrl_gym.corpus.generator.authors import draw_author, draw_plan
    from wmrl_gym.corpus.generator.facts import parse_facts
    from wmrl_gym.corpus.generator.mistakes import draw_faulty
    from wmrl_gym.corpus.generator.scripts import HURRIED, LEARNED, render_plan

    person = draw_author(rng)
    plan = draw_plan(parse_facts(render_overview(competition.overview, style="compact")), person, rng)
    variant = "hurried" if person.manner is HURRIED else "learned" if person.manner is LEARNED else "versed"
    if rng.random() < sound:
        return Draft(render_plan(plan), GENERATOR, variant)
    mistake, faulty = draw_faulty(plan, rng)
    return Draft(faulty.script, GENERATOR, variant, mistake.name)


def _reference(competition: Competition, rng: np.random.Generator) -> Draft | None:
    spec = CATALOGUE.get(competition.name)
    if spec is None:
        return None
    recipes = reference_recipes(spec)
    recipe = recipes[int(rng.integers(len(recipes)))]
    with (competition.public_dir / "test.csv").open(newline="", encoding="utf-8") as lines:
        columns = [column for column in next(csv.reader(lines)) if column != spec.id_column]
    return Draft(reference_script(spec, recipe, columns[0] if columns else None), REFERENCE, recipe)


def _mutant(competition: Competition, rng: np.random.Generator) -> Draft | None:
    """A damaged copy of a sound script of either of the other two."""
    sound = _reference(competition, rng) if rng.random() < 0.5 else _generated(competition, rng, 1.0)
    changed = None if sound is None else mutate(sound.script, rng)
    if sound is None or changed is None:
        return None
    return Draft(changed[0], MUTANT, f"of {sound.author}", changed[1])
