"""What is finished of a long piece of work, one JSON line a portion, so that a killed process goes on where it was.

The first line says what the work is. A last line that was cut in the middle is taken out; the portion is done again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from wmrl_gym.reporting.run_directory import write_atomically


class OtherWork(ValueError):
    """The file holds finished portions of something else."""


class WorkFile:
    """Finished portions of one piece of work.

    Args:
        path: the file, which need not exist.
        work: what is worked on, as plain data. Portions of anything else are not gone on with.

    Attributes:
        portions: what is finished, in order.

    Raises:
        OtherWork: if the file is there and belongs to other work, or is no file of this kind.
    """

    def __init__(self, path: Path, work: Mapping[str, Any]) -> None:
        self.path = path
        text = path.read_text(encoding="utf-8") if path.is_file() else ""
        lines = [line for line in text.splitlines(keepends=True) if line.endswith("\n")]
        try:
            begun = [json.loads(line) for line in lines]
        except ValueError:
            raise OtherWork(f"'{path}' is damaged in its middle\n  delete it to begin anew.") from None
        if begun and begun[0] != json.loads(json.dumps(work)):
            raise OtherWork(
                f"'{path}' holds what was begun with other settings ({_differences(begun[0], work)})\n"
                "  give those again to go on, choose another output, or delete the file to begin anew."
            )
        if not begun:
            lines = [json.dumps(work) + "\n"]
        if "".join(lines) != text:
            write_atomically(path, "".join(lines))
        self.portions: list[Any] = begun[1:]

    def append(self, portion: Any) -> None:
        """Write a finished portion down."""
        with self.path.open("a", encoding="utf-8") as out:
            out.write(json.dumps(portion) + "\n")
        self.portions.append(portion)


def _differences(begun: Any, work: Mapping[str, Any]) -> str:
    """Names of what differs, as dotted paths."""
    if not isinstance(begun, Mapping):
        return "another kind of file"
    return ", ".join(_paths(begun, json.loads(json.dumps(work)))[:5])


def _paths(one: Any, other: Any, where: str = "") -> list[str]:
    if not (isinstance(one, Mapping) and isinstance(other, Mapping)):
        return [] if one == other else [where]
    names = [*one, *(name for name in other if name not in one)]
    return [
        path for name in names for path in _paths(one.get(name), other.get(name), f"{where}.{name}" if where else name)
    ]
