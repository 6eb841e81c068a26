"""Builds a competition's overview from its public folder, and fails loudly if a part of it is missing."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol, get_args

from wmrl_gym.envs.mle_dojo.scanning import scan_public_data
from wmrl_gym.scriptcheck.inventory import DataFile, Inventory
from wmrl_gym.scriptcheck.overview import Modality, Overview, SubmissionContract, find_table

DESCRIPTION_TOKENS = 900
CHARS_PER_TOKEN = 4
"""Rule of thumb for English text: the overview must not depend on one model's tokenizer."""

_HEADING = re.compile(r"^\s{0,3}(#{1,6}\s+(?P<hash>.+?)\s*#*|\*\*(?P<bold>[^*]+)\*\*:?)\s*$")


class Described(Protocol):
    """What an overview is made of: a competition's public part."""

    @property
    def name(self) -> str:
        """The competition's name."""
        ...

    @property
    def public_dir(self) -> Path:
        """Folder of what an agent may see."""
        ...

    @property
    def sample_file(self) -> str:
        """Name of the sample submission in it."""
        ...

    @property
    def rows_as_answers(self) -> bool:
        """Whether a submission has as many rows as the answers, whatever the sample submission has."""
        ...

    @property
    def submission_rows(self) -> int:
        """How many rows a submission has."""
        ...

    @property
    def description(self) -> str:
        """The whole public description."""
        ...

    @property
    def description_path(self) -> Path:
        """Where it lies."""
        ...

    @property
    def metric(self) -> str:
        """Short name of the metric."""
        ...

    @property
    def higher_is_better(self) -> bool:
        """Direction of the metric."""
        ...

    @property
    def metadata(self) -> Mapping[str, Any]:
        """What the competition declares of itself."""
        ...


class OverviewError(Exception):
    """A part of the overview is missing from a competition's public data. Says which, and where it was looked for."""


def build_overview(competition: Described) -> Overview:
    """Read the public folder of a competition.

    Raises:
        OverviewError: if the description is empty, the sample submission has no columns or rows, there is no data
            beside it, or no target column can be told.
        ValueError: if a public table cannot be read.
    """
    inventory = scan_public_data(competition.public_dir)
    description = competition.description.strip()
    if not description:
        raise OverviewError(f"{competition.description_path} is empty: describe the task in it")
    if not any(file.path not in ("description.txt", competition.sample_file) for file in inventory.files):
        raise OverviewError(f"{competition.public_dir} holds no data: expected train and test files or folders there")
    contract = _contract(competition, inventory)
    targets = _target_columns(competition, inventory, contract)
    return Overview(
        competition=competition.name,
        description=describe(description),
        inventory=inventory,
        target_columns=targets,
        contract=contract,
        metric=competition.metric,
        higher_is_better=competition.higher_is_better,
        modality=_modality(competition, inventory, targets, contract),
    )


def describe(description: str, max_chars: int = DESCRIPTION_TOKENS * CHARS_PER_TOKEN) -> str:
    """Head of a description, the Evaluation section kept even where it comes late."""
    if len(description) <= max_chars:
        return description
    start, end = _section(description, "evaluation")
    evaluation = description[start:end].strip()[: max_chars // 2]
    if not evaluation or start + len(evaluation) <= max_chars:
        return description[: max_chars - 4].rstrip() + " ..."
    head = description[: max_chars - len(evaluation) - 12].rstrip()
    return f"{head}\n...\n\n{evaluation}\n..."


def _section(text: str, title: str) -> tuple[int, int]:
    """Start and end of the section with that word in its heading; (0, 0) if there is none."""
    start, level, position = -1, 0, 0
    for line in text.splitlines(keepends=True):
        heading = _HEADING.match(line.rstrip("\n"))
        if heading is not None:
            depth = len(line.lstrip()) - len(line.lstrip().lstrip("#")) or 7
            if start >= 0 and depth <= level:
                return start, position
            if start < 0 and title in (heading["hash"] or heading["bold"]).lower():
                start, level = position, depth
        position += len(line)
    return (start, position) if start >= 0 else (0, 0)


def _contract(competition: Described, inventory: Inventory) -> SubmissionContract:
    sample = inventory.file(competition.sample_file)
    if sample is None or not sample.columns or not sample.rows:
        raise OverviewError(
            f"{competition.public_dir / competition.sample_file} must have a header and at least one row: "
            "it tells what a submission looks like"
        )
    columns = tuple(column.name for column in sample.columns)
    test = find_table(inventory, "test")
    known = {column.name for column in test.columns} if test is not None else set()
    rows = competition.submission_rows if competition.rows_as_answers else sample.rows
    return SubmissionContract(columns, rows, next((name for name in columns if name in known), columns[0]))


def _target_columns(competition: Described, inventory: Inventory, contract: SubmissionContract) -> tuple[str, ...]:
    """Train minus test columns; without a test table, what the submission asks for."""
    train, test = find_table(inventory, "train"), find_table(inventory, "test")
    asked = tuple(name for name in contract.columns if name != contract.id_column)
    if train is not None and test is not None:
        in_test = {column.name for column in test.columns}
        targets = tuple(column.name for column in train.columns if column.name not in in_test)
    elif train is not None:
        others = tuple(column.name for column in train.columns if column.name != contract.id_column)
        targets = tuple(name for name in asked if name in others) or (others if len(others) == 1 else asked)
    else:
        targets = asked
    targets = targets or asked
    if not targets:
        raise OverviewError(
            f"competition {competition.name!r} has no target column: the test table lacks none of the training "
            f"table's columns, and the sample submission asks for {', '.join(contract.columns)} only"
        )
    return targets


def _modality(
    competition: Described, inventory: Inventory, targets: tuple[str, ...], contract: SubmissionContract
) -> Modality:
    """What the competition declares, else a guess by the data: images, long texts, or plain columns."""
    declared = str(competition.metadata.get("category", "")).lower()
    for modality in get_args(Modality):
        if declared == modality:
            return modality
    if any(_holds_images(file) for file in inventory.files):
        return "image"
    table = find_table(inventory, "test") or find_table(inventory, "train")
    columns = [c for c in table.columns if c.name not in {*targets, contract.id_column}] if table is not None else []
    texts = [column for column in columns if column.dtype == "str"]
    long_text = any(column.mean_length >= 40 and column.unique > 20 for column in texts)
    return "text" if long_text or (len(columns) == 1 and texts and texts[0].unique > 100) else "tabular"


def _holds_images(file: DataFile) -> bool:
    return file.kind in ("folder", "archive") and file.image_mode is not None
