"""The public brief of a competition: all that an agent is told and all that a world model may read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from wmrl_gym.envs.mle_dojo.inventory import Inventory

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
