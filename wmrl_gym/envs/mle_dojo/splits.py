"""The paper's split of MLE-Dojo: 45 competitions to train on and 14 held out, by their kind and size.

In each of three categories the 20 smallest competitions are taken; the 15 smallest train, the next 5 are held out. One
held-out text competition is left out, because its grader needs a package that the authors did not have. The lists are
computed by that rule from MLE-Dojo's own list of sizes.

In a configuration: ``tasks.train=wmrl_gym.envs.mle_dojo.splits.train_split``, and likewise ``held_out_split`` and
``split_categories``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from wmrl_gym.envs.mle_dojo.size_list import SIZE_LIST, ListedCompetition

CATEGORIES = ("tabular", "text", "image")
TRAIN_SIZE = 15
HELD_OUT_SIZE = 5
DROPPED = ("billion-word-imputation",)
"""Held-out competitions without a usable grader."""


def category(competition: ListedCompetition) -> str:
    """Category by Kaggle's tags: images before text before tables, and a table where no tag says otherwise."""
    if "Image" in competition.tags:
        return "image"
    return "text" if any(tag == "NLP" or tag.startswith("Text") for tag in competition.tags) else "tabular"


def train_split(sizes: Sequence[ListedCompetition] = SIZE_LIST) -> list[str]:
    """Names of the competitions to train on, category by category, each ascending by size."""
    return [name for part in CATEGORIES for name in _smallest(sizes, part, 0, TRAIN_SIZE)]


def held_out_split(sizes: Sequence[ListedCompetition] = SIZE_LIST, dropped: Iterable[str] = DROPPED) -> list[str]:
    """Names of the held-out competitions, category by category, each ascending by size."""
    left_out = set(dropped)
    names = [name for part in CATEGORIES for name in _smallest(sizes, part, TRAIN_SIZE, TRAIN_SIZE + HELD_OUT_SIZE)]
    return [name for name in names if name not in left_out]


def split_categories(sizes: Sequence[ListedCompetition] = SIZE_LIST) -> dict[str, str]:
    """Name of each listed competition -> its category."""
    return {competition.name: category(competition) for competition in sizes}


def _smallest(sizes: Sequence[ListedCompetition], part: str, start: int, stop: int) -> list[str]:
    # Stable: competitions of equal size stay in the list's order.
    members = sorted((item for item in sizes if category(item) == part), key=lambda item: item.size_bytes)
    return [item.name for item in members[start:stop]]
