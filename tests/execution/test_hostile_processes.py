"""Scripts that want to stay, to multiply, or to take the machine with them."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from wmrl_gym.execution import sandbox as sandbox_module
from wmrl_gym.execution.isolation import find_bubblewrap
from wmrl_gym.execution.memory import Watchdog
from wmrl_gym.execution.process_tree import descendants
from wmrl_gym.execution.sandbox import Sandbox, SandboxResult
from wmrl_gym.execution.stray_processes import kill_stray_starts

from .conftest import alive

pytestmark = pytest.mark.alone

Make = Callable[..., Sandbox]


def attack(sandbox: Sandbox, data: Path, mark: str, script: str) -> SandboxResult:
    """Run a marked script; whatever it does, nothing of it is left and the verdict does not come late."""
    begin = time.monotonic()
    result = sandbox.run(f"open('/proc/self/comm', 'w').write('{mark}')\n" + textwrap.dedent(script), data)
    assert alive(mark) == []
    assert time.monotonic() - begin < sandbox.limits.wall_seconds + 10.0
    assert result.status != "infrastructure_error", result.stderr
    return result


DAEMON = """
import os, signal, time
def stay():
    for number in range(1, 65):
        try:
            signal.signal(number, signal.SIG_IGN)
        except (OSError, ValueError):
            pass
    while True:
        time.sleep(1)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        stay()
    os._exit(0)
"""


def test_daemon_dies_with_its_script(sandbox: Sandbox, data: Path, mark: str) -> None:
    result = attack(sandbox, data, mark, DAEMON + "time.sleep(0.2); print('done')")
    assert (result.status, result.stdout) == ("ok", "done\n") and result.seconds < 3


def test_daemon_dies_at_the_deadline(make_sandbox: Make, data: Path, mark: str) -> None:
    result = attack(make_sandbox(wall_seconds=0.7), data, mark, DAEMON + "stay()")
    assert result.status == "timeout" and result.returncode is None


def test_held_pipe_does_not_delay_the_verdict(sandbox: Sandbox, data: Path, mark: str) -> None:
    script = "import os, time\nif os.fork() == 0:\n    time.sleep(600)\nopen(SUBMISSION_PATH, 'w').write('a')"
    result = attack(sandbox, data, mark, script)
    assert (result.status, result.submission) == ("ok", b"a") and result.seconds < 3


@pytest.mark.parametrize(
    "endless",
    [
        "while True:\n    try:\n        time.sleep(1)\n    except BaseException:\n        pass",
        "pow(3, 10**9)",  # one call in C that never looks at signals
        "os.kill(os.getpid(), signal.SIGSTOP)",
        "os.kill(0, signal.SIGSTOP)",
        "sys.stdout.close(); sys.stderr.close(); os.close(1); os.close(2); time.sleep(600)",
    ],
)
def test_deadline_holds_for_scripts_that_do_not_listen(make_sandbox: Make, data: Path, mark: str, endless: str) -> None:
    ignore = "import os, signal, sys, time\nfor s in (15, 14, 2, 1):\n    signal.signal(s, signal.SIG_IGN)\n"
    assert attack(make_sandbox(wall_seconds=0.7), data, mark, ignore + endless).status == "timeout"


def test_bombs_are_bounded_and_leave_the_neighbour_alone(make_sandbox: Make, data: Path, mark: str) -> None:
    fork_bomb = """
        import os
        while True:
            try:
                os.fork()
            except OSError:
                pass
    """
    thread_bomb = """
        import threading, time
        count = 0
        try:
            while True:
                threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
                count += 1
        except RuntimeError:
            print(count, flush=True)
        time.sleep(600)
    """
    neighbour = "import os\nfor _ in range(20):\n    if os.fork() == 0:\n        os._exit(0)\n    os.wait()"
    limited = make_sandbox(wall_seconds=2.0, processes=30)
    with ThreadPoolExecutor(3) as pool:
        marked = f"open('/proc/self/comm', 'w').write('{mark}')" + textwrap.dedent(fork_bomb)
        forks = pool.submit(limited.run, marked, data)
        threads = pool.submit(limited.run, textwrap.dedent(thread_bomb), data)
        most, quiet = 0, None
        while not forks.done():
            most = max(most, len(alive(mark)))
            if quiet is None and most > 5:
                quiet = pool.submit(make_sandbox().run, neighbour, data)
    assert 5 < most <= 30 and alive(mark) == []
    assert forks.result().status == threads.result().status == "timeout"
    assert 5 < int(threads.result().stdout) <= 30
    assert quiet is not None and quiet.result().status == "ok"


@pytest.fixture(params=["machine's choice", "watchdog"])
def memory_keeper(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Root may have a cgroup; what everybody else has is tested as well."""
    if request.param == "watchdog":
        monkeypatch.setattr(sandbox_module, "limit_memory", lambda limit, processes: Watchdog(limit))
    return request.param


