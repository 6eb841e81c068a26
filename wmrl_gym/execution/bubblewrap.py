"""The sandbox as a bubblewrap command line: what a script sees, and nothing else.

Inside: /usr, the interpreter and its packages (read-only, at their own paths), the public data at /data (read-only), an
empty /scratch and /dev/shm of limited size in memory. No /etc, no /home, no network, no other process.
"""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from wmrl_gym.execution.limits import SandboxLimits

DATA_DIR = "/data"
SCRATCH = "/scratch"
SUBMISSION_NAME = "submission.csv"
SUBMISSION_PATH = f"{SCRATCH}/{SUBMISSION_NAME}"
TEMPORARY = f"{SCRATCH}/.tmp"
RUNNER_INSIDE = "/harness/runner.py"
UID_INSIDE = 1000

MIB = 2**20


def script_environment() -> dict[str, str]:
    """Environment variables of a script: all of them, since nothing of the trainer's own is handed on."""
    one_thread = ("OMP", "OPENBLAS", "MKL", "NUMEXPR", "BLIS", "RAYON")
    return {
        "PATH": "/usr/bin:/bin",
        "HOME": SCRATCH,
        "TMPDIR": "/tmp",
        "LANG": "C.UTF-8",
        "USER": "sandbox",
        "PYTHONHASHSEED": "0",
        "PYTHONDONTWRITEBYTECODE": "1",
        "DATA_DIR": DATA_DIR,
        "SUBMISSION_PATH": SUBMISSION_PATH,
        "LOKY_MAX_CPU_COUNT": "1",
        "MPLBACKEND": "Agg",
        "MPLCONFIGDIR": "/tmp",
        "OMP_WAIT_POLICY": "PASSIVE",
        # pandas imports Arrow, whose allocator would start a thread at import, and a zygote must have but one.
        "JE_ARROW_MALLOC_CONF": "background_thread:false",
        "POLARS_MAX_THREADS": "1",
        **{f"{library}_NUM_THREADS": "1" for library in one_thread},
    }


@dataclasses.dataclass(frozen=True)
class View:
    """What one sandbox shows of the host."""

    prefixes: Sequence[Path]
    """Directories shown read-only at their own path."""

    data_dir: Path
    """Directory shown read-only at /data."""

    hide: Sequence[Path] = ()
    """Directories and files below `prefixes` that are shown empty."""

    @property
    def temporary_environment(self) -> dict[str, str]:
        """What differs from `script_environment` where /tmp cannot be a link to the scratch.

        An interpreter below /tmp is shown at its own path, so that /tmp is a read-only directory that holds it.
        """
        below_tmp = any(Path("/tmp") in prefix.parents for prefix in self.prefixes)
        return dict.fromkeys(("TMPDIR", "MPLCONFIGDIR"), TEMPORARY) if below_tmp else {}


def arguments(
    view: View,
    limits: SandboxLimits,
    source: Callable[[Path], str],
    files: dict[str, int],
    seccomp: int | None = None,
) -> list[str]:
    """Options of one bubblewrap call.

    Args:
        view: what to show.
        limits: sizes of what is writable.
        source: where the host directory is to be found by the uid that runs bubblewrap.
        files: small files to create, destination to descriptor of their content.
        seccomp: descriptor of a compiled system call filter.
    """
    options = ["--unshare-all", "--unshare-user", "--disable-userns", "--die-with-parent", "--new-session"]
    options += ["--cap-drop", "ALL", "--uid", str(UID_INSIDE), "--gid", str(UID_INSIDE), "--hostname", "sandbox"]
    options += ["--clearenv"]
    for name, value in script_environment().items():
        options += ["--setenv", name, value]
    options += _system_directories()
    for prefix in sorted(view.prefixes, key=lambda path: len(path.parts)):  # a venv may lie inside another prefix
        options += ["--ro-bind", source(prefix), str(prefix)]
    for path in names_of(view.hide, view.prefixes):
        if path.is_dir():
            options += ["--size", "4096", "--tmpfs", str(path), "--remount-ro", str(path)]
        elif path.exists():
            options += ["--ro-bind", "/dev/null", str(path)]
    options += ["--ro-bind", source(view.data_dir), DATA_DIR]
    for destination, descriptor in files.items():
        options += ["--ro-bind-data", str(descriptor), destination]
    options += ["--proc", "/proc", "--dev", "/dev"]
    options += ["--size", str(limits.shm_mb * MIB), "--tmpfs", "/dev/shm"]
    options += ["--size", str(limits.scratch_mb * MIB), "--tmpfs", SCRATCH]
    options += ["--dir", TEMPORARY, "--chdir", SCRATCH]
    elsewhere = view.temporary_environment
    for name, value in elsewhere.items():
        options += ["--setenv", name, value]
    if not elsewhere:
        options += ["--symlink", TEMPORARY, "/tmp"]
    options += ["--remount-ro", "/dev", "--remount-ro", "/"]
    if seccomp is not None:
        options += ["--seccomp", str(seccomp)]
    return options


def names_of(hidden: Sequence[Path], prefixes: Sequence[Path]) -> list[Path]:
    """Every name by which these files can be reached inside.

    A prefix that is a link is shown under both of its names (links inside may use either), and a file that is hidden
    under one of them alone is read under the other.
    """
    names: set[Path] = set()
    for path in hidden:
        real = path.resolve()
        names |= {path, real}
        for prefix in prefixes:
            target = prefix.resolve()
            if real.is_relative_to(target):
                names.add(prefix / real.relative_to(target))
    # A folder before what is in it: later mounts lie on top of earlier ones.
    return sorted(names, key=lambda name: (len(name.parts), name))


def system_files() -> dict[str, bytes]:
    """The little of /etc that programs ask for."""
    return {
        "/etc/passwd": f"sandbox:x:{UID_INSIDE}:{UID_INSIDE}::{SCRATCH}:/bin/sh\n".encode(),
        "/etc/group": f"sandbox:x:{UID_INSIDE}:\n".encode(),
    }


def python_command() -> list[str]:
    """Start of the runner: no user site, no bytecode written, no directory put on the path behind our back."""
    return [sys.executable, "-s", "-P", "-B", RUNNER_INSIDE]


def _system_directories() -> list[str]:
    options = ["--ro-bind", "/usr", "/usr"]
    for name in ("/bin", "/sbin", "/lib", "/lib32", "/lib64"):
        if os.path.islink(name):
            options += ["--symlink", os.readlink(name), name]
        elif os.path.isdir(name):
            options += ["--ro-bind", name, name]
    for name in ("/etc/ld.so.cache", "/etc/alternatives"):  # Debian finds its BLAS through the latter
        options += ["--ro-bind-try", name, name]
    return options
