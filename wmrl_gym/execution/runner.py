"""The program inside the sandbox: reads one script from its standard input and runs it as ``__main__``.

It is copied into the sandbox alone, so it imports nothing but the standard library, and little of that: its start is
part of every run. In a warm sandbox the same functions run in a forked child.
"""

import atexit
import builtins
import contextlib
import gc
import importlib.abc
import importlib.machinery
import io
import json
import linecache
import os
import random
import re
import resource
import signal
import sys
import types
from collections.abc import Callable, Sequence
from typing import Any

SCRIPT_NAME = "script.py"
SEEDED_ON_IMPORT = "numpy.random"
ENCODING = re.compile(rb"^([ \t\f]*#.*?)coding(?=[:=])")


def apply_limits(limits: dict[str, int]) -> None:
    """Set soft and hard resource limits; keys are names of `resource` constants without their prefix.

    RLIMIT_NPROC only holds because this runs inside the user namespace and not as uid 0: it then counts the processes
    of this sandbox alone.
    """
    for name, value in limits.items():
        resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (value, value))


class SeedingFinder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Seeds NumPy's global generator at the moment the script imports it: importing it here would cost every script.

    It finds `numpy.random` once, wraps its loader, and leaves no trace in the module.
    """

    def __init__(self) -> None:
        """Wait for the import."""
        self.spec: importlib.machinery.ModuleSpec | None = None
        self.loader: Any = None

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Stand in front of the real loader of the one module this is about."""
        if fullname != SEEDED_ON_IMPORT:
            return None
        sys.meta_path.remove(self)
        self.spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if self.spec is not None:
            self.loader, self.spec.loader = self.spec.loader, self
        return self.spec

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType | None:
        """Create it as the real loader would."""
        module: types.ModuleType | None = self.loader.create_module(spec)
        return module

    def exec_module(self, module: types.ModuleType) -> None:
        """Run the module with its real loader, then seed."""
        if self.spec is not None:
            self.spec.loader = self.loader
        module.__loader__ = self.loader
        self.loader.exec_module(module)
        module.seed(0)  # type: ignore[attr-defined]


def seed_generators() -> None:
    """Seed Python's and NumPy's global generators to 0, NumPy's now if it is there, else when it is imported."""
    random.seed(0)
    if SEEDED_ON_IMPORT in sys.modules:
        sys.modules[SEEDED_ON_IMPORT].seed(0)
    else:
        sys.meta_path.insert(0, SeedingFinder())


def run_as_main(source: bytes, directory: str, names: dict[str, str]) -> int:
    """Run a script as a real ``__main__`` module, with tracebacks that start at its own first frame.

    Args:
        source: the script.
        directory: its working directory, where a copy is kept for tracebacks and worker processes.
        names: predefined global names.

    Returns:
        The exit code. The module stays in ``sys.modules``: objects in it must outlive this call.
    """
    path = os.path.join(directory, SCRIPT_NAME)
    with open(path, "wb") as file:
        file.write(without_encoding(source))
    main = types.ModuleType("__main__")
    main.__dict__.update(__file__=path, __builtins__=builtins, **names)
    sys.modules["__main__"] = main
    sys.argv[:] = [SCRIPT_NAME]
    sys.path.insert(0, directory)
    text = source.decode("utf-8", "replace")
    linecache.cache[SCRIPT_NAME] = (len(text), None, text.splitlines(keepends=True), SCRIPT_NAME)
    try:
        # As text: from bytes, Python would take the encoding that a comment names, and run what nobody has read.
        exec(compile(decoded(source), SCRIPT_NAME, "exec"), main.__dict__)
    except SystemExit as stop:
        return exit_code(stop.code)
    except BaseException as error:
        trace = error.__traceback__
        error.with_traceback(trace.tb_next if trace else None)  # without this file's own frame
        sys.excepthook(type(error), error, error.__traceback__)
        return 1
    return 0


def decoded(source: bytes) -> str:
    """A script's text.

    Raises:
        SyntaxError: if it is not UTF-8, as the interpreter says it.
    """
    try:
        return source.decode("utf-8")
    except UnicodeDecodeError as error:
        raise SyntaxError(f"(unicode error) {error}") from None


def without_encoding(source: bytes) -> bytes:
    """A script whose first two lines name no encoding, for worker processes that read it from its file."""
    lines = source.splitlines(keepends=True)
    return b"".join([*(ENCODING.sub(rb"\1codins", line) for line in lines[:2]), *lines[2:]])


def exit_code(code: object) -> int:
    """What the interpreter makes of the argument of ``sys.exit``."""
    if code is None:
        return 0
    if isinstance(code, int):
        return code & 0xFF
    print(code, file=sys.stderr)
    return 1


def leave_at_once(code: int) -> None:
    """End a forked process as the interpreter would, short of tearing down the modules it was forked with.

    What a script can notice is done, in the interpreter's order: threads are joined, exit handlers run, and its own
    objects are deleted, so that a file it left open is flushed.
    """
    threading = sys.modules.get("threading")
    try:
        if threading is not None:
            threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        sys.modules["__main__"].__dict__.clear()
        gc.collect()
    finally:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):
                stream.flush()
        os._exit(code)


def main(leave: Callable[[int], object] = sys.exit) -> None:
    """Say that the sandbox stands, read the job, run it, leave with its exit code."""
    os.write(0, b"ready")
    with open(0, "rb", closefd=False) as stream:
        job = json.loads(stream.read())
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.close(null)
    for stream_name in ("stdout", "stderr"):
        wrapper = getattr(sys, stream_name)
        if isinstance(wrapper, io.TextIOWrapper):
            # Lines reach the trainer at once, so that a script killed at its deadline still shows how far it came.
            wrapper.reconfigure(line_buffering=True)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    apply_limits(job["limits"])
    seed_generators()
    code = run_as_main(job["script"].encode("utf-8", "surrogatepass"), job["directory"], job["names"])
    leave(code)


if __name__ == "__main__":
    main()
