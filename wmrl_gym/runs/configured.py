"""From what a caller gives, overrides or a whole configuration, to the typed one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from wmrl_gym.configs.compose import compose_config
from wmrl_gym.configs.validation import to_dataclass

T = TypeVar("T")


def configured(
    cls: type[T], command: str, config: Mapping[str, Any] | Sequence[str], config_dir: Path | None = None
) -> tuple[T, dict[str, Any]]:
    """A command's configuration, and the same as plain data, to be written down.

    Args:
        cls: its typed shape.
        command: whose primary configuration is composed, for example "train".
        config: overrides as on the command line, for example ``["experiment=quickstart", "seed=1"]``; or the whole
            configuration as plain data, as `compose_config` gives it.
        config_dir: another directory with configuration groups, searched beside the built-in ones.

    Raises:
        ConfigError: for anything that cannot be right.
    """
    plain = dict(config) if isinstance(config, Mapping) else compose_config(command, config, config_dir)
    return to_dataclass(cls, plain), plain
