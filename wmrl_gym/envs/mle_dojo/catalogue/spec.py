"""What a bundled competition is, before it is written to disk."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray

Category = Literal["tabular", "text", "image"]
Split = Literal["train", "held_out"]
MetricName = Literal["rmse", "mae", "rmsle", "accuracy", "macro_f1", "auc", "log_loss"]
Answer = Literal["number", "label", "probability"]

HIGHER_IS_BETTER: Mapping[str, bool] = {
    "rmse": False,
    "mae": False,
    "rmsle": False,
    "log_loss": False,
    "accuracy": True,
    "macro_f1": True,
    "auc": True,
}

_ANSWERS: Mapping[str, Answer] = {
    "rmse": "number",
    "mae": "number",
    "rmsle": "number",
    "accuracy": "label",
    "macro_f1": "label",
    "auc": "probability",
    "log_loss": "probability",
}


@dataclass(frozen=True)
class Source:
    """One installed distribution and the files in it that a competition is made from."""

    distribution: str
    """Name to install, for example "scikit-learn"."""
    package: str
    """Name to import, for example "sklearn". It is located, never imported."""
    files: tuple[str, ...]
    """Paths inside the package."""


@dataclass(frozen=True)
class Examples:
    """All labelled examples of a competition, before they are shuffled and split.

    Raises:
        ValueError: if the parts differ in length.
    """

    table: pd.DataFrame
    """Features and target, one row per example. An image competition's table holds the target alone."""
    images: NDArray[np.uint8] | None = None
    """Pixels, shape (n, height, width) for grey or (n, height, width, 3) for colour."""
    is_test: NDArray[np.bool_] | None = None
    """Fixed split, shape (n,), where a random one would leak (neighbouring patches of one photograph)."""

    def __post_init__(self) -> None:
        """Check that the parts belong together."""
        for part in (self.images, self.is_test):
            if part is not None and len(part) != len(self.table):
                raise ValueError(f"{len(self.table)} rows in the table but {len(part)} in another part")


@dataclass(frozen=True)
class CompetitionSpec:
    """One competition of the catalogue."""

    name: str
    title: str
    category: Category
    split: Split
    metric: MetricName
    id_column: str
    target: str
    story: str
    """What the task is about, in our own words."""
    fields: Mapping[str, str]
    """Public column -> what it holds; the id and the target are described too."""
    sources: tuple[Source, ...]
    origin: str
    """Who collected the data."""
    licence: str
    """Licence of the package that ships the data, and what is known about the data's own."""
    load: Callable[[], Examples] = field(compare=False, repr=False)
    max_rows: int = 2400
    test_fraction: float = 0.35
    seed: int = 0

    @property
    def higher_is_better(self) -> bool:
        """Direction of the metric."""
        return HIGHER_IS_BETTER[self.metric]

    @property
    def answer(self) -> Answer:
        """What the target column of a submission holds: a number, a label, or the probability of label 1."""
        return _ANSWERS[self.metric]

    def metadata(self) -> dict[str, Any]:
        """The facts written to competition.json."""
        return {
            "name": self.name,
            "title": self.title,
            "category": self.category,
            "split": self.split,
            "metric": self.metric,
            "higher_is_better": self.higher_is_better,
            "id_column": self.id_column,
            "target": self.target,
            "leaderboard": "reference",
            "source": [f"{source.distribution}: {', '.join(source.files)}" for source in self.sources]
            or ["Python's standard library"],
            "origin": self.origin,
            "licence": self.licence,
        }
