"""One untrusted script, run once, in a sandbox of its own.

The script sees the scientific stack that the trainer itself runs on, its data, and an empty directory. What it leaves
behind is read after its last process is dead, and the directory goes with it: no run ever sees anything of another.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import selectors
import signal
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

from wmrl_gym.execution import bubblewrap
from wmrl_gym.execution.isolation import SandboxUnavailable, interpreter_prefixes
from wmrl_gym.execution.launch import Box, FreshScript, Script, open_box
from wmrl_gym.execution.leftover_files import read_submission
from wmrl_gym.execution.limits import RunStatus, SandboxLimits, SandboxResult
from wmrl_gym.execution.memory import MemoryLimit, Watchdog, limit_memory
from wmrl_gym.execution.output import HeadAndTail
from wmrl_gym.execution.seccomp import filter_program
from wmrl_gym.execution.warm import IDLE_COMMAND, PRELOAD, ZygoteLost, retire_zygote, shared_zygote

__all__ = ["Sandbox", "SandboxLimits", "SandboxResult", "SandboxUnavailable"]

MIB = 2**20
TICK_SECONDS = 0.05
"""How often limits that the kernel does not keep by itself are looked at."""

KILLED = (128 + signal.SIGKILL, 128 + signal.SIGTERM)
"""Exit codes that may mean that somebody outside, or a machine short of memory, ended the script."""

MEMORY_ERROR = re.compile(r"^((\w+\.)*_?(Array)?MemoryError\b|OSError: \[Errno 12\])")


class Sandbox:
    """Runs scripts under bubblewrap. Stateless, picklable, and safe to use from many threads at once.

    Each call must come from a thread that lives until it returns (any ordinary call does).

    Args:
        limits: what one script may spend.
        start: "fresh" starts a new interpreter for each script. "warm" forks one that has imported `preload` already:
            the same isolation, and a second of CPU time less for a script that uses scikit-learn. What differs: a
            script finds these modules imported, so changing the environment before importing them has no effect, and
            Python's own `random` has not been drawn from by their import.
        preload: modules to import for a warm start.
        hide: directories and files of the installed packages which scripts must not see, for example data sets that
            hold the answers.
    """

    def __init__(
        self,
        limits: SandboxLimits | None = None,
        *,
        start: Literal["fresh", "warm"] = "fresh",
        preload: Sequence[str] = PRELOAD,
        hide: Sequence[Path | str] = (),
    ) -> None:
        """Nothing is started yet."""
        if start not in ("fresh", "warm"):
            raise ValueError(f"Sandbox(start={start!r}): choose 'fresh' or 'warm'")
        self.limits = limits or SandboxLimits()
        self.start = start
        self.preload = tuple(preload)
        self.hide = tuple(Path(path) for path in hide)

    def run(self, script: str, data_dir: Path | str) -> SandboxResult:
        """Run a script to its end or to a limit.

        What the machine does to a script must not count against it. A supervisor that dies unasked makes the result
        an "infrastructure_error": no script can see, or signal, the processes whose end is taken for that. A script
        itself that ends as if killed is run once more, since nobody can tell whether it did that to itself. If it ends
        so again, it is taken for its own doing.

        Args:
            script: Python source. It finds ``DATA_DIR`` and ``SUBMISSION_PATH`` as predefined names, and as
                environment variables.
            data_dir: directory with the public files, shown read-only as /data.

        Raises:
            NotADirectoryError: if there is no such directory.
            PermissionError: if the data lies where scripts could see its neighbours, or cannot be read by a script.
        """
        view = self._view(Path(data_dir))
        try:
            result = self._run_once(script, view)
        except ZygoteLost:
            result = None
        if result is None or (result.status == "error" and result.returncode in KILLED):
            try:
                result = self._run_once(script, view)
            except ZygoteLost as error:
                result = _nothing_known(error)
        return result

    def _run_once(self, script: str, view: bubblewrap.View) -> SandboxResult:
        memory = limit_memory(self.limits.memory_mb * MIB, self.limits.processes)
        try:
            with self._script(view, filter_program(only_seen_memory=isinstance(memory, Watchdog))) as (box, started):
                memory.adopt(started.roots)
                box.output.close_writers()
                started.channel.settimeout(10.0)
                started.channel.sendall(self._job(script))
                started.channel.close()
                return _Run(box, started, memory, self.limits).supervise()
        except ZygoteLost:  # no line of the script has run
            raise
        except (SandboxUnavailable, OSError, RuntimeError) as error:
            return _nothing_known(error)
        finally:
            memory.close()

    @contextlib.contextmanager
    def _script(self, view: bubblewrap.View, seccomp: bytes | None) -> Iterator[tuple[Box, Script]]:
        """A process that has everything but its script."""
        if self.start == "fresh":
            with open_box(view, self.limits, bubblewrap.python_command(), seccomp) as box:
                yield box, FreshScript(box)
        else:
            zygote = shared_zygote(self.preload)
            with open_box(view, self.limits, IDLE_COMMAND, seccomp) as box:
                try:
                    script = zygote.fork_into(box, seccomp, view.temporary_environment)
                except ZygoteLost:
                    retire_zygote(zygote)
                    raise
                with contextlib.closing(script):
                    yield box, script

    def _view(self, data_dir: Path) -> bubblewrap.View:
        data_dir = data_dir.resolve()
        if not data_dir.is_dir():
            raise NotADirectoryError(f"wmrl: no data directory {data_dir}")
        _check_readable(data_dir)
        prefixes = interpreter_prefixes()
        for prefix in (Path("/usr"), *prefixes):
            if data_dir.is_relative_to(prefix):
                raise PermissionError(
                    f"wmrl: {data_dir} lies below {prefix}, which every script can read, answers included\n"
                    "  move the data root elsewhere (set WMRL_DATA_ROOT)."
                )
        package = Path(__file__).resolve().parents[1]
        shown = any(package.is_relative_to(prefix.resolve()) for prefix in prefixes)
        hide = [*self.hide, package] if shown else self.hide
        return bubblewrap.View(prefixes, data_dir, tuple(hide))

    def _job(self, script: str) -> bytes:
        limits = self.limits
        job = {
            "script": script,
            "directory": bubblewrap.SCRATCH,
            "names": {"DATA_DIR": bubblewrap.DATA_DIR, "SUBMISSION_PATH": bubblewrap.SUBMISSION_PATH},
            "limits": {
                "NPROC": limits.processes,
                "FSIZE": limits.file_mb * MIB,
                # Room for libraries that are mapped and hardly touched; the tree's memory is limited from outside.
                "AS": (limits.memory_mb + 1024) * MIB,
                # Against a process that outlives its supervisor; the deadline proper is wall-clock time.
                "CPU": int(2 * limits.wall_seconds) + 10,
                "NOFILE": limits.open_files,
                "CORE": 0,
            },
        }
        return json.dumps(job).encode()


class _Run:
    """One script from its first line to its verdict."""

    def __init__(self, box: Box, script: Script, memory: MemoryLimit, limits: SandboxLimits) -> None:
        self.box = box
        self.script = script
        self.memory = memory
        self.limits = limits
        self.output = {name: HeadAndTail(limits.output_kb * 1024) for name in ("stdout", "stderr")}

    def supervise(self) -> SandboxResult:
        started = time.monotonic()
        status, reason = self._watch(started + self.limits.wall_seconds)
        seconds = time.monotonic() - started
        if status == "timeout":
            self.script.check_watched()
        returncode = self.script.returncode() if status is None else None
        self.box.kill()
        self._drain()
        stderr = self.output["stderr"].text()
        if status is None and self.memory.exceeded(0):
            status, reason = "out_of_memory", self._memory_reason()
        elif status is None and returncode != 0 and MEMORY_ERROR.match(_last_line(stderr)):
            status, reason = "out_of_memory", "MemoryError"
        elif status is None:
            status = "ok" if returncode == 0 else "error"
        submission, problem = read_submission(self.box.scratch, bubblewrap.SUBMISSION_NAME, self.limits.file_mb * MIB)
        return SandboxResult(
            status=status,
            returncode=returncode,
            stdout=self.output["stdout"].text(),
            stderr=stderr,
            seconds=seconds,
            submission=submission,
            submission_problem=problem,
            killed_because=reason,
            memory_limited_by=self.memory.description,
        )

    def _watch(self, deadline: float) -> tuple[RunStatus | None, str | None]:
        """Read output until the script has ended (None, None) or a limit is hit (status, reason)."""
        with selectors.DefaultSelector() as selector:
            for end in {self.box.init_fd, self.script.ended_fd}:
                selector.register(end, selectors.EVENT_READ)
            for name, pipe in self.box.output.readers.items():
                selector.register(pipe, selectors.EVENT_READ, name)
            next_look = time.monotonic() + TICK_SECONDS
            while True:
                for key, _ in selector.select(max(0.0, min(next_look, deadline) - time.monotonic())):
                    if key.data is None:
                        return ("infrastructure_error", "stopped") if self.box.stopped else (None, None)
                    data = self.box.output.read(key.data)
                    if data:
                        self.output[key.data].write(data)
                    elif data is not None:
                        selector.unregister(key.fd)
                now = time.monotonic()
                if now >= deadline:
                    return "timeout", f"more than {self.limits.wall_seconds:g} s"
                if now >= next_look:
                    broken = self._broken_limit()
                    if broken is not None:
                        return broken
                    next_look = time.monotonic() + TICK_SECONDS

    def _broken_limit(self) -> tuple[RunStatus, str] | None:
        if self.memory.exceeded(_used_bytes(self.box.scratch) + _used_bytes(self.box.shm)):
            return "out_of_memory", self._memory_reason()
        if any(_used_files(place) > self.limits.scratch_files for place in (self.box.scratch, self.box.shm)):
            return "error", f"more than {self.limits.scratch_files} files"
        for name, output in self.output.items():
            if output.total > self.limits.output_flood_mb * MIB:
                return "error", f"more than {self.limits.output_flood_mb} MiB on {name}"
        return None

    def _memory_reason(self) -> str:
        return f"more than {self.limits.memory_mb} MiB of memory"

    def _drain(self) -> None:
        for name, kept in self.output.items():
            while data := self.box.output.read(name):
                kept.write(data)


def _nothing_known(error: Exception) -> SandboxResult:
    return SandboxResult("infrastructure_error", None, "", str(error), 0.0, None, "the sandbox failed", str(error))


def _check_readable(data_dir: Path) -> None:
    """Scripts of root run as a uid that owns nothing, so for them the data must be readable by others."""
    for path in _and_entries(data_dir):
        if path.is_symlink():  # leads nowhere inside
            continue
        mode = path.stat().st_mode
        others = 0o005 if path.is_dir() else 0o004
        readable = mode & others == others if os.geteuid() == 0 else os.access(path, os.R_OK)
        if not readable:
            raise PermissionError(
                f"wmrl: scripts cannot read {path} (mode {mode & 0o777:03o})\n  run `chmod -R a+rX {data_dir}`."
            )


def _and_entries(directory: Path) -> Iterator[Path]:
    yield directory
    yield from directory.iterdir()  # only once the directory itself was found readable


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1] if lines else ""


def _used_bytes(directory: int) -> int:
    facts = os.statvfs(directory)
    return (facts.f_blocks - facts.f_bfree) * facts.f_frsize


def _used_files(directory: int) -> int:
    facts = os.statvfs(directory)
    return facts.f_files - facts.f_ffree
