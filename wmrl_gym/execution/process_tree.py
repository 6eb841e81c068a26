"""Reading, from outside, what the processes of a sandbox use."""

from __future__ import annotations

import functools
import os
from collections.abc import Sequence
from pathlib import Path

PAGE = os.sysconf("SC_PAGE_SIZE")


def descendants(roots: Sequence[int]) -> list[int]:
    """Host pids of some processes and all their descendants.

    In a sandbox nothing escapes this walk: an orphan is handed to the sandbox's own init, which is among `roots`.
    """
    found: list[int] = []
    waiting = list(roots)
    while waiting:
        pid = waiting.pop()
        found.append(pid)
        try:
            for task in os.listdir(f"/proc/{pid}/task"):
                children = Path(f"/proc/{pid}/task/{task}/children").read_text()
                waiting.extend(int(child) for child in children.split())
        except OSError:  # it ended while we looked
            continue
    return found


def resident_bytes(pids: list[int]) -> int:
    """Sum of resident memory; pages shared between the processes count once for each. About 20 µs per process."""
    total = 0
    for pid in pids:
        try:
            total += int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE
        except (OSError, IndexError):
            continue
    return total


def proportional_bytes(pids: list[int]) -> int:
    """Sum of memory with shared pages divided among their users: exact, and ten times slower than `resident_bytes`.

    A process that cannot be read this way counts with its resident memory.
    """
    total = 0
    for pid in pids:
        try:
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
            total += sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
        except (OSError, ValueError):
            total += resident_bytes([pid])
    return total


def socket_bytes(inits: Sequence[int]) -> int:
    """The most that the socket buffers of some network namespaces can hold, by the number of their sockets.

    Args:
        inits: host pids of one process in each.
    """
    total = 0
    for pid in inits:
        try:
            lines = Path(f"/proc/{pid}/net/sockstat").read_text().splitlines()
            counts = {line.split()[0]: int(line.split()[2]) for line in lines}
        except (OSError, ValueError, IndexError):  # it ended while we looked
            continue
        anything, stream = _largest_buffers()
        total += counts.get("sockets:", 0) * anything + counts.get("TCP:", 0) * stream
    return total


@functools.cache
def _largest_buffers() -> tuple[int, int]:
    """Bytes that a process without privileges may have one socket hold, and what one of TCP may hold besides."""
    anything = 2 * int(Path("/proc/sys/net/core/wmem_max").read_text())  # the kernel doubles what is asked for
    tuned = [Path(f"/proc/sys/net/ipv4/tcp_{way}mem").read_text().split()[2] for way in "rw"]
    return anything, sum(map(int, tuned))
