"""The training competitions, as the corpus needs them."""

from __future__ import annotations

import tempfile
from pathlib import Path

from wmrl_gym.corpus.generator.facts import TaskFacts, parse_facts
from wmrl_gym.envs.mle_dojo.catalogue import prepare, train_competitions
from wmrl_gym.envs.mle_dojo.competition import load_competition
from wmrl_gym.envs.mle_dojo.overview_building import build_overview
from wmrl_gym.envs.mle_dojo.overview_text import render_overview
from wmrl_gym.scriptcheck.overview import Overview


def training_tasks(data_root: Path | None = None) -> list[TaskFacts]:
    """Facts of every training competition, read from its compact overview; see `training_overviews`."""
    return [parse_facts(render_overview(overview, style="compact")) for overview in training_overviews(data_root)]


def training_overviews(data_root: Path | None = None) -> list[Overview]:
    """Overview of every training competition. Held-out competitions are never looked at.

    Args:
        data_root: folder of prepared competitions, filled where something is missing; None for a temporary one.
    """
    if data_root is None:
        with tempfile.TemporaryDirectory() as folder:
            return training_overviews(Path(folder))
    overviews = []
    for name in train_competitions():
        prepare(name, data_root)
        overviews.append(build_overview(load_competition(data_root, name, needs_leaderboard=False)))
    return overviews
