"""Clearing away what a killed trainer can leave behind.

A started sandbox dies with its trainer. But if the trainer is killed in the few milliseconds in which bubblewrap
starts, between making its child and telling it to go on, that child waits for ever for a parent that is gone. It has
run nothing, uses no time and little memory, and is found here by the next trainer.
"""

from __future__ import annotations

import contextlib
import functools
import os
import signal
from pathlib import Path

from wmrl_gym.execution.process_tree import descendants


@functools.cache
def kill_stray_starts(marker: str) -> int:
    """Kill bubblewrap processes that wait for a dead parent; once per process and marker. About a millisecond.

    Args:
        marker: part of the command line by which our own are told from others.

    Returns:
        How many there were.
    """
    strays = [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if _is_stray(pid, marker)]
    for pid in strays:
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)
    return len(strays)


def _is_stray(pid: int, marker: str) -> bool:
    try:
        name, _, rest = Path(f"/proc/{pid}/stat").read_text().rpartition(")")
        if not name.endswith("(bwrap"):
            return False
        session = int(rest.split()[3])
        command = Path(f"/proc/{pid}/cmdline").read_text()
    except (OSError, ValueError):
        return False
    # Once told to go on, it leads a session of its own and has a child. Until then it is in that of its parent.
    parent_is_dead = session != pid and not Path(f"/proc/{session}").exists()
    return parent_is_dead and marker in command and descendants([pid]) == [pid]