SPREAD = """
import os, time
for _ in range(8):
    if os.fork() == 0:
        kept = []
        while sum(map(len, kept)) < 120 * 2**20:
            kept.append(bytearray(os.urandom(1) * 2**20))
            time.sleep(0.002)
        time.sleep(600)
time.sleep(600)
"""
SHARED = """
import mmap, os, time
block = mmap.mmap(-1, 700 * 2**20)
for start in range(0, len(block), 4096):
    block[start] = 1
time.sleep(600)
"""


@pytest.mark.parametrize("script", [SPREAD, SHARED], ids=["spread over forks", "shared mapping"])
def test_memory_of_the_whole_tree_is_limited(
    make_sandbox: Make, data: Path, mark: str, memory_keeper: str, script: str
) -> None:
    result = attack(make_sandbox(memory_mb=400), data, mark, script)
    assert result.status == "out_of_memory" and result.seconds < 9
    assert result.killed_because is not None and "400 MiB" in result.killed_because
    if memory_keeper == "watchdog":
        assert result.memory_limited_by == "RLIMIT_AS and watchdog"


def test_impossible_allocation_is_out_of_memory(sandbox: Sandbox, data: Path, mark: str) -> None:
    assert attack(sandbox, data, mark, "bytearray(1 << 40)").status == "out_of_memory"
    caught = "try:\n    bytearray(1 << 40)\nexcept MemoryError:\n    print('caught')"
    result = attack(sandbox, data, mark, caught)
    assert (result.status, result.stdout) == ("ok", "caught\n")


def test_shared_memory_files_are_capped(make_sandbox: Make, data: Path, mark: str) -> None:
    script = """
        import os
        written = 0
        try:
            with open("/dev/shm/x", "wb", buffering=0) as file:
                while True:
                    written += file.write(bytes(2**20))
        except OSError as error:
            print(written // 2**20, error.errno)
        import glob
        for place in ("/", "/dev", "/usr", "/harness", "/etc", DATA_DIR):
            try:
                open(place + "/x", "w")
                print("wrote", place)
            except OSError:
                pass
    """
    assert attack(make_sandbox(shm_mb=8), data, mark, script).stdout == "8 28\n"


def test_limits_cannot_be_raised(sandbox: Sandbox, data: Path, mark: str) -> None:
    script = """
        import resource
        for name in ("NPROC", "AS", "FSIZE", "CPU", "NOFILE", "CORE"):
            kind = getattr(resource, "RLIMIT_" + name)
            soft, hard = resource.getrlimit(kind)
            assert soft == hard != resource.RLIM_INFINITY, name
            try:
                resource.setrlimit(kind, (hard + 1, hard + 1))
                print("raised", name)
            except (ValueError, OSError):
                pass
    """
    assert attack(sandbox, data, mark, script).stdout == ""


def test_output_flood_is_cut_and_ended(make_sandbox: Make, data: Path, mark: str) -> None:
    flooded = make_sandbox(output_kb=16, output_flood_mb=8)
    result = attack(flooded, data, mark, "print('head')\nimport sys\nwhile True: sys.stdout.write('x' * 2**20)")
    assert result.status == "error" and result.killed_because == "more than 8 MiB on stdout"
    assert result.stdout.startswith("head\n") and "bytes left out" in result.stdout and len(result.stdout) < 20_000
    silent = attack(flooded, data, mark, "import sys; sys.stderr.buffer.write(b'\\xff\\0\\x1b[2J' * 9000 + b'end')")
    assert silent.status == "ok" and silent.stderr.endswith("end") and len(silent.stderr) < 20_000


def test_disk_is_limited_in_bytes_files_and_depth(make_sandbox: Make, data: Path, mark: str) -> None:
    bounded = make_sandbox(scratch_mb=16, file_mb=4, scratch_files=500)
    script = """
        import errno, os
        try:
            with open("sparse", "wb") as file:
                file.truncate(1 << 40)
        except OSError as error:
            assert error.errno == errno.EFBIG
        written = 0
        try:
            for number in range(100):
                with open(f"part{number}", "wb", buffering=0) as file:
                    written += file.write(bytes(3 * 2**20))
        except OSError as error:
            assert error.errno == errno.ENOSPC
        print(written <= 16 * 2**20)
    """
    assert attack(bounded, data, mark, script).stdout == "True\n"
    many = attack(bounded, data, mark, "n = 0\nwhile True:\n    open(f'f{n}', 'w').close()\n    n += 1")
    assert (many.status, many.killed_because) == ("error", "more than 500 files")


