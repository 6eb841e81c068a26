"""The bundled competitions: real data from ordinary Python packages, written in MLE-Dojo's layout.

No download is needed at run time. Light to import: data, pandas and Pillow are touched only when one is prepared.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from wmrl_gym.envs.mle_dojo.catalogue.images import IMAGES
from wmrl_gym.envs.mle_dojo.catalogue.mixed_tables import MIXED_TABLES
from wmrl_gym.envs.mle_dojo.catalogue.numeric_tables import NUMERIC_TABLES
from wmrl_gym.envs.mle_dojo.catalogue.preparation import closest_names, prepare_spec
from wmrl_gym.envs.mle_dojo.catalogue.sources import MissingSourceError
from wmrl_gym.envs.mle_dojo.catalogue.spec import CompetitionSpec, Source
from wmrl_gym.envs.mle_dojo.catalogue.texts import TEXTS

__all__ = [
    "CATALOGUE",
    "CompetitionSpec",
    "MissingSourceError",
    "Source",
    "competition_categories",
    "held_out_competitions",
    "prepare",
    "prepare_all",
    "train_competitions",
]

CATALOGUE: Mapping[str, CompetitionSpec] = {
    spec.name: spec for spec in (*NUMERIC_TABLES, *MIXED_TABLES, *TEXTS, *IMAGES)
}


def train_competitions() -> list[str]:
    """Names of the competitions an agent may be trained on."""
    return [spec.name for spec in CATALOGUE.values() if spec.split == "train"]


def held_out_competitions() -> list[str]:
    """Names of the competitions kept for evaluation."""
    return [spec.name for spec in CATALOGUE.values() if spec.split == "held_out"]


def competition_categories() -> dict[str, str]:
    """Name of each competition -> its category: "tabular", "text" or "image"."""
    return {spec.name: spec.category for spec in CATALOGUE.values()}


def prepare(name: str, root: str | os.PathLike[str]) -> Path:
    """Write one competition below ``root`` unless it is there and up to date; return its folder.

    Raises:
        KeyError: if the catalogue has no such competition.
        MissingSourceError: if a package that ships the data is not installed.
    """
    if name not in CATALOGUE:
        raise KeyError(closest_names(name, CATALOGUE))
    return prepare_spec(CATALOGUE[name], Path(root).expanduser())


def prepare_all(root: str | os.PathLike[str]) -> list[Path]:
    """Prepare every competition of the catalogue below ``root``."""
    return [prepare(name, root) for name in CATALOGUE]
