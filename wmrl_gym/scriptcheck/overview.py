"""The public brief of a competition: all that an agent is told and all that a world model may read."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from wmrl_gym.scriptcheck.inventory import Column, DataFile, Inventory

Modality = Literal["tabular", "text", "image"]


@dataclass(frozen=True)
class SubmissionContract:
    """What a valid submission.csv looks like."""

    columns: tuple[str, ...]
    rows: int
    id_column: str


@dataclass(frozen=True)
class Overview:
    """Description, data inventory, targets, submission contract and modality of one competition."""

    competition: str
    description: str
    """Head of the description, its Evaluation section kept."""
    inventory: Inventory
    target_columns: tuple[str, ...]
    """Columns of the training table that the test table lacks."""
    contract: SubmissionContract
    metric: str
    """The metric's name, for example "rmse"."""
    higher_is_better: bool
    modality: Modality

    @property
    def train(self) -> DataFile | None:
        """The training table, or None if the competition has no table (but images, for example)."""
        return find_table(self.inventory, "train")

    @property
    def test(self) -> DataFile | None:
        """The test table, or None."""
        return find_table(self.inventory, "test")

    @property
    def features(self) -> tuple[Column, ...]:
        """Columns of the training table that may be learned from: also in the test table, and not the id."""
        if self.train is None:
            return ()
        held_back = {*self.target_columns, self.contract.id_column}
        known = {column.name for column in self.test.columns} if self.test is not None else None
        return tuple(
            column
            for column in self.train.columns
            if column.name not in held_back and (known is None or column.name in known)
        )

    @property
    def text_column(self) -> str | None:
        """The free-text column: the text feature with the longest values; None unless the modality is text."""
        texts = [column for column in self.features if column.dtype == "str"]
        if self.modality != "text" or not texts:
            return None
        return max(texts, key=lambda column: column.mean_length).name


def find_table(inventory: Inventory, role: Literal["train", "test"]) -> DataFile | None:
    """The table of that role, or None: exactly so named if there is one, else the largest whose name begins so."""
    named = [
        file
        for file in inventory.files
        if file.kind == "table" and file.path.rsplit("/", 1)[-1].lower().startswith(role) and file.columns
    ]
    exact = [file for file in named if re.fullmatch(rf"(.*/)?{role}\.\w+(\.gz)?", file.path, re.IGNORECASE)]
    return max(exact or named, key=lambda file: (-file.path.count("/"), file.size_bytes), default=None)
