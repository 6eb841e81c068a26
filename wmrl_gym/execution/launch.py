"""Starting one sandbox, holding it, and ending it for certain."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

from wmrl_gym.execution import bubblewrap
from wmrl_gym.execution.foreign_uid import as_other_uid, reachable, slot_uid, staging
from wmrl_gym.execution.isolation import SandboxUnavailable, find_bubblewrap, remedy
from wmrl_gym.execution.limits import SandboxLimits
from wmrl_gym.execution.stray_processes import kill_stray_starts

START_SECONDS = 60.0
"""How long bubblewrap and the interpreter may take to start before that counts as a fault of this machine."""

REPORT_SECONDS = 10.0
"""How long whoever watched over an ended script may take to say how it ended."""

_running_lock = threading.Lock()
_running: dict[Box, int] = {}


class MachineFault(OSError):
    """A process outside the script's sight died, or stopped, unasked: nothing is known about the script."""


class OutputPipes:
    """Pipes for standard output and standard error; the writing ends are for the program inside."""

    def __init__(self, stack: contextlib.ExitStack) -> None:
        self.readers: dict[str, int] = {}
        self.writers: dict[str, int] = {}
        for name in ("stdout", "stderr"):
            self.readers[name], self.writers[name] = os.pipe()
            os.set_blocking(self.readers[name], False)
            stack.callback(os.close, self.readers[name])
        stack.callback(self.close_writers)

    def close_writers(self) -> None:
        """Let the readers see the end when the last process inside has ended."""
        while self.writers:
            os.close(self.writers.popitem()[1])

    def read(self, name: str) -> bytes | None:
        """What is there: bytes, none at the end of the stream, or None if nothing is there yet."""
        try:
            return os.read(self.readers[name], 65536)
        except BlockingIOError:
            return None


class Box:
    """A started sandbox: the program inside is waiting, and nothing foreign has run yet."""

    def __init__(
        self, process: subprocess.Popen[bytes], init: int, channel: socket.socket, output: OutputPipes
    ) -> None:
        """Take hold of it.

        Args:
            process: the outer bubblewrap.
            init: host pid of the sandbox's first process; when that is dead, so are all others in it.
            channel: the other end of the standard input of the program inside.
            output: pipes of the program inside.
        """
        self.process = process
        self.init = init
        self.channel = channel
        self.output = output
        with contextlib.ExitStack() as failed:
            self.init_fd = os.pidfd_open(init)
            failed.callback(os.close, self.init_fd)
            # Both stay readable after the sandbox is dead, and vanish with these descriptors: nothing to clean up.
            flags = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW
            self.scratch = os.open(f"/proc/{init}/root{bubblewrap.SCRATCH}", flags)
            failed.callback(os.close, self.scratch)
            self.shm = os.open(f"/proc/{init}/root/dev/shm", flags)
            failed.pop_all()
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
        self._signal()
        if not self.dead(10.0):
            raise RuntimeError(f"the sandbox with init {self.init} does not die")

    def stop(self) -> None:
        """Kill it from another thread; its own thread sees `stopped`."""
        self.stopped = True
        self._signal()

    def close(self) -> None:
        """Kill what lives, reap it and free every descriptor."""
        with _running_lock:
            _running.pop(self, None)
        try:
            self.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(1.0)  # it reaps its child and ends by itself: killed, it would leave that to others
            self.process.kill()
            self.process.wait(10.0)
        finally:
            for descriptor in (self.init_fd, self.scratch, self.shm):
                os.close(descriptor)
            self.channel.close()

    def check_unharmed(self) -> None:
        """Tell the end of a box from the death of its bubblewrap, which no process inside can see or signal.

        To be asked when all inside are dead, and before `kill`.

        Raises:
            MachineFault: if bubblewrap was killed, or does not say how the box ended.
        """
        try:
            code = self.process.wait(REPORT_SECONDS)
        except subprocess.TimeoutExpired:
            raise MachineFault("bubblewrap does not say how its sandbox ended: was it stopped?") from None
        if code < 0:
            raise MachineFault(f"bubblewrap was killed from outside by signal {-code}")

    def _signal(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.init_fd, signal.SIGKILL)


class Script(Protocol):
    """A process in a box that is ready to receive its job."""

    channel: socket.socket
    """Where the job is written."""

    ended_fd: int
    """Becomes readable when the script has ended, though other processes of the box may live on."""

    roots: list[int]
    """Host pids from which all processes of the box descend."""

    def returncode(self) -> int:
        """Exit code, 128 + n after signal n. Asked once, after the end and before the box is killed.

        Raises:
            MachineFault: if it cannot be known, through no doing of the script.
        """
        ...

    def check_watched(self) -> None:
        """Whether the script, which has not been reported as ended, may still be running.

        Raises:
            MachineFault: if it has ended and whoever watches over it did not say so.
        """
        ...


