"""A command's output folder, made before its work begins."""

from __future__ import annotations

import tempfile
from pathlib import Path

from wmrl_gym.configs.validation import ConfigError


def make_output_folder(
    folder: Path, key: str = "output", value: Path | None = None, remedy: str = "name another"
) -> None:
    """Make the folder now: hours of executing or training must not end at a path that cannot be written.

    Args:
        folder: the folder.
        key: setting that decides it.
        value: what that is set to, if it is not the folder itself but, for example, a file in it.
        remedy: what to do about it.

    Raises:
        ConfigError: if it cannot be made, or nothing can be written in it.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        which = "which" if value in (None, folder) else f"and '{folder}'"
        raise ConfigError(
            f"'{key}' is {value or folder}, {which} is no folder to write in ({error}): {remedy}"
        ) from error
