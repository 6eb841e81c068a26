"""How many fields the widest row of a CSV file has, found out before a table is made of it.

pandas takes minutes over a few rows of a hundred thousand fields. One pass with NumPy over the bytes takes as long as
reading them, whatever they are.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator

import numpy as np

MAX_ROW_CHARS = 2**22
"""Longest row, in characters, of a file whose quotes stand in odd places."""

_PIECE = 2**18
_COMMA, _QUOTE, _LINE_FEED, _RETURN = b',"\n\r'
_BORDERS = np.isin(np.arange(256), list(b',"\n\r'))
"""Per byte: whether it may stand outside, beside a quote that begins or ends a field."""
_MARK = b"\xef\xbb\xbf"


class RowTooLong(ValueError):
    """A row too long to be looked at."""


def widest_rows(content: bytes) -> tuple[int, int]:
    """Fields of the first row that is not empty, and of the widest one.

    Quotes count as pandas counts them: one that begins a field hides commas and line breaks up to the next.

    Raises:
        RowTooLong: if a row is longer than `MAX_ROW_CHARS` where only a slower look can tell its fields.
        csv.Error: if a field is longer than the csv module takes, there too.
    """
    start = len(_MARK) if content.startswith(_MARK) else 0
    found = _orderly(content, start)
    return _disorderly(content, start) if found is None else found


def _orderly(content: bytes, start: int) -> tuple[int, int] | None:
    """The same of a file in which every quote begins or ends a field, or is doubled within one; None of another."""
    first, widest = 0, 0
    quoted, commas, row_start = False, 0, start
    data = np.frombuffer(content, np.uint8)
    for begin in range(start, len(data), _PIECE):
        piece = data[begin : begin + _PIECE]
        separators = (piece == _COMMA) | (piece == _LINE_FEED) | (piece == _RETURN)
        quotes = piece == _QUOTE
        if quoted or quotes.any():
            inside = (np.cumsum(quotes, dtype=np.uint8) & 1).astype(bool) ^ quoted
            at = np.flatnonzero(quotes)
            # A quote after which one is inside began a field, or was the second of two; the others end one.
            neighbours = np.where(inside[at], at - 1, at + 1) + begin
            beyond = (neighbours < start) | (neighbours >= len(data))
            if not (_BORDERS[data[neighbours.clip(start, len(data) - 1)]] | beyond).all():
                return None
            separators &= ~inside
            quoted = bool(inside[-1])
        places = np.flatnonzero(separators)
        breaks = np.flatnonzero(piece[places] != _COMMA)
        if not breaks.size:
            commas += places.size
            continue
        counts = np.diff(breaks, prepend=-1) - 1
        counts[0] += commas
        commas = int(places.size - breaks[-1] - 1)
        if not first:
            ends = places[breaks] + begin
            lengths = np.diff(ends, prepend=row_start - 1) - 1
            filled = np.flatnonzero(lengths)
            first = int(counts[filled[0]]) + 1 if filled.size else 0
            row_start = int(ends[-1]) + 1
        widest = max(widest, int(counts.max()) + 1)
    last = commas + 1 if commas or row_start < len(data) else 0
    return first or last, max(widest, last)


def _disorderly(content: bytes, start: int) -> tuple[int, int]:
    """The same of any file, by the csv module: it reads quotes as pandas does."""
    lines = io.TextIOWrapper(io.BytesIO(content[start:]), "utf-8", "replace", newline="")
    read = 0

    def bounded() -> Iterator[str]:
        nonlocal read
        while line := lines.readline(MAX_ROW_CHARS + 1):
            read += len(line)
            if read > MAX_ROW_CHARS:
                raise RowTooLong(f"a row has more than {MAX_ROW_CHARS} characters")
            yield line

    first, widest = 0, 0
    for row in csv.reader(bounded()):
        read = 0
        widest = max(widest, len(row))
        first = first or len(row)
    return first, widest
