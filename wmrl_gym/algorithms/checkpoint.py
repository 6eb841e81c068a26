"""Checkpoints that are either whole or absent.

A checkpoint is a folder ``step-000120``. It is written under another name, flushed to the disk and renamed, so that a
process killed at any moment leaves the older checkpoints as they were and nothing half-written under a good name.
"""

from __future__ import annotations

import itertools
import os
import re
import shutil
import tempfile
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

STATE_FILE = "state.pt"
_NAME = re.compile(r"step-(\d+)")


def save_checkpoint(directory: str | Path, step: int, state: Mapping[str, Any], keep: int = 2) -> Path:
    """Write ``state`` as the checkpoint of a step, then delete all but the newest ``keep``, this one among them.

    Args:
        directory: folder of the run's checkpoints; made if absent.
        step: number of the next step to be done.
        state: tensors and plain data (numbers, strings, None, lists, tuples, mappings).
        keep: how many checkpoints are kept, at least 1.

    Returns:
        The checkpoint's folder.

    Raises:
        ValueError: if ``keep`` is less than 1.
    """
    if keep < 1:
        raise ValueError(f"keep is {keep}: give at least 1, or do not write checkpoints")
    directory = Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    for remains in directory.glob(".unfinished-*"):
        shutil.rmtree(remains, ignore_errors=True)
    unfinished = Path(tempfile.mkdtemp(prefix=".unfinished-", dir=directory))
    with (unfinished / STATE_FILE).open("wb") as file:
        torch.save({**state, "step": step}, file)
        file.flush()
        os.fsync(file.fileno())
    _flush_folder(unfinished)
    target = directory / f"step-{step:06d}"
    if target.exists():
        # A folder with a file in it cannot be replaced in one move, but its file can.
        os.replace(unfinished / STATE_FILE, target / STATE_FILE)
        _flush_folder(target)
        unfinished.rmdir()
    else:
        os.replace(unfinished, target)
    _flush_folder(directory)
    others = [path for path in checkpoints(directory) if path != target]
    for old in others[: len(others) + 1 - keep]:
        shutil.rmtree(old, ignore_errors=True)
    return target


def checkpoints(directory: str | Path) -> list[Path]:
    """All complete checkpoints, oldest first."""
    found = [path for path in Path(directory).glob("step-*") if _NAME.fullmatch(path.name)]
    return sorted((path for path in found if (path / STATE_FILE).is_file()), key=_step)


def latest_checkpoint(directory: str | Path) -> Path | None:
    """The newest complete checkpoint, or None."""
    found = checkpoints(directory)
    return found[-1] if found else None


def load_latest_checkpoint(directory: str | Path) -> tuple[Path, dict[str, Any]] | None:
    """The newest checkpoint that can be read, and its state; None if there is none at all.

    One that cannot be read (a full disk, a damaged file) is passed over with a warning and renamed to
    ``unreadable-step-...``, so that it does not stand in the way again; it is not deleted.

    Raises:
        ValueError: if there are checkpoints and none can be read; they stay as they are.
        OSError: if the file system refuses to read.
    """
    unreadable: list[tuple[Path, ValueError]] = []
    for path in reversed(checkpoints(directory)):
        try:
            state = load_checkpoint(path)
        except ValueError as error:
            unreadable.append((path, error))
            continue
        for broken, reason in unreadable:
            aside = _free_name(broken.with_name(f"unreadable-{broken.name}"))
            os.replace(broken, aside)
            warnings.warn(f"{reason}\n  Going on from {path.name}; the broken one is now {aside.name}.", stacklevel=2)
        return path, state
    if unreadable:
        raise unreadable[0][1]
    return None


def load_checkpoint(path: str | Path) -> dict[str, Any]:
    """Read a checkpoint's state; nothing in the file can run code.

    Raises:
        ValueError: if the file cannot be read as a checkpoint.
    """
    file = Path(path) / STATE_FILE
    try:
        return dict(torch.load(file, map_location="cpu", weights_only=True))
    except OSError:
        raise
    except Exception as error:
        raise ValueError(
            f"{file} is not a readable checkpoint ({type(error).__name__}: {error})\n"
            "  Delete its folder to go on from an older one, if there is one."
        ) from error


def _free_name(path: Path) -> Path:
    """The path, or the first of path-2, path-3, ... that nothing has."""
    candidates = itertools.chain([path], (path.with_name(f"{path.name}-{n}") for n in itertools.count(2)))
    return next(candidate for candidate in candidates if not candidate.exists())


def _step(path: Path) -> int:
    match = _NAME.fullmatch(path.name)
    assert match is not None  # only such paths are listed
    return int(match.group(1))


def _flush_folder(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
