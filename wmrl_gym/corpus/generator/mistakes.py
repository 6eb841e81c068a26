"""The mistakes that authors make, each of the eight kinds, as edits of a script that would run.

A mistake is one visible choice (a name, an argument, a line), so that an agent can unlearn it. Each knows when it
applies, and what the sandbox would say.
"""

from __future__ import annotations

import numpy as np

# Importing these registers their mistakes, in this order.
from wmrl_gym.corpus.generator import mistakes_in_calls, mistakes_in_data, mistakes_in_results  # noqa: F401
from wmrl_gym.corpus.generator.mistake import MISTAKES, Faulty, Mistake
from wmrl_gym.corpus.generator.scripts import Plan, render_plan

__all__ = ["MISTAKES", "Faulty", "Mistake", "draw_faulty"]


def draw_faulty(plan: Plan, rng: np.random.Generator) -> tuple[Mistake, Faulty]:
    """A mistake that applies to this plan, by weight, and the script that has it."""
    script = render_plan(plan)
    candidates = list(MISTAKES)
    while True:
        weights = np.array([mistake.weight for mistake in candidates])
        mistake = candidates.pop(int(rng.choice(len(candidates), p=weights / weights.sum())))
        faulty = mistake.edit(plan, script, rng)
        if faulty is not None and faulty.script != script:
            return mistake, faulty
