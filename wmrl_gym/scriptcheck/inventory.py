"""What lies in a competition's public folder, as plain data that an agent or a world model can read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Column:
    """One column of a table."""

    name: str
    dtype: str
    """As pandas reads it: "int64", "float64", "bool" or "str" (any text)."""
    missing: float
    """Share of missing values, 0 to 1."""
    unique: int
    examples: tuple[str, ...] = ()
    mean_length: float = 0.0
    """Mean number of characters of the non-missing values of a "str" column; 0 for other columns."""


@dataclass(frozen=True)
class DataFile:
    """One file or folder of the public data, addressed relative to DATA_DIR."""

    path: str
    """For example "train.csv", or "train" for a folder of images."""
    kind: Literal["table", "folder", "archive", "file"]
    size_bytes: int
    rows: int | None = None
    columns: tuple[Column, ...] = ()
    entries: int | None = None
    """Number of files inside a folder or archive."""
    examples: tuple[str, ...] = ()
    """A few names inside a folder or archive."""
    image_size: tuple[int, int] | None = None
    """(width, height) of the images inside, if they are images of one size."""
    image_mode: str | None = None
    """Pillow's mode, for example "L" or "RGB"."""


@dataclass(frozen=True)
class Inventory:
    """All public files of a competition."""

    files: tuple[DataFile, ...]

    def file(self, path: str) -> DataFile | None:
        """The entry of that path, or None."""
        return next((file for file in self.files if file.path == path), None)
