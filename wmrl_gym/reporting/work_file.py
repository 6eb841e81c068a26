"""What is finished of a long piece of work, one JSON line a portion, so that a killed process goes on where it was.

The first line says what the work is. A last line that was cut in the middle is taken out; the portion is done again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from wmrl_gym.reporting.differences import differences
from wmrl_gym.reporting.run_directory import write_atomically


class OtherWork(ValueError):
    """The file holds finished portions of something else, or cannot be read."""


class WorkFile:
    """Finished portions of one piece of work.

    Args:
        path: the file, which need not exist. It is made with the first portion, so that a mistake in settings that
            shows before anything is finished can be put right.
        work: what is worked on, as plain data. Portions of anything else are not gone on with.

    Attributes:
        portions: what is finished, in order.

    Raises:
        OtherWork: if the file is there and belongs to other work, or is damaged.
    """

    def __init__(self, path: Path, work: Mapping[str, Any]) -> None:
        self.path = path
        self._first_line = json.dumps(work) + "\n"
        content = path.read_bytes() if path.is_file() else b""
        lines = [line for line in content.splitlines(keepends=True) if line.endswith(b"\n")]
        begun = [self._read(number, line) for number, line in enumerate(lines, start=1)]
        if begun and not isinstance(begun[0], Mapping):
            raise OtherWork(f"'{path}' is another kind of file\n  choose another output, or move the file away.")
        found = list(differences(begun[0], json.loads(self._first_line))) if begun else []
        if found:
            raise OtherWork(
                f"'{path}' holds what was begun with other settings:\n    " + "\n    ".join(found) + "\n"
                "  give those again to go on, choose another output, or delete the file to begin anew."
            )
        if b"".join(lines) != content:
            write_atomically(path, b"".join(lines).decode())
        self.portions: list[Any] = begun[1:]

    def append(self, portion: Any) -> None:
        """Write a finished portion down."""
        with self.path.open("a", encoding="utf-8") as out:
            out.write(("" if out.tell() else self._first_line) + json.dumps(portion) + "\n")
        self.portions.append(portion)

    def _read(self, number: int, line: bytes) -> Any:
        try:
            return json.loads(line.decode())
        except ValueError:
            raise OtherWork(
                f"'{self.path}' is damaged in its middle, at line {number}\n"
                "  delete that line and all behind it to go on from there, or the file to begin anew."
            ) from None
