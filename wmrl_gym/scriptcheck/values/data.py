"""Data: frames, series, groups of rows, arrays."""

from __future__ import annotations

import dataclasses
from typing import Any

from wmrl_gym.scriptcheck.cells import Cells, merge_cells
from wmrl_gym.scriptcheck.values.scalars import Value


@dataclasses.dataclass(eq=False)
class Frame(Value):
    """A pandas DataFrame."""

    columns: dict[str, Cells]
    complete: bool = True
    """Whether `columns` are all there are."""
    rows: int | None = None
    origin: str | None = None
    """The file whose rows these are, one by one and in order."""
    absent: frozenset[str] = frozenset()
    """Columns that are certainly not there, where the frame is not complete."""
    dummies: tuple[tuple[str, str, int | None], ...] = ()
    """(column, file, distinct values) of each column that was spread into indicator columns."""
    index: str | None = None
    """Name of the column that became the index."""
    parts: tuple[tuple[str | None, int | None], ...] = ()
    """(file, rows) of the tables that were stacked to make it, in order."""
    rest: Cells = dataclasses.field(default_factory=Cells)
    """What is known of the columns that are not listed."""
    doubled: tuple[str, ...] = ()
    """Columns that are there more than once, one entry for each further time."""

    def lacks(self, name: Any) -> bool:
        """Whether the column is missing for certain."""
        return name not in self.columns and (self.complete or name in self.absent)

    def copy(self) -> Frame:
        """An independent frame with the same content."""
        return dataclasses.replace(self, columns=dict(self.columns))

    def with_columns(self, columns: dict[str, Cells], **changes: Any) -> Frame:
        """The same rows with other columns."""
        return dataclasses.replace(self, columns=columns, **changes)

    def blurred(self) -> dict[str, Cells]:
        """The columns, of whose values nothing is known any more but where they come from."""
        return {name: Cells(sources=cells.sources) for name, cells in self.columns.items()}

    def cells(self) -> Cells:
        """All values put together."""
        return merge_cells([*self.columns.values(), *([] if self.complete else [self.rest])])

    @property
    def width(self) -> int | None:
        """Number of columns, None if unknown."""
        return len(self.columns) + len(self.doubled) if self.complete else None


@dataclasses.dataclass(eq=False)
class Series(Value):
    """A pandas Series."""

    cells: Cells
    rows: int | None = None
    name: str | None = None
    origin: str | None = None
    mask: bool = False
    """Whether it is a Boolean mask."""
    parts: tuple[tuple[str | None, int | None], ...] = ()
    """(file, rows) of what was stacked to make it."""
    index: tuple[str, Cells] | None = None
    """Name and values of its index, if they are not just numbers from 0."""


@dataclasses.dataclass(eq=False)
class GroupBy(Value):
    """The result of ``groupby``: `selected` is None for all columns."""

    frame: Frame
    keys: tuple[str, ...]
    selected: tuple[str, ...] | None = None
    single: bool = False


@dataclasses.dataclass(eq=False)
class Array(Value):
    """A NumPy array or a SciPy sparse matrix."""

    cells: Cells
    shape: tuple[int | None, ...] | None = None
    sparse: bool | None = False
    origin: str | None = None
    basis: int | None = None
    """Which fitted vocabulary its columns stand for, where their number is unknown."""
    density: float | None = None
    """Expected share of non-zero values of a sparse matrix."""
    likely_width: int | None = None
    """A guess at the number of columns where it is not known: good enough for what things cost."""

    @property
    def rows(self) -> int | None:
        """Length of the first axis."""
        return self.shape[0] if self.shape else None

    @property
    def ndim(self) -> int | None:
        """Number of axes."""
        return None if self.shape is None else len(self.shape)
