"""The `wmrl` command."""

from wmrl_gym.cli.main import main

__all__ = ["main"]