class FreshScript:
    """The program that bubblewrap itself started; its end is the end of the box."""

    def __init__(self, box: Box) -> None:
        self.box = box
        self.channel = box.channel
        self.ended_fd = box.init_fd
        self.roots = [box.init]

    def returncode(self) -> int:
        """Exit code, as bubblewrap hands it on."""
        self.box.check_unharmed()
        return int(self.box.process.returncode)

    def check_watched(self) -> None:
        """Its end is the end of the box, which is seen without help."""


def stop_sandboxes_of(threads: Sequence[int]) -> None:
    """Kill every sandbox that one of these threads (`threading.get_ident`) is running."""
    with _running_lock:
        for box, thread in _running.items():
            if thread in threads:
                box.stop()


@contextlib.contextmanager
def open_box(
    view: bubblewrap.View, limits: SandboxLimits, command: Sequence[str], seccomp: bytes | None = None
) -> Iterator[Box]:
    """Start a sandbox around a command that writes "ready" to its standard input, which is a socket, and waits.

    The calling thread must live as long as the sandbox: the kernel kills it with the *thread* that started it.

    Raises:
        SandboxUnavailable: if it does not start.
    """
    kill_stray_starts(command[-1])
    with contextlib.ExitStack() as stack:
        uid = stack.enter_context(slot_uid()) if os.geteuid() == 0 else None
        staged, places = staging([*view.prefixes, view.data_dir]) if uid is not None else ({}, "")
        files = {name: memory_file(stack, content) for name, content in bubblewrap.system_files().items()}
        files[bubblewrap.RUNNER_INSIDE] = memory_file(stack, program_source("runner"))
        filter_file = memory_file(stack, seccomp) if seccomp else None
        info_read, info_write = os.pipe()
        stack.callback(os.close, info_read)
        started = stack.enter_context(contextlib.ExitStack())
        started.callback(os.close, info_write)

        def source(path: Path) -> str:
            return f"{places}/{staged[path]}" if path in staged else str(path)

        options = bubblewrap.arguments(view, limits, source, files, filter_file)
        options += ["--info-fd", str(info_write)]
        # On the command line, the options would tell every script where things lie on the host.
        option_file = memory_file(stack, b"".join(option.encode() + b"\0" for option in options))
        binary = reachable(find_bubblewrap(), staged, places)
        inner = [binary, "--args", str(option_file), "--", *command]
        outer = inner if uid is None else as_other_uid(uid, places, list(staged), inner)
        output = OutputPipes(stack)
        handed = [info_write, option_file, *files.values(), *([filter_file] if filter_file else [])]
        process, channel = _spawn(outer, output, handed)
        started.close()
        box = _await_ready(process, channel, info_read, view, output)
        stack.callback(box.close)
        yield box


def _spawn(
    command: Sequence[str], output: OutputPipes, handed: Sequence[int]
) -> tuple[subprocess.Popen[bytes], socket.socket]:
    channel, inside = socket.socketpair()
    failed = contextlib.ExitStack()
    failed.callback(channel.close)
    no_environment: dict[str, str] = {}  # bubblewrap is process 1 inside, and /proc/1/environ is readable there
    with inside, failed:
        process = subprocess.Popen(
            command,
            stdin=inside.fileno(),
            stdout=output.writers["stdout"],
            stderr=output.writers["stderr"],
            env=no_environment,
            cwd="/",
            pass_fds=handed,
            start_new_session=True,  # Ctrl-C is for the trainer, which then ends its sandboxes in its own way
        )
        failed.pop_all()
    return process, channel


def _await_ready(
    process: subprocess.Popen[bytes], channel: socket.socket, info: int, view: bubblewrap.View, output: OutputPipes
) -> Box:
    try:
        await_ready(channel)
        return Box(process, json.loads(os.read(info, 4096))["child-pid"], channel, output)
    except (OSError, ValueError, KeyError) as error:
        reason = str(error)
    process.kill()
    process.wait()
    channel.close()
    said = (output.read("stderr") or b"").decode("utf-8", "replace")[-2000:]
    raise SandboxUnavailable(remedy(said or reason, [*view.prefixes, view.data_dir]))


def await_ready(channel: socket.socket) -> None:
    """Wait until the program at the other end says that it stands.

    Raises:
        OSError: if it does not.
    """
    channel.settimeout(START_SECONDS)
    if channel.recv(16) != b"ready":
        raise OSError("the program inside ended before it was ready")


def memory_file(stack: contextlib.ExitStack, content: bytes) -> int:
    """A file without a name, open for reading from its start; closed with `stack`."""
    descriptor = os.memfd_create("wmrl")
    stack.callback(os.close, descriptor)
    os.write(descriptor, content)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def program_source(name: str) -> bytes:
    """Source of one of the programs of this package that run as processes of their own."""
    return Path(__file__).with_name(f"{name}.py").read_bytes()
