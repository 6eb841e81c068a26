"""What a script may spend, and what is known once it has run."""

from __future__ import annotations

import dataclasses
from typing import Literal

RunStatus = Literal["ok", "error", "timeout", "out_of_memory", "infrastructure_error"]


@dataclasses.dataclass(frozen=True)
class SandboxLimits:
    """Limits of one run.

    Raises:
        ValueError: if a limit is not positive.
    """

    wall_seconds: float = 20.0
    """Wall-clock seconds from the first line of the script; starting the sandbox does not count."""

    memory_mb: int = 2048
    """Memory of the whole process tree, files in /scratch and /dev/shm included."""

    processes: int = 64
    """Processes and threads alive at once."""

    file_mb: int = 64
    """Size of the largest single file, and so of the submission."""

    scratch_mb: int = 256
    """Total size of /scratch. It is held in memory."""

    output_kb: int = 256
    """How much of stdout, and again of stderr, is kept: half from the head and half from the tail."""

    shm_mb: int = 64
    """Size of /dev/shm, which worker processes use to share arrays."""

    open_files: int = 512
    """File descriptors of one process."""

    scratch_files: int = 20_000
    """Files and directories in /scratch."""

    output_flood_mb: int = 32
    """A script that prints more than this is killed: reading it would cost the trainer more than the script."""

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            if not getattr(self, field.name) > 0:
                raise ValueError(f"SandboxLimits.{field.name} is {getattr(self, field.name)}: give a positive number")


@dataclasses.dataclass(frozen=True)
class SandboxResult:
    """What came of one script."""

    status: RunStatus
    """"ok" is exit code 0, "error" any other end of its own, "timeout" and "out_of_memory" a limit reached;
    "infrastructure_error" means that the sandbox failed and nothing is known about the script."""

    returncode: int | None
    """Exit code, 128 + n after signal n; None if the script never started or was killed at a limit."""

    stdout: str
    stderr: str

    seconds: float
    """Wall-clock seconds of the script alone."""

    submission: bytes | None
    """The bytes of submission.csv, or None if there was none that is safe to read."""

    submission_problem: str | None = None
    """Why `submission` is None."""

    killed_because: str | None = None
    """Which limit ended the run, in words; None if it ended by itself."""

    memory_limited_by: str = ""
    """How memory was limited: "cgroup v1", "cgroup v2", or "RLIMIT_AS and watchdog" (sampled, so a fast allocator can
    pass the limit for some milliseconds)."""
