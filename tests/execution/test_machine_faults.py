"""What the machine does to a script is no fault of the script's, and what the script does to itself is none of the
machine's."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from wmrl_gym.execution import launch, warm
from wmrl_gym.execution import sandbox as sandbox_module
from wmrl_gym.execution.isolation import SandboxUnavailable
from wmrl_gym.execution.memory import Watchdog
from wmrl_gym.execution.sandbox import Sandbox, SandboxLimits, SandboxResult

from .conftest import alive

pytestmark = pytest.mark.alone

Make = Callable[..., Sandbox]


def marked(mark: str, script: str) -> str:
    return f"open('/proc/self/comm', 'w').write('{mark}')\n{script}"


def while_running(
    sandbox: Sandbox, data: Path, mark: str, do: Callable[[launch.Box, int], object], script: str
) -> SandboxResult:
    """Do something to the first run of a script, from outside and once it is under way."""
    results: list[SandboxResult] = []
    before = set(launch._running)
    thread = threading.Thread(target=lambda: results.append(sandbox.run(marked(mark, script), data)))
    thread.start()
    deadline = time.monotonic() + 20
    while not alive(mark) and time.monotonic() < deadline:
        time.sleep(0.01)
    (box,) = set(launch._running) - before
    do(box, alive(mark)[0])
    thread.join(60)
    return results[0]


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


SLOW = "import time\ntime.sleep(1.0)\nprint('end')"


def test_killed_bubblewrap_leaves_nothing_known(sandbox: Sandbox, data: Path, mark: str) -> None:
    kill = lambda box, _: os.kill(box.process.pid, signal.SIGKILL)  # noqa: E731
    result = while_running(sandbox, data, mark, kill, SLOW)
    assert (result.status, result.returncode) == ("infrastructure_error", None) and alive(mark) == []


def test_killed_guardian_leaves_nothing_known(data: Path, mark: str) -> None:
    kill = lambda _, script: os.kill(parent_of(script), signal.SIGKILL)  # noqa: E731
    result = while_running(Sandbox(start="warm"), data, mark, kill, SLOW)
    assert result.status == "infrastructure_error" and alive(mark) == []


def test_stopped_guardian_is_no_timeout(data: Path, mark: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warm, "REPORT_SECONDS", 0.5)
    stopped: list[int] = []

    def stop(_: launch.Box, script: int) -> None:
        stopped.append(parent_of(script))
        os.kill(stopped[0], signal.SIGSTOP)

    try:
        result = while_running(Sandbox(SandboxLimits(wall_seconds=2.0), start="warm"), data, mark, stop, SLOW)
    finally:
        os.kill(stopped[0], signal.SIGCONT)
    assert result.status == "infrastructure_error"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
@pytest.mark.parametrize("victim", ["script", "init"])
def test_what_was_killed_from_outside_is_run_again(
    sandbox: Sandbox, data: Path, mark: str, victim: str, number: int
) -> None:
    if victim == "init":
        number = signal.SIGKILL
    kill = lambda box, script: os.kill(box.init if victim == "init" else script, number)  # noqa: E731
    result = while_running(sandbox, data, mark, kill, SLOW)
    assert (result.status, result.stdout) == ("ok", "end\n")


ITSELF = {
    "itself": "os.kill(os.getpid(), 9)",
    "by SIGTERM": "os.kill(os.getpid(), 15)",
    "by SIGSEGV": "os.kill(os.getpid(), 11)",
    "every process": "try: os.kill(-1, 9)\nexcept OSError: pass\nos.kill(0, 9)",
    "every pid": "for pid in [*range(1, 300)]:\n    try: os.kill(pid, 9)\n    except OSError: pass",
    "first process": "os.kill(1, 9); os.kill(1, 11); os.kill(1, 6); os.kill(os.getpid(), 9)",
    "exit code": "os._exit(137)",
    "parent, if it has one": "os.kill(os.getppid() or 1, 9); os._exit(137)",
    "children first": "pid = os.fork()\nif not pid: os.kill(os.getppid(), 9)\nos.wait()",
    "by a timer": "import resource; resource.setrlimit(0, (1, 1))\nwhile True: pass",
    "memory of init": """
try:
    memory = open('/proc/1/mem', 'r+b', buffering=0)
    for line in open('/proc/1/maps').read().splitlines():
        start, end = (int(bound, 16) for bound in line.split()[0].split('-'))
        if line.split()[1].startswith('r-x') and not line.endswith('[vsyscall]'):
            memory.seek(start)
            try: memory.write(bytes([0xCC]) * (end - start))
            except OSError: pass
except OSError:
    pass
if not os.fork(): os._exit(0)
os.kill(os.getpid(), 9)""",
    "descriptors of others": """
for pid in filter(str.isdigit, os.listdir('/proc')):
    try:
        for name in os.listdir(f'/proc/{pid}/fd'):
            try: os.write(os.open(f'/proc/{pid}/fd/{name}', os.O_WRONLY | os.O_NONBLOCK), b'ended 0\\n' * 8)
            except OSError: pass
    except OSError: pass
