"""The `wmrl` command, and what the user sees when it fails."""

from __future__ import annotations

import argparse
import difflib
import os
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path

from wmrl_gym.cli.commands import COMMANDS
from wmrl_gym.version import __version__

DEBUG_VARIABLE = "WMRL_DEBUG"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the `wmrl` command.

    Returns:
        The exit code: 0, 2 for a mistake that can be put right, 130 after Ctrl-C.
    """
    parser = build_parser()
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    if not arguments:
        parser.print_help()
        return 2
    _suggest(parser, arguments[0])
    options, rest = parser.parse_known_args(arguments)
    # argparse ends a list of positionals at the first option: overrides after one are left over.
    if rest and hasattr(options, "overrides") and all("=" in item and not item.startswith("-") for item in rest):
        options.overrides += rest
    elif rest:
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    # One thread for BLAS and OpenMP unless the user says otherwise; set before numpy or torch come in.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    try:
        return int(options.run(options) or 0)
    except KeyboardInterrupt:
        print("wmrl: stopped", file=sys.stderr)
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        if os.environ.get(DEBUG_VARIABLE):
            traceback.print_exc()
        print(error_text(error), file=sys.stderr)
        return 2


def _suggest(parser: argparse.ArgumentParser, given: str) -> None:
    """End with the nearest command, if what was given is none."""
    names = [command.name for command in COMMANDS]
    nearest = difflib.get_close_matches(given, names, n=1)
    if nearest and given not in names:
        parser.error(f"there is no command {given!r}: did you mean `wmrl {nearest[0]}`? `wmrl --help` shows all.")


def error_text(error: Exception) -> str:
    """What a failed command prints: our own messages as they are, others with their type, always one prefix."""
    message = str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)
    message = message.removeprefix("wmrl: ").strip()
    if not _is_ours(error):
        message = f"{type(error).__name__}: {message}" if message else type(error).__name__
        message += f"\n  unexpected; {DEBUG_VARIABLE}=1 shows where it happened"
    return f"wmrl: {message}"


def _is_ours(error: Exception) -> bool:
    """Whether the message was written for the user: our own class, or raised by our own code."""
    if type(error).__module__.startswith("wmrl_gym"):
        return True
    frames = traceback.extract_tb(error.__traceback__)
    package = str(Path(__file__).resolve().parents[1])
    written_for_users = (ValueError, ImportError, OSError, LookupError, RuntimeError)
    return bool(frames) and frames[-1].filename.startswith(package) and isinstance(error, written_for_users)


def build_parser() -> argparse.ArgumentParser:
    """The parser of all commands. Their code is imported when they run, so that help comes at once."""
    parser = argparse.ArgumentParser(
        prog="wmrl",
        description="Train agents whose reward is expensive: a world model scores most trajectories, a thin stream of "
        "real executions corrects it.",
        epilog=f"Set {DEBUG_VARIABLE}=1 to see a traceback with an error.",
    )
    parser.add_argument("--version", action="version", version=f"wmrl_gym {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in COMMANDS:
        command.add_to(commands)
    return parser