def test_tree_that_cannot_be_walked_leaves_nothing_behind(sandbox: Sandbox, data: Path, mark: str) -> None:
    before = set(os.listdir("/tmp"))
    deep = "for _ in range(200):\n    os.mkdir('d' * 200)\n    os.chdir('d' * 200)\n"
    script = f"import os\n{deep}os.chmod('/scratch', 0)"
    result = attack(sandbox, data, mark, script)
    assert result.status == "ok" and result.submission is None
    assert not [name for name in set(os.listdir("/tmp")) - before if "wmrl" in name]


SUPERVISOR = """
import sys, types
package = types.ModuleType("wmrl_gym")
package.__path__ = [{package!r}]
sys.modules["wmrl_gym"] = package
from wmrl_gym.execution.sandbox import Sandbox
print("up", flush=True)
Sandbox(start={start!r}).run("open('/proc/self/comm','w').write({mark!r})\\n" + {script!r}, {data!r})
"""


def test_sandbox_dies_with_a_killed_trainer_and_the_next_run_is_whole(
    make_sandbox: Make, data: Path, mark: str
) -> None:
    sandbox = make_sandbox()
    text = SUPERVISOR.format(
        package=str(Path(sandbox_module.__file__).parents[1]),
        start=sandbox.start,
        mark=mark,
        script=DAEMON + "stay()",
        data=str(data),
    )
    trainer = subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE)
    deadline = time.monotonic() + 15
    while len(alive(mark)) < 2 and time.monotonic() < deadline:
        time.sleep(0.02)
    assert len(alive(mark)) >= 2
    trainer.send_signal(signal.SIGKILL)
    trainer.wait()
    time.sleep(0.5)
    assert alive(mark) == []
    assert attack(sandbox, data, mark, "open(SUBMISSION_PATH, 'w').write('once')").submission == b"once"


def test_start_cut_off_by_the_death_of_its_trainer_is_cleared_away_and_no_living_one(mark: str) -> None:
    read, write = os.pipe()
    os.set_blocking(write, False)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(write, bytes(65536))
    os.set_blocking(write, True)
    options = ["--unshare-all", "--ro-bind", "/", "/", "--info-fd", str(write)]
    command = [find_bubblewrap(), *options, "--", "/bin/true", mark]
    # With no room in the pipe it stops just where a kill leaves its child waiting.
    outer = subprocess.Popen(command, pass_fds=[write], start_new_session=True)
    deadline = time.monotonic() + 5
    while len(pids := descendants([outer.pid])) < 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert kill_stray_starts(mark) == 0
    outer.kill()
    outer.wait()
    kill_stray_starts.cache_clear()
    assert Path(f"/proc/{pids[1]}").exists() and kill_stray_starts(mark + "x") == 0
    assert kill_stray_starts(mark) == 1
    os.close(read)
    os.close(write)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can take groups on, and must lay them down")
def test_groups_of_the_trainer_are_not_handed_on(make_sandbox: Make, data: Path, mark: str) -> None:
    script = "open(SUBMISSION_PATH, 'w').write(open('/proc/self/status').read().split('Groups:')[1].split(chr(10))[0])"
    text = SUPERVISOR.format(
        package=str(Path(sandbox_module.__file__).parents[1]),
        start=make_sandbox().start,
        mark=mark,
        script=script,
        data=str(data),
    )
    text = text.replace("\nSandbox(", "\nresult = Sandbox(") + "print(result.status, result.submission.split())"
    said = subprocess.check_output([sys.executable, "-c", text], extra_groups=[4, 27], text=True, timeout=60)
    assert said == "up\nok []\n"


def test_many_runs_leak_nothing(sandbox: Sandbox, data: Path) -> None:
    def held() -> tuple[int, int, int, int, int]:
        groups = [name for root in ("memory", "pids") for name in _groups(Path("/sys/fs/cgroup") / root)]
        zombies = [pid for pid in filter(str.isdigit, os.listdir("/proc")) if _is_own_zombie(pid)]
        mounts = Path("/proc/self/mountinfo").read_text().count("\n")
        fds = len(os.listdir("/proc/self/fd"))
        return fds, len(groups), len(zombies), mounts, len([n for n in os.listdir("/tmp") if n.startswith("wmrl")])

    sandbox.run("", data)
    before = held()
    for number in range(30):
        sandbox.run("import os; os.fork()" if number % 2 else "raise SystemExit(1)", data)
    assert held() == before


def _groups(root: Path) -> list[str]:
    return [name for name, _, _ in os.walk(root) if f"wmrl-{os.getpid()}-" in name]


def _is_own_zombie(pid: str) -> bool:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return False
    return fields[0] == "Z" and int(fields[1]) == os.getpid()
