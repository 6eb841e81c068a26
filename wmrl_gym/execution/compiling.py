"""Whether a script compiles, found out in a process that may be exhausted in the trainer's place.

See `wmrl_gym.execution.compiler`, the program. A process that waits for the next script answers in a fraction of a
millisecond, so every script goes this way and none is judged by its looks first.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from typing import Any

from wmrl_gym.execution.launch import memory_file, program_source

CPU_SECONDS = 5
"""Processor time that compiling one script may take."""
MEMORY_MB = 512
"""Memory that compiling one script may take, beyond that of the interpreter."""
WALL_SECONDS = 60.0
"""How long an answer is waited for. Only a machine that stands still takes as long: it says nothing of the script."""

_IDLE = 4
_CRASHES = frozenset({signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGILL, signal.SIGFPE})


class _Compiler:
    """A process that compiles one script after the other."""

    def __init__(self, name: str) -> None:
        with contextlib.ExitStack() as stack:
            program = memory_file(stack, program_source("compiler"))
            self.process = subprocess.Popen(
                [
                    *[sys.executable, "-I", "-S", "-B", "-W", "ignore", f"/dev/fd/{program}"],
                    *[name, str(CPU_SECONDS), str(MEMORY_MB)],
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                cwd="/",
                bufsize=0,
                pass_fds=[program],
                start_new_session=True,  # Ctrl-C is the trainer's
            )

    def ask(self, script: str) -> dict[str, Any] | None:
        """Its answer; None if it died instead.

        Raises:
            TimeoutError: if there is none within `WALL_SECONDS`.
        """
        assert self.process.stdin is not None and self.process.stdout is not None
        deadline = time.monotonic() + WALL_SECONDS
        rest, answer = memoryview(json.dumps(script).encode() + b"\n"), b""
        try:
            while rest:
                rest = rest[self.process.stdin.write(rest) :]
        except BrokenPipeError:
            return None
        while not answer.endswith(b"\n"):
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.process.stdout], [], [], left)[0]:
                raise TimeoutError(f"compiling a script gave no answer within {WALL_SECONDS:g} s")
            part = self.process.stdout.read(1 << 16)
            if not part:
                return None
            answer += part
        found: dict[str, Any] = json.loads(answer)
        return found

    def close(self) -> int:
        """End it; its exit code, negative for a signal that it died of before."""
        self.forget()
        with contextlib.suppress(subprocess.TimeoutExpired, KeyboardInterrupt):
            return self.process.wait(1.0)
        self.process.kill()
        return self.process.wait()

    def kill(self) -> None:
        """End it at once, whatever it does."""
        self.process.kill()
        self.close()

    def forget(self) -> None:
        """Close this process's ends of the pipes."""
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()


_lock = threading.Lock()
_idle: dict[str, list[_Compiler]] = {}


def compile_problem(script: str, name: str = "script.py") -> str | None:
    """Why a script does not compile, as Python's own traceback says it; None if it does.

    Nothing of the script is run, and no bytecode of it is made in this process. Safe to call from several threads.

    Args:
        script: Python source.
        name: of its file, as the message shows it.

    Raises:
        OSError: if no process can be started, or two of them fail without a fault of the script; a `TimeoutError` if
            the machine does not get on with it.
    """
    for _ in range(2):
        with _lock:
            waiting = _idle.get(name)
            compiler = waiting.pop() if waiting else None
        compiler = compiler or _Compiler(name)
        try:
            answer = compiler.ask(script)
        except BaseException:
            compiler.kill()
            raise
        if answer is not None:
            _put_back(name, compiler, ended=answer["ended"])
            if answer["memory"]:
                return f"SyntaxError: compiling the script takes more than {MEMORY_MB} MB"
            problem: str | None = answer["problem"]
            return problem
        code = compiler.close()
        if code == -signal.SIGXCPU:
            return f"SyntaxError: compiling the script takes more than {CPU_SECONDS} s"
        if -code in _CRASHES:
            return f"SyntaxError: compiling the script crashes Python ({signal.Signals(-code).name})"
        # Killed from outside, or dead before it was asked: the next one will tell.
    raise OSError(f"the process that compiles scripts ended twice, the last time with exit code {code}")


def _put_back(name: str, compiler: _Compiler, *, ended: bool) -> None:
    with _lock:
        waiting = _idle.setdefault(name, [])
        if not ended and len(waiting) < _IDLE:
            waiting.append(compiler)
            return
    compiler.close()


def _start_over_after_fork() -> None:
    """A forked child has processes of its own, and does not keep its parent's alive."""
    global _lock
    _lock = threading.Lock()
    for compilers in _idle.values():
        for compiler in compilers:
            compiler.forget()
    _idle.clear()


os.register_at_fork(after_in_child=_start_over_after_fork)


@atexit.register
def _close_all() -> None:
    for compilers in _idle.values():
        for compiler in compilers:
            compiler.close()
    _idle.clear()
