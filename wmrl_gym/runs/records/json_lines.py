"""A file of JSON Lines whose records know their step: appended to as the run goes on, rewound when it is resumed."""

from __future__ import annotations

import json
import os
import shutil
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

Record = dict[str, Any]


class StepLines:
    """Appends records, flushed at once, so that a killed run loses at most those being written.

    Args:
        path: the file; its folder must exist.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def append(self, lines: Iterable[str]) -> None:
        """Add lines, in one write. Each is a record with an integer "step"."""
        text = "".join(lines)
        if text:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(text)

    def rewind(self, step: int) -> None:
        """Drop the records of `step` and later, and a last line that a kill left unfinished.

        Damage before the last line is nothing that a kill does: the file as it was is then kept beside the new one.
        """
        records, unread = read_step_lines(self.path)
        if unread > 1:
            aside = self.path.with_suffix(f".damaged{self.path.suffix}")
            shutil.copyfile(self.path, aside)
            warnings.warn(f"{self.path} is damaged after {len(records)} records; kept as it was: {aside}", stacklevel=2)
        replacement = self.path.with_suffix(".tmp")
        with replacement.open("w", encoding="utf-8") as file:
            file.writelines(json.dumps(record) + "\n" for record in records if record["step"] < step)
        os.replace(replacement, self.path)


def read_step_lines(path: Path) -> tuple[list[Record], int]:
    """The records up to the first line that is none, and how many lines come from that one on.

    A file that is not there has no records.
    """
    if not path.exists():
        return [], 0
    records: list[Record] = []
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    for line in lines:
        try:
            record = json.loads(line)
        except json.JSONDecodeError:
            break
        if not isinstance(record, dict) or not isinstance(record.get("step"), int):
            break
        records.append(record)
    return records, len(lines) - len(records)