os.kill(os.getpid(), 9)""",
}


@pytest.mark.parametrize("way", ITSELF)
def test_script_that_ends_itself_answers_for_it(make_sandbox: Make, data: Path, mark: str, way: str) -> None:
    result = make_sandbox(wall_seconds=8.0).run(marked(mark, f"import os, sys\n{ITSELF[way]}"), data)
    assert result.status == "error" and result.returncode is not None and result.returncode > 128, result
    assert alive(mark) == []


def test_memory_limits_kill_is_the_scripts(make_sandbox: Make, data: Path) -> None:
    result = make_sandbox(memory_mb=200).run("kept = b'x' * (600 * 2**20)\nimport time; time.sleep(9)", data)
    assert result.status == "out_of_memory"


@pytest.mark.parametrize("how", [signal.SIGSTOP, signal.SIGKILL])
def test_zygote_that_does_not_answer_is_replaced(
    data: Path, monkeypatch: pytest.MonkeyPatch, how: signal.Signals
) -> None:
    sandbox = Sandbox(start="warm", preload=("json",))
    sandbox.run("", data)
    zygote = warm.shared_zygote(sandbox.preload)
    monkeypatch.setattr(warm, "ANSWER_SECONDS", 1.0)
    os.kill(zygote.process.pid, how)
    begin = time.monotonic()
    threads = [threading.Thread(target=lambda: results.append(sandbox.run("print(1)", data))) for _ in range(3)]
    results: list[SandboxResult] = []
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert [(result.status, result.stdout) for result in results] == [("ok", "1\n")] * 3
    assert time.monotonic() - begin < 10
    assert not zygote.alive and warm.shared_zygote(sandbox.preload) is not zygote
    warm.retire_zygote(warm.shared_zygote(sandbox.preload))


def descriptors() -> list[str]:
    found = []
    for name in os.listdir("/proc/self/fd"):
        try:
            found.append(os.readlink(f"/proc/self/fd/{name}").partition(":")[0])
        except OSError:
            continue
    return sorted(found)


@pytest.mark.slow
def test_descriptors_do_not_leak(sandbox: Sandbox, data: Path) -> None:
    sandbox.run("", data)
    before = descriptors()
    for number in range(200):
        assert sandbox.run("" if number % 10 else "import os; os._exit(3)", data).status != "infrastructure_error"
    assert descriptors() == before


def test_failed_launches_leave_no_descriptor(sandbox: Sandbox, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sandbox.run("", data)
    before = descriptors()

    def fail(*_: object, **__: object) -> None:
        raise SandboxUnavailable("no")

    def broken(*_: object, **__: object) -> None:
        raise OSError("no process")

    places = [(launch, "find_bubblewrap", fail), (launch.subprocess, "Popen", broken), (launch, "Box", broken)]
    places += [(launch.os, "pidfd_open", broken), (sandbox_module.Sandbox, "_job", broken)]
    for place, name, failing in places:
        with monkeypatch.context() as patch:
            patch.setattr(place, name, failing)
            for _ in range(3):
                assert sandbox.run("", data).status == "infrastructure_error"
        assert descriptors() == before, name
    assert sandbox.run("", data).status == "ok"


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> None:
    """What an ordinary user without a control group has."""
    monkeypatch.setattr(sandbox_module, "limit_memory", lambda limit, processes: Watchdog(limit))


UNSEEN = """
import ctypes, errno, os
libc = ctypes.CDLL(None, use_errno=True)
assert libc.shmget(0, 1 << 20, 0o1600) == -1 and ctypes.get_errno() == errno.EPERM
try:
    os.memfd_create("x")
except PermissionError:
    print("denied")
"""


@pytest.mark.usefixtures("watched")
def test_memory_that_a_watchdog_cannot_see_is_denied(sandbox: Sandbox, data: Path) -> None:
    assert sandbox.run(UNSEEN, data).stdout == "denied\n"


@pytest.mark.usefixtures("watched")
def test_socket_buffers_count(make_sandbox: Make, data: Path) -> None:
    hoard = """
import os, socket, time
for _ in range(12):
    if os.fork() == 0:
        pairs = [socket.socketpair() for _ in range(200)]
        for one, other in pairs:
            one.setblocking(False)
            try:
                while True: one.send(bytes(32768))
            except OSError: pass
        time.sleep(60)
time.sleep(60)
"""
    assert make_sandbox(memory_mb=256).run(hoard, data).status == "out_of_memory"


@pytest.mark.usefixtures("watched")
def test_workers_need_no_unseen_memory(data: Path) -> None:
    script = """
import numpy, pandas, multiprocessing, joblib
from sklearn.ensemble import RandomForestClassifier
def total(array): return float(array.sum())
block = numpy.ones(1 << 18)
print(joblib.Parallel(n_jobs=2, max_nbytes=1000)(joblib.delayed(total)(block) for _ in range(3)))
from multiprocessing import shared_memory
shared = shared_memory.SharedMemory(create=True, size=1 << 20); shared.close(); shared.unlink()
RandomForestClassifier(5, n_jobs=2).fit(block[:100].reshape(50, 2), [0, 1] * 25)
print("end")
"""
    result = Sandbox(SandboxLimits(wall_seconds=60.0)).run(script, data)
    assert result.stdout.endswith("end\n"), result


def test_rare_sockets_and_foreign_descriptors_are_denied(sandbox: Sandbox, data: Path) -> None:
    script = """
import ctypes, errno, os, socket
libc = ctypes.CDLL(None, use_errno=True)
assert libc.syscall(438, os.pidfd_open(os.getpid()), 1, 0) == -1 and ctypes.get_errno() == errno.EPERM
for family in (socket.AF_VSOCK, socket.AF_PACKET, 38, 30, 21, 29):
    try:
        socket.socket(family, socket.SOCK_STREAM)
        print("made", family)
    except OSError as error:
        assert error.errno == errno.EAFNOSUPPORT, (family, error)
for family in (socket.AF_INET, socket.AF_UNIX):
    socket.socket(family, socket.SOCK_STREAM).close()
socket.socket(socket.AF_NETLINK, socket.SOCK_RAW).close()
socket.socketpair()
print("end")
"""
    assert sandbox.run(script, data).stdout == "end\n"
