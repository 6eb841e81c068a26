"""The trainer's side of the zygote: one per process, started when first needed, gone with its trainer."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence

from wmrl_gym.execution import bubblewrap
from wmrl_gym.execution.isolation import SandboxUnavailable
from wmrl_gym.execution.launch import (
    REPORT_SECONDS,
    START_SECONDS,
    Box,
    MachineFault,
    await_ready,
    memory_file,
    program_source,
)

PRELOAD = (
    *("numpy", "numpy.random", "pandas", "scipy.sparse", "scipy.stats", "sklearn", "PIL.Image", "joblib"),
    *(f"sklearn.{part}" for part in ("compose", "decomposition", "discriminant_analysis", "dummy", "ensemble")),
    *(f"sklearn.{part}" for part in ("feature_extraction.text", "feature_selection", "impute", "kernel_ridge")),
    *(f"sklearn.{part}" for part in ("linear_model", "metrics", "model_selection", "naive_bayes", "neighbors")),
    *(f"sklearn.{part}" for part in ("neural_network", "pipeline", "preprocessing", "svm", "tree")),
)
"""What solution scripts import most. Modules that are not installed are passed over."""

ANSWER_SECONDS = 20.0
"""How long a zygote may take to fork, a matter of milliseconds, before it is replaced."""

IDLE_COMMAND = ("/bin/sh", "-c", "printf ready >&0; read -r _")
"""Holds a sandbox open until the forked script has ended."""


class ZygoteLost(OSError):
    """The zygote died, or does not answer. No line of the script has run."""


class Zygote:
    """A process that has the scientific stack imported and forks itself into boxes. Safe to use from many threads.

    Raises:
        SandboxUnavailable: if it cannot be started, or importing left more than one thread.
    """

    def __init__(self, preload: Sequence[str] = PRELOAD) -> None:
        self.requests, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._lock = threading.Lock()
        with contextlib.ExitStack() as stack, contextlib.ExitStack() as failed:
            failed.callback(self.requests.close)
            stack.enter_context(theirs)
            program = memory_file(stack, program_source("zygote"))
            runner = memory_file(stack, program_source("runner"))
            self.process = subprocess.Popen(
                [
                    *[sys.executable, "-s", "-P", "-B", f"/dev/fd/{program}", str(theirs.fileno()), str(runner)],
                    *preload,
                ],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=bubblewrap.script_environment(),
                cwd="/",
                pass_fds=[program, runner, theirs.fileno()],
                start_new_session=True,
            )
            failed.pop_all()
        self.requests.settimeout(2 * START_SECONDS)
        try:
            answer = self.requests.recv(4096).decode() or "it ended at once"
        except OSError as error:
            answer = str(error)
        self.requests.settimeout(ANSWER_SECONDS)
        if answer != "ready":
            self.close()
            raise SandboxUnavailable(f"wmrl: no warm start on this machine: {answer}\n  use Sandbox(start='fresh').")

    @property
    def alive(self) -> bool:
        """Whether it still serves."""
        return self.process.poll() is None

    def fork_into(self, box: Box, seccomp: bytes | None, environment: Mapping[str, str] | None = None) -> WarmScript:
        """Start a script in a box that runs `IDLE_COMMAND`.

        Args:
            box: the sandbox.
            seccomp: system call filter.
            environment: variables to set in the script, besides those that every script has.

        Raises:
            ZygoteLost: if the zygote does not answer.
            OSError: if its child fails.
        """
        with contextlib.ExitStack() as stack:
            channel, theirs = socket.socketpair()
            stack.callback(theirs.close)
            try:
                status, status_theirs = os.pipe()
            except OSError:
                channel.close()
                raise
            stack.callback(os.close, status_theirs)
            writers = box.output.writers
            handed = [box.init_fd, status_theirs, theirs.fileno(), writers["stdout"], writers["stderr"]]
            request = {
                "directory": bubblewrap.SCRATCH,
                "uid": bubblewrap.UID_INSIDE,
                "seccomp": (seccomp or b"").hex(),
                "environment": dict(environment or {}),
            }
            try:
                with self._lock:
                    socket.send_fds(self.requests, [json.dumps(request).encode()], handed)
            except OSError as error:
                channel.close()
                os.close(status)
                raise ZygoteLost(f"the zygote takes no requests: {error}") from error
        return WarmScript(box, channel, status)

    def kill(self) -> None:
        """End it at once, even if it is stopped: who waits for an answer sees that there will be none."""
        self.process.kill()
        self.process.wait()
        with self._lock:
            self.requests.close()

    def close(self) -> None:
        """End it. Scripts under way end with their boxes, not with it."""
        self.requests.close()
        # An interrupt while waiting (Ctrl-C twice) must not leave the process behind.
        with contextlib.suppress(subprocess.TimeoutExpired, KeyboardInterrupt):
            self.process.wait(1.0)
        self.process.kill()
        self.process.wait()


class WarmScript:
    """A script forked from the zygote; see `launch.Script`."""

    def __init__(self, box: Box, channel: socket.socket, status: int) -> None:
        self.channel = channel
        self.ended_fd = status
        self._script_fd: int | None = None
        try:
            try:
                word, value = self._report(ANSWER_SECONDS)
            except OSError as error:
                raise ZygoteLost(str(error)) from error
            if word != "started":
                raise OSError(f"the zygote's child {word} {value}")
            self.box = box
            self.roots = [box.init, int(value)]
            self._script_fd = os.pidfd_open(int(value))
            await_ready(channel)
        except BaseException:
            self.close()
            raise

    def returncode(self) -> int:
        """Exit code, as its guardian reports it, which no process inside can see or signal."""
        try:
            word, value = self._report(REPORT_SECONDS)
        except OSError as error:
            raise MachineFault(f"nobody says how the script ended: {error}") from error
        if word != "ended":
            raise MachineFault(f"the script's guardian said {word!r}")
        # A box that died takes its script with it, and is seen to be dead only a moment later.
        if int(value) == 128 + signal.SIGKILL and self.box.dead(0.2):
            self.box.check_unharmed()
        return int(value)

    def check_watched(self) -> None:
        """Look at the script itself: its guardian may have been stopped."""
        if self._script_fd is None or not select.select([self._script_fd], [], [], 0)[0]:
            return
        if not select.select([self.ended_fd], [], [], REPORT_SECONDS)[0]:  # it may have ended this very moment
            raise MachineFault("the script ended, and its guardian did not say so: was it stopped?")

    def close(self) -> None:
        """Free the descriptors."""
        self.channel.close()
        os.close(self.ended_fd)
        if self._script_fd is not None:
            os.close(self._script_fd)

    def _report(self, seconds: float) -> tuple[str, str]:
        """Next line from the script's guardian, which writes each in one piece."""
        line = b""
        while not line.endswith(b"\n"):
            if not select.select([self.ended_fd], [], [], seconds)[0]:
                raise OSError("the zygote does not answer")
            byte = os.read(self.ended_fd, 1)
            if not byte:
                raise OSError("the zygote's child died")
            line += byte
        word, _, value = line.decode().strip().partition(" ")
        return word, value


_lock = threading.Lock()
_zygotes: dict[tuple[int, tuple[str, ...]], Zygote] = {}


def shared_zygote(preload: Sequence[str] = PRELOAD) -> Zygote:
    """The zygote of this process (a forked child gets one of its own), started or started anew if need be."""
    key = (os.getpid(), tuple(preload))
    with _lock:
        zygote = _zygotes.get(key)
        if zygote is None or not zygote.alive:
            zygote = _zygotes[key] = Zygote(preload)
        return zygote


def retire_zygote(zygote: Zygote) -> None:
    """Kill a zygote that does not answer; the next script gets a new one. Scripts under way finish."""
    with _lock:
        for key in [key for key, known in _zygotes.items() if known is zygote]:
            del _zygotes[key]
    zygote.kill()


@atexit.register
def _close_all() -> None:
    for (pid, _), zygote in _zygotes.items():
        if pid == os.getpid():
            zygote.close()
