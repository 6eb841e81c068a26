"""The overview in words: in full for a large language model, compact for a small one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Literal

from wmrl_gym.scriptcheck.inventory import Column, DataFile, Inventory
from wmrl_gym.scriptcheck.overview import Overview

OverviewStyle = Literal["full", "compact"]

DEFAULT_CHARS = {"full": 8000, "compact": 600}
MAX_LISTED_COLUMNS = 60
NUMERIC_DTYPES = ("int64", "float64", "bool")


def render_overview(overview: Overview, style: OverviewStyle = "full", max_chars: int | None = None) -> str:
    """Overview as text, at most `max_chars` characters (default 8000 in full, 600 compact).

    Too long a text loses its least important parts first: long lists of columns, then the end of the description.

    Raises:
        ValueError: for an unknown style.
    """
    if style not in DEFAULT_CHARS:
        raise ValueError(f"overview style {style!r} is unknown: use 'full' or 'compact'")
    limit = DEFAULT_CHARS[style] if max_chars is None else max_chars
    return _compact(overview, limit) if style == "compact" else _full(overview, limit)


# Compact ------------------------------------------------------------------------------------------------------------


def _compact(overview: Overview, limit: int) -> str:
    numeric, categorical = 12, 8
    text = _compact_lines(overview, numeric, categorical)
    while len(text) > limit and (numeric or categorical):
        numeric, categorical = max(0, numeric - 2), max(0, categorical - 1)
        text = _compact_lines(overview, numeric, categorical)
    return text[:limit].rstrip()


def _compact_lines(overview: Overview, numeric: int, categorical: int) -> str:
    train, test, contract = overview.train, overview.test, overview.contract
    features = overview.features
    text_column = overview.text_column
    numbers = [column.name for column in features if column.dtype in NUMERIC_DTYPES]
    categories = [column.name for column in features if column.dtype == "str" and column.name != text_column]
    lines = [
        f"{overview.modality} {overview.metric} {'max' if overview.higher_is_better else 'min'}",
        f"id {_name(contract.id_column)}",
        f"target {_names(overview.target_columns, 8)}",
        f"train {_rows(train)} test {test.rows if test is not None else contract.rows}",
    ]
    if text_column is not None:
        lines.append(f"text {_name(text_column)}")
    if overview.modality == "image":
        lines.append(f"image {image_pattern(overview)}")
    if numbers and numeric:
        lines.append(f"num {_names(numbers[:numeric])}")
    if categories and categorical:
        lines.append(f"cat {_names(categories[:categorical])}")
    lines.append(f"missing {'yes' if _any_missing(overview) else 'no'}")
    lines.append(f"submit {_names(contract.columns, 12)}")
    return "\n".join(lines)


def _rows(table: DataFile | None) -> str:
    return "?" if table is None or table.rows is None else str(table.rows)


def _name(name: str) -> str:
    """A name as a script would quote it, if it could be taken for several."""
    return repr(name) if not name or re.search(r"\s", name) else name


def _names(names: Sequence[str], limit: int | None = None) -> str:
    shown = " ".join(_name(name) for name in names[:limit])
    return shown if limit is None or len(names) <= limit else f"{shown} ... {_name(names[-1])} ({len(names)})"


def _any_missing(overview: Overview) -> bool:
    features = {column.name for column in overview.features}
    tables = [table for table in (overview.train, overview.test) if table is not None]
    return any(column.missing > 0 for table in tables for column in table.columns if column.name in features)


def image_pattern(overview: Overview) -> str:
    """Where the images lie, in terms of the id: ``train/{id}.png test/{id}.png 8x8 L``."""
    holders = [file for file in overview.inventory.files if file.image_mode or file.image_size]
    roles = [_image_holder(holders, role) for role in ("train", "test")]
    chosen = list(dict.fromkeys(file for file in roles if file is not None)) or holders[:2]
    if not chosen:
        return "?"
    sizes = {file.image_size for file in chosen}
    modes = {file.image_mode for file in chosen}
    size = next(iter(sizes)) if len(sizes) == 1 else None
    mode = next(iter(modes)) if len(modes) == 1 else None
    ids = _id_examples(overview)
    paths = [f"{file.path}/{_file_pattern(file, ids)}" for file in chosen]
    return " ".join([*paths, f"{size[0]}x{size[1]}" if size else "varied", mode or "mixed"])


def _image_holder(holders: Sequence[DataFile], role: str) -> DataFile | None:
    return next((file for file in holders if file.path.rsplit("/", 1)[-1].lower().startswith(role)), None)


def _id_examples(overview: Overview) -> set[str]:
    tables = [table for table in (overview.train, overview.test) if table is not None]
    return {
        example
        for table in tables
        for column in table.columns
        if column.name == overview.contract.id_column
        for example in column.examples
    }


def _file_pattern(file: DataFile, ids: set[str]) -> str:
    """``{id}.png``, or ``{id}`` where the ids carry the ending themselves."""
    example = file.examples[0] if file.examples else "{id}"
    folder, _, name = example.rpartition("/")
    ending = name[name.rfind(".") :] if "." in name else ""
    pattern = "{id}" if any(ending and value.endswith(ending) for value in ids) else "{id}" + ending
    return f"{folder}/{pattern}" if folder and "/" not in folder and file.kind == "archive" else pattern


# Full ---------------------------------------------------------------------------------------------------------------


def _full(overview: Overview, limit: int) -> str:
    facts = "\n\n".join([_task(overview), _inventory_section(overview.inventory), _contract_section(overview)])
    room = limit - len(facts) - 40
    if room < 200:  # the facts alone fill the page: they matter more than the story
        return facts[:limit].rstrip()
    description = overview.description
    if len(description) > room:
        description = description[: room - 4].rstrip() + " ..."
    return f"# Description\n{description}\n\n{facts}"


def _task(overview: Overview) -> str:
    direction = "higher is better" if overview.higher_is_better else "lower is better"
    lines = [
        "# Task",
        f"competition: {overview.competition}",
        f"kind of data: {overview.modality}",
        f"metric: {overview.metric} ({direction})",
        f"target columns: {_listing(overview.target_columns)}",
    ]
    if overview.text_column is not None:
        lines.append(f"text column: {overview.text_column}")
    if overview.modality == "image":
        lines.append(f"images: {image_pattern(overview)}")
    return "\n".join(lines)


def _inventory_section(inventory: Inventory) -> str:
    return "# Data (in DATA_DIR)\n" + render_inventory(inventory)


def render_inventory(inventory: Inventory, max_chars: int | None = None) -> str:
    """One paragraph per file or folder: size, rows, columns with dtype, missing share and examples."""
    text = "\n".join(line for file in inventory.files for line in _file_lines(file))
    return text if max_chars is None or len(text) <= max_chars else text[: max_chars - 4].rstrip() + " ..."


def _file_lines(file: DataFile) -> Iterable[str]:
    if file.kind == "table":
        yield f"{file.path}: table, {file.rows} rows x {len(file.columns)} columns"
        for column in file.columns[:MAX_LISTED_COLUMNS]:
            yield f"  {_column_line(column)}"
        if len(file.columns) > MAX_LISTED_COLUMNS:
            last = file.columns[-1]
            yield f"  ... {len(file.columns) - MAX_LISTED_COLUMNS} more columns up to {last.name} {last.dtype}"
        return
    parts = [file.kind if file.kind != "file" else f"file, {file.size_bytes} bytes"]
    if file.entries is not None:
        parts.append(f"{file.entries} files")
    if file.image_size is not None:
        parts.append(f"images {file.image_size[0]}x{file.image_size[1]}")
    elif file.image_mode is not None:
        parts.append("images of varied size")
    if file.image_mode is not None:
        parts.append(f"mode {file.image_mode}")
    if file.examples:
        parts.append(f"for example {', '.join(file.examples)}")
    yield f"{file.path}: {', '.join(parts)}"


def _column_line(column: Column) -> str:
    missing = f", missing {column.missing:.1%}" if column.missing else ""
    return f"{column.name} {column.dtype}, {column.unique} distinct{missing}, e.g. {' | '.join(column.examples)}"


def _contract_section(overview: Overview) -> str:
    contract, sample = overview.contract, overview.inventory.file("sample_submission.csv")
    listing = "test table" if sample is None or sample.rows != contract.rows else "sample submission"
    return (
        "# Submission\n"
        f"Write a CSV file to SUBMISSION_PATH with exactly the columns {_listing(contract.columns)} and "
        f"{contract.rows} rows, one for each {contract.id_column} of the {listing}."
    )


def _listing(names: Sequence[str]) -> str:
    shown = ", ".join(names[:20])
    return shown if len(names) <= 20 else f"{shown}, ... {names[-1]} ({len(names)} in all)"
