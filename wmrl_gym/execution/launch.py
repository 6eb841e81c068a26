"""Starting one sandbox, holding it, and ending it for certain.

As an ordinary user, bubblewrap is started directly. As root it would keep root's identity on every mount, and the
kernel would not count its processes, so it is started as a uid that owns nothing; directories which that uid cannot
reach (an interpreter below /root) are first bind-mounted to a neutral place, in a mount namespace of their own.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

from wmrl_gym.execution import bubblewrap
from wmrl_gym.execution.isolation import SandboxUnavailable, find_bubblewrap, remedy, traversable_by_others
from wmrl_gym.execution.limits import SandboxLimits

START_SECONDS = 60.0
"""How long bubblewrap and the interpreter may take to start before that counts as a fault of this machine."""

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
_running_lock = threading.Lock()
_running: dict[Box, int] = {}


class Box:
    """A started sandbox: the program inside is waiting, and nothing foreign has run yet."""

    def __init__(self, process: subprocess.Popen[bytes], init: int, channel: socket.socket) -> None:
        """Take hold of it.

        Args:
            process: the outer bubblewrap.
            init: host pid of the sandbox's first process; when that is dead, so are all others in it.
            channel: the other end of the standard input of the program inside.
        """
        self.process = process
        self.init = init
        self.channel = channel
        self.init_fd = os.pidfd_open(init)
        # Both stay readable after the sandbox is dead, and vanish with these descriptors: nothing to clean up.
        self.scratch = os.open(f"/proc/{init}/root{bubblewrap.SCRATCH}", os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW)
        self.shm = os.open(f"/proc/{init}/root/dev/shm", os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW)
        self.stopped = False
        with _running_lock:
            _running[self] = threading.get_ident()

    def dead(self, timeout: float = 0.0) -> bool:
        """Whether every process inside has ended."""
        return bool(select.select([self.init_fd], [], [], timeout)[0])

    def kill(self) -> None:
        """Kill every process inside and wait until the last one is gone.

        Raises:
            RuntimeError: if one does not die within ten seconds, which only a fault of the kernel can cause.
        """
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.init_fd, signal.SIGKILL)
        if not self.dead(10.0):
            raise RuntimeError(f"the sandbox with init {self.init} does not die")
        self.process.kill()

    def stop(self) -> None:
        """Kill it from another thread; its own thread sees `stopped`."""
        self.stopped = True
        with contextlib.suppress(OSError):
            signal.pidfd_send_signal(self.init_fd, signal.SIGKILL)

    def returncode(self) -> int:
        """Exit code of the program inside, once it is dead; before `kill`, which could outrun the answer."""
        return self.process.wait(10.0)

    def close(self) -> None:
        """Kill what lives, reap it and free every descriptor."""
        with _running_lock:
            _running.pop(self, None)
        try:
            self.kill()
            self.process.wait(10.0)
        finally:
            for descriptor in (self.init_fd, self.scratch, self.shm):
                os.close(descriptor)
            self.channel.close()
            for pipe in (self.process.stdout, self.process.stderr):
                if pipe is not None:
                    pipe.close()


def stop_sandboxes_of(threads: Sequence[int]) -> None:
    """Kill every sandbox that one of these threads (`threading.get_ident`) is running."""
    with _running_lock:
        for box, thread in _running.items():
            if thread in threads:
                box.stop()


@contextlib.contextmanager
def open_box(view: bubblewrap.View, limits: SandboxLimits, command: Sequence[str]) -> Iterator[Box]:
    """Start a sandbox around a command that writes "ready" to its standard input, which is a socket, and waits.

    The calling thread must live as long as the sandbox: the kernel kills it with the *thread* that started it.

    Raises:
        SandboxUnavailable: if it does not start.
    """
    with contextlib.ExitStack() as stack:
        uid = stack.enter_context(_slot_uid()) if os.geteuid() == 0 else None
        staged, places = _staging([*view.prefixes, view.data_dir]) if uid is not None else ({}, "")
        files = {name: _memory_file(stack, content) for name, content in bubblewrap.system_files().items()}
        files[bubblewrap.RUNNER_INSIDE] = _memory_file(stack, _runner_source())
        info_read, info_write = os.pipe()
        stack.callback(os.close, info_read)

        def source(path: Path) -> str:
            return f"{places}/{staged[path]}" if path in staged else str(path)

        options = bubblewrap.arguments(view, limits, source, files)
        options += ["--info-fd", str(info_write)]
        # On the command line, the options would tell every script where things lie on the host.
        option_file = _memory_file(stack, b"".join(option.encode() + b"\0" for option in options))
        binary = _reachable(find_bubblewrap(), staged, places)
        inner = [binary, "--args", str(option_file), "--", *command]
        outer = inner if uid is None else _as_other_uid(uid, places, list(staged), inner)
        channel, inside = socket.socketpair()
        no_environment: dict[str, str] = {}  # bubblewrap is process 1 inside, and /proc/1/environ is readable there
        with contextlib.ExitStack() as ends:
            ends.callback(os.close, info_write)
            ends.enter_context(inside)
            process = subprocess.Popen(
                outer,
                stdin=inside.fileno(),
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=no_environment,
                cwd="/",
                pass_fds=[info_write, option_file, *files.values()],
            )
        box = _await_ready(process, channel, info_read, view)
        stack.callback(box.close)
        yield box


def _await_ready(process: subprocess.Popen[bytes], channel: socket.socket, info: int, view: bubblewrap.View) -> Box:
    channel.settimeout(START_SECONDS)
    try:
        ready = channel.recv(16)
        if ready:
            init = json.loads(os.read(info, 4096))["child-pid"]
            return Box(process, init, channel)
        reason = ""
    except TimeoutError:
        reason = f"not ready after {START_SECONDS:.0f} s"
    except OSError as error:
        reason = str(error)
    process.kill()
    _, stderr = process.communicate()
    channel.close()
    message = f"{stderr.decode('utf-8', 'replace')[-2000:]} {reason}"
    raise SandboxUnavailable(remedy(message, [*view.prefixes, view.data_dir]))


def _as_other_uid(uid: int, places: str, staged: Sequence[Path], command: Sequence[str]) -> list[str]:
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


def _staging(paths: Sequence[Path]) -> tuple[dict[Path, int], str]:
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


def _reachable(binary: Path, staged: dict[Path, int], places: str) -> str:
    for path, place in staged.items():
        if binary.is_relative_to(path):  # the wheel's binary in an environment below /root
            return f"{places}/{place}/{binary.relative_to(path)}"
    return str(binary)


@contextlib.contextmanager
def _slot_uid() -> Iterator[int]:
    with _slots_lock:
        uid = next(uid for uid in range(FIRST_SLOT_UID, FIRST_SLOT_UID + 500) if uid not in _slots_taken)
        _slots_taken.add(uid)
    try:
        yield uid
    finally:
        with _slots_lock:
            _slots_taken.discard(uid)


def _memory_file(stack: contextlib.ExitStack, content: bytes) -> int:
    descriptor = os.memfd_create("wmrl")
    stack.callback(os.close, descriptor)
    os.write(descriptor, content)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def _runner_source() -> bytes:
    return Path(__file__).with_name("runner.py").read_bytes()
