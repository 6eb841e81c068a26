"""Limiting the memory of a whole process tree: by a cgroup where one may be made, else by watching.

RLIMIT_AS bounds one process only: eight forks of it get eight times as much.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path

from wmrl_gym.execution.process_tree import descendants, proportional_bytes, resident_bytes, socket_bytes

CGROUP_PREFIX = "wmrl-"
_serial = itertools.count()


class MemoryLimit(ABC):
    """Holds one sandbox to its memory."""

    description: str

    @abstractmethod
    def adopt(self, roots: Sequence[int]) -> None:
        """Take in a sandbox before it runs any foreign code.

        Args:
            roots: host pids from which all its processes descend, now and later.
        """

    @abstractmethod
    def exceeded(self, extra_bytes: int) -> bool:
        """Whether the limit was hit.

        Args:
            extra_bytes: memory held by files of the sandbox that no process has mapped.
        """

    @abstractmethod
    def close(self) -> None:
        """Free what is held, after all processes are dead."""


class Watchdog(MemoryLimit):
    """Samples resident memory, and proportional memory when the former is too high.

    Sockets, whose buffers it cannot see, count with the most that they can hold; memory files and System V segments,
    which it cannot see either, are denied by the system call filter.
    """

    description = "RLIMIT_AS and watchdog"

    def __init__(self, limit_bytes: int) -> None:
        """Limit in bytes."""
        self.limit_bytes = limit_bytes
        self.roots: list[int] = []

    def adopt(self, roots: Sequence[int]) -> None:
        """Remember where the tree starts."""
        self.roots = list(roots)

    def exceeded(self, extra_bytes: int) -> bool:
        """Whether the tree is over its limit at this moment."""
        pids = descendants(self.roots)
        extra_bytes += socket_bytes(self.roots[:1])
        if resident_bytes(pids) + extra_bytes <= self.limit_bytes:
            return False
        return proportional_bytes(pids) + extra_bytes > self.limit_bytes

    def close(self) -> None:
        """Stop looking."""
        self.roots = []


class Cgroup(MemoryLimit):
    """One control group per run, version 1 or 2: the kernel itself counts, files in memory included."""

    def __init__(self, directories: list[Path], version: int) -> None:
        """Directories of the new group, one per hierarchy."""
        self.directories = directories
        self.version = version
        self.description = f"cgroup v{version}"

    def adopt(self, roots: Sequence[int]) -> None:
        """Move the sandbox's few own processes: what they start from now on is born inside."""
        for pid in descendants(roots):
            for directory in self.directories:
                (directory / "cgroup.procs").write_text(str(pid))

    def exceeded(self, extra_bytes: int) -> bool:
        """Whether the kernel has killed a process for its memory."""
        events = self.directories[0] / ("memory.events" if self.version == 2 else "memory.oom_control")
        for line in events.read_text().splitlines():
            name, _, value = line.partition(" ")
            if name == "oom_kill":
                return int(value) > 0
        return False

    def close(self) -> None:
        """Remove the group; a group whose last member is just being reaped is busy for some milliseconds."""
        for directory in self.directories:
            for _ in range(50):
                try:
                    directory.rmdir()
                    break
                except FileNotFoundError:
                    break
                except OSError:
                    time.sleep(0.01)


def limit_memory(limit_bytes: int, processes: int) -> MemoryLimit:
    """The strictest memory limit that this user may set on this machine."""
    for make in (_cgroup_v2, _cgroup_v1):
        with contextlib.suppress(OSError):
            group = make(limit_bytes, processes)
            if group is not None:
                return group
    return Watchdog(limit_bytes)


def _cgroup_v1(limit_bytes: int, processes: int) -> Cgroup | None:
    parents = [_own_group(controller) for controller in ("memory", "pids")]
    if parents[0] is None or not os.access(parents[0], os.W_OK):
        return None
    group = Cgroup([_new_group(parent) for parent in parents if parent and os.access(parent, os.W_OK)], version=1)
    try:
        (group.directories[0] / "memory.limit_in_bytes").write_text(str(limit_bytes))
        with contextlib.suppress(OSError):  # kernels without swap accounting have no such file
            (group.directories[0] / "memory.memsw.limit_in_bytes").write_text(str(limit_bytes))
        for directory in group.directories[1:]:
            (directory / "pids.max").write_text(str(processes + 8))  # the sandbox's own processes come on top
    except OSError:
        group.close()
        raise
    return group


def _cgroup_v2(limit_bytes: int, processes: int) -> Cgroup | None:
    for parent in _delegated_parents():
        group = Cgroup([_new_group(parent)], version=2)
        try:
            (group.directories[0] / "memory.max").write_text(str(limit_bytes))
            (group.directories[0] / "pids.max").write_text(str(processes + 8))
            with contextlib.suppress(OSError):
                (group.directories[0] / "memory.swap.max").write_text("0")
            # Moving a process also needs the right to write in the common ancestor: try it with one of ours.
            probe = os.posix_spawn("/bin/sh", ["sh", "-c", "echo $$ > $0/cgroup.procs", str(group.directories[0])], {})
            if os.waitstatus_to_exitcode(os.waitpid(probe, 0)[1]) == 0:
                return group
        except OSError:
            pass
        group.close()
    return None


def _delegated_parents(mount: Path = Path("/sys/fs/cgroup"), own: str | None = None) -> Iterator[Path]:
    """Version 2 groups, nearest first, in which this user may make a child that limits memory and processes."""
    if own is None:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
        own = next((line[3:] for line in lines if line.startswith("0::")), None)
    if own is None or not (mount / "cgroup.controllers").exists():
        return
    here = mount / own.lstrip("/")
    for level in (here, *here.parents):
        if not level.is_relative_to(mount):
            return
        control = level / "cgroup.subtree_control"
        if not control.exists() or not os.access(level, os.W_OK):
            continue
        if {"memory", "pids"} <= set(control.read_text().split()):
            yield level


def _own_group(controller: str) -> Path | None:
    """This process's version 1 group for a controller; the root of the hierarchy if that lies outside our view."""
    mount = Path("/sys/fs/cgroup") / controller
    if not (mount / "cgroup.procs").exists():
        return None
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if controller in controllers.split(","):
            own = mount / path.lstrip("/")
            return own if own.is_dir() else mount
    return mount


def _new_group(parent: Path) -> Path:
    """Make a child group, and clear away those that a killed trainer left behind."""
    for stale in parent.glob(f"{CGROUP_PREFIX}*"):
        owner = stale.name.split("-")[1]
        if owner.isdigit() and not Path("/proc", owner).exists():
            with contextlib.suppress(OSError):
                stale.rmdir()
    group = parent / f"{CGROUP_PREFIX}{os.getpid()}-{next(_serial)}"
    group.mkdir()
    return group
