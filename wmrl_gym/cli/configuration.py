"""The configuration that a command line asks for, or a look at it."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from wmrl_gym.configs.compose import compose_config, group_choices, to_yaml


def listed(options: argparse.Namespace) -> bool:
    """Show the groups and their members if ``--list`` asks for that; returns whether it did."""
    if options.list:
        for group, members in group_choices(options.config_dir).items():
            print(f"{group}: {', '.join(members)}")
    return bool(options.list)


def shown(options: argparse.Namespace, plain: dict[str, Any]) -> bool:
    """Show a configuration if ``--show`` asks for that; returns whether it did."""
    if options.show:
        print(to_yaml(plain), end="")
    return bool(options.show)


def run_configured(options: argparse.Namespace, command: Callable[[dict[str, Any]], int]) -> int:
    """Compose the configuration and run a command with it, unless only a look was asked for."""
    if listed(options):
        return 0
    plain = compose_config(options.command, options.overrides, options.config_dir)
    return 0 if shown(options, plain) else command(plain)
