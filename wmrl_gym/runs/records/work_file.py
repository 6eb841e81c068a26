"""What is finished of a long piece of work, one JSON line a portion, so that a killed process goes on where it was.

The first line says what the work is. A last line that was cut in the middle is taken out; the portion is done again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypeVar

from wmrl_gym.runs.records.differences import differences
from wmrl_gym.runs.records.run_directory import locked

T = TypeVar("T")


class OtherWork(ValueError):
    """The file holds finished portions of something else, or cannot be read."""


class WorkFile:
    """Finished portions of one piece of work. It is read and written in a ``with`` block, one process at a time.

    Args:
        path: the file, which need not exist. It is made with the first portion, so that a mistake in settings that
            shows before anything is finished can be put right. Beside it lies a lock file, which stays.
        work: what is worked on, as plain data. Portions of anything else are not gone on with.

    Attributes:
        portions: what is finished, in order.

    Raises:
        OtherWork: on entering, if the file is there and belongs to other work, or is damaged.
        RunInUse: on entering, if another process is inside.
    """

    portions: list[Any]

    def __init__(self, path: Path, work: Mapping[str, Any]) -> None:
        self.path = path
        self._first_line = json.dumps(work) + "\n"

    def __enter__(self) -> WorkFile:
        """Keep other processes out, and read what is finished."""
        with ExitStack() as held:
            held.enter_context(locked(self.path.with_name(f".{self.path.name}.lock"), self.path))
            self._read_file()
            self._held = held.pop_all()
        return self

    def __exit__(self, *raised: object) -> None:
        """Let other processes in."""
        self._held.close()

    def understood(self, meaning: Callable[[list[Any]], T]) -> T:
        """What ``meaning`` makes of the portions.

        Raises:
            OtherWork: if it can make nothing of them.
        """
        try:
            return meaning(self.portions)
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            raise OtherWork(
                f"'{self.path}' holds what this version cannot go on with ({type(error).__name__}: {error})\n"
                "  go on with the version that wrote it, or delete the file to begin anew."
            ) from error

    def append(self, portion: Any) -> None:
        """Write a finished portion down.

        Raises:
            OtherWork: if the file is no longer as this process left it. A later portion must not become its first.
            OSError: if it cannot be written, for example because the disk is full.
        """
        size = self.path.stat().st_size if self.path.is_file() else 0
        if size != self._size:
            raise OtherWork(
                f"'{self.path}' was deleted or changed in mid-work: it has {size} bytes and had {self._size}\n"
                "  let nothing else touch it; the same command goes on with what is in it, or begins anew without it."
            )
        line = ("" if size else self._first_line) + json.dumps(portion) + "\n"
        try:
            with self.path.open("a", encoding="utf-8") as out:
                out.write(line)
        except OSError as error:
            raise OSError(
                f"'{self.path}' cannot be written: {error.strerror}\n"
                "  if the disk is full, free some space; the same command goes on."
            ) from error
        self._size += len(line)  # JSON is written in ASCII
        self.portions.append(portion)

    def take_back(self) -> None:
        """Throw the last portion away, to be done again."""
        self.portions.pop()
        self._cut(self._size - len(self.path.read_bytes().splitlines(keepends=True)[-1]))

    def _read_file(self) -> None:
        content = self.path.read_bytes() if self.path.is_file() else b""
        lines = [line for line in content.splitlines(keepends=True) if line.endswith(b"\n")]
        begun = [self._read(number, line) for number, line in enumerate(lines, start=1)]
        if begun and not isinstance(begun[0], Mapping):
            raise OtherWork(f"'{self.path}' is another kind of file\n  choose another output, or move the file away.")
        found = list(differences(begun[0], json.loads(self._first_line))) if begun else []
        if found:
            raise OtherWork(
                f"'{self.path}' holds what was begun with other settings:\n    " + "\n    ".join(found) + "\n"
                "  give those again to go on, choose another output, or delete the file to begin anew."
            )
        self.portions, self._size = begun[1:], sum(map(len, lines))
        if self._size < len(content):
            self._cut(self._size)

    def _cut(self, size: int) -> None:
        os.truncate(self.path, size)  # in place: a second copy might not find room on a full disk
        self._size = size

    def _read(self, number: int, line: bytes) -> Any:
        try:
            return json.loads(line.decode())
        except ValueError:
            raise OtherWork(
                f"'{self.path}' is damaged in its middle, at line {number}\n"
                "  delete that line and all behind it to go on from there, or the file to begin anew."
            ) from None
