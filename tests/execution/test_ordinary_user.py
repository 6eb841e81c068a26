"""Root starts sandboxes in another way than everybody else: what root's tests show is shown for an ordinary uid too."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from wmrl_gym import execution

from .conftest import CANARY

SYSTEM_PYTHON = "/usr/bin/python3"
ORDINARY_UID = 12345

PROGRAM = """
import os, sys, types
# The sandbox itself needs nothing that is not in the standard library; the names that its packages offer do.
for name, folder in (("wmrl_gym", {package!r}), ("wmrl_gym.execution", {package!r} + "/execution")):
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].__path__ = [folder]
from wmrl_gym.execution.sandbox import Sandbox, SandboxLimits
from wmrl_gym.execution.isolation import SandboxUnavailable
assert os.getuid() == {uid}

def run(script, **limits):
    return Sandbox(SandboxLimits(**{{"wall_seconds": 5.0, **limits}}), start={start!r}).run(script, {data!r})

{body}
"""


@pytest.fixture
def public() -> Iterator[Path]:
    """Public data that a foreign uid can reach, with answers it could read outside a sandbox."""
    with tempfile.TemporaryDirectory(prefix="wt-") as folder:
        home = Path(folder)
        home.chmod(0o755)
        for part, name, text in (("public", "train.csv", "id\n1\n"), ("private", "test_answer.csv", CANARY)):
            (home / part).mkdir()
            (home / part / name).write_text(text)
        package = Path(execution.__file__).parent
        shutil.copytree(package, home / "code/execution", ignore=shutil.ignore_patterns("__pycache__"))
        yield home / "public"


def as_ordinary_user(public: Path, body: str, start: str = "fresh") -> str:
    if os.geteuid() != 0:
        pytest.skip("not root: every other test already runs as an ordinary user")
    if not os.access(SYSTEM_PYTHON, os.X_OK) or sys.version_info < (3, 11):
        pytest.skip(f"no {SYSTEM_PYTHON}")
    code = str(public.parent / "code")
    text = PROGRAM.format(package=code, uid=ORDINARY_UID, data=str(public), start=start, body=body)
    done = subprocess.run(
        [SYSTEM_PYTHON, "-B", "-c", text],
        user=ORDINARY_UID,
        group=ORDINARY_UID,
        extra_groups=[],
        env={"PATH": "/usr/bin:/bin", "WMRL_TOKEN": CANARY},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd="/",
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


both_starts = pytest.mark.parametrize("start", ["fresh", "warm"])


@both_starts
def test_honest_script(public: Path, start: str) -> None:
    body = """
result = run("import os; print(os.getuid()); open(SUBMISSION_PATH, 'w').write(open(DATA_DIR + '/train.csv').read())")
assert (result.status, result.stdout, result.submission) == ("ok", "1000\\n", b"id\\n1\\n"), result
print(result.memory_limited_by)
"""
    assert as_ordinary_user(public, body, start).strip() in ("RLIMIT_AS and watchdog", "cgroup v2")


@both_starts
def test_no_privilege_and_no_secret(public: Path, start: str) -> None:
    script = f"""
import ctypes, glob, os
status = dict(line.split(":", 1) for line in open("/proc/self/status").read().splitlines())
assert int(status["CapEff"], 16) == int(status["CapPrm"], 16) == 0 and int(status["NoNewPrivs"]) == 1
libc = ctypes.CDLL(None)
assert libc.unshare(0x10000000) == -1 and libc.mount(b"x", b"/scratch", b"tmpfs", 0, None) == -1
for name in glob.glob("/proc/*/environ"):
    assert {CANARY!r} not in open(name).read()
assert not os.path.exists({str(public)!r})
open(SUBMISSION_PATH, "w").write("reached the end")
"""
    body = f"result = run({script!r})\nassert result.submission == b'reached the end', result"
    as_ordinary_user(public, body, start)


@both_starts
def test_deadline_fork_bomb_memory_and_links(public: Path, start: str) -> None:
    bomb = "import os\nwhile True:\n    try:\n        os.fork()\n    except OSError:\n        pass"
    spread = "import os, time\nfor _ in range(4):\n    if os.fork() == 0: x = os.urandom(150 * 2**20)\ntime.sleep(60)"
    body = f"""
import time
assert run("").status == "ok"
begin = time.monotonic()
assert run({bomb!r}, processes=20, wall_seconds=1.0).status == "timeout"
assert run({spread!r}, memory_mb=300).status == "out_of_memory"
link = run("import os; os.symlink(DATA_DIR + '/train.csv', SUBMISSION_PATH)")
assert "symbolic link" in link.submission_problem
shut = run("import os; open(SUBMISSION_PATH, 'w').write('x'); os.chmod(SUBMISSION_PATH, 0)")
assert shut.submission is None and "Permission" in shut.submission_problem, shut
assert time.monotonic() - begin < 60  # without an end they would go on for ever
fds = len(os.listdir("/proc/self/fd"))
for _ in range(5):
    run("")
assert len(os.listdir("/proc/self/fd")) == fds
def alive():
    count = 0
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.stat("/proc/" + pid).st_uid == {ORDINARY_UID}:
                count += open("/proc/" + pid + "/stat").read().rpartition(")")[2].split()[0] != "Z"
        except OSError:  # it ended meanwhile
            pass
    return count

expected = 1 if {start!r} == "fresh" else 2  # this process, and the zygote
end = time.monotonic() + 20  # whoever watched over a script has reported its end, and is about to end itself
while alive() != expected and time.monotonic() < end:
    time.sleep(0.1)
assert alive() == expected
"""
    as_ordinary_user(public, body, start)


def test_unreadable_data_is_named_with_its_remedy(public: Path) -> None:
    public.chmod(0o700)
    body = """
try:
    run("")
except PermissionError as error:
    print(error)
"""
    said = as_ordinary_user(public, body)
    assert str(public) in said and "chmod -R a+rX" in said


@both_starts
def test_unseen_memory_and_faults_of_the_machine(public: Path, start: str) -> None:
    hoard = """
import ctypes, os, time
made = []
try:
    while len(made) < 9:
        made.append(os.memfd_create("x"))
        os.write(made[-1], bytes(60 * 2**20))
except OSError:
    pass
libc = ctypes.CDLL(None)
libc.shmat.restype = ctypes.c_void_p
for _ in range(9):
    kept = libc.shmget(0, 60 * 2**20, 0o1600)
    if kept >= 0:
        block = libc.shmat(kept, None, 0)
        ctypes.memset(ctypes.c_void_p(block), 1, 60 * 2**20)
        libc.shmdt(ctypes.c_void_p(block))
        made.append(kept)
time.sleep(0.3)
print(len(made))
"""
    body = f"""
import threading, time, signal
from wmrl_gym.execution import launch
result = run({hoard!r}, memory_mb=256)
assert result.memory_limited_by.startswith("cgroup") or result.stdout == "0\\n", result
for _ in range(2):
    assert run("import os; os.kill(os.getpid(), 9)").returncode == 137
results = []
thread = threading.Thread(target=lambda: results.append(run("import time; time.sleep(2)")))
thread.start()
while not launch._running:
    time.sleep(0.05)
time.sleep(0.5)
os.kill(next(iter(launch._running)).process.pid, signal.SIGKILL)
thread.join()
assert results[0].status == "infrastructure_error", results
"""
    as_ordinary_user(public, body, start)
