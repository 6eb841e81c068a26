"""A command's output folder, made before its work begins."""

from __future__ import annotations

import tempfile
from pathlib import Path

from wmrl_gym.configs.validation import ConfigError


def make_output_folder(output: Path, key: str = "output") -> None:
    """Make the folder now: hours of executing or training must not end at a path that cannot be written.

    Args:
        output: the folder.
        key: setting that names it.

    Raises:
        ConfigError: if it cannot be made, or nothing can be written in it.
    """
    try:
        output.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=output):
            pass
    except OSError as error:
        raise ConfigError(f"'{key}' is {output}, which is no folder to write in ({error}): name another") from error
