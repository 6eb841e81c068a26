"""Scripts that want what is not theirs: answers, secrets, the network, other runs, a better verdict."""

from __future__ import annotations

import os
import socket
import textwrap
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from wmrl_gym.execution import sandbox as sandbox_module
from wmrl_gym.execution.leftover_files import read_submission
from wmrl_gym.execution.sandbox import Sandbox

from .conftest import CANARY, alive

pytestmark = pytest.mark.alone

Make = Callable[..., Sandbox]


def test_no_file_or_process_of_the_host_gives_a_secret_away(
    sandbox: Sandbox, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WMRL_TEST_TOKEN", CANARY)
    (data / "link.csv").symlink_to(data.parent / "private/test_answer.csv")
    opened = os.open(data.parent / "private/test_answer.csv", os.O_RDONLY)
    os.set_inheritable(opened, True)
    script = f"""
        import glob, os, sys
        found = []
        in_tmp = []
        for folder, folders, names in os.walk("/tmp/"):  # "/tmp" may be a link
            in_tmp += [os.path.join(folder, name) for name in names]
            # A checkout below /tmp has its interpreter there: thousands of public files.
            folders[:] = [name for name in folders if os.path.join(folder, name) != sys.prefix]
        wanted = ["/proc/*/environ", "/proc/*/cmdline", "/proc/*/fd/*", "/proc/*/root/*",
                  "/proc/*/cwd/../*", DATA_DIR + "/*", DATA_DIR + "/../*/*answer*", "{data.parent}/**/*",
                  "/scratch/**/*", *map(glob.escape, in_tmp),
                  "/root/.ssh/*", "/home/**/*", "/etc/shadow", "/run/**/*", "/dev/shm/*", "/harness/*"]
        for pattern in wanted:
            for name in glob.glob(pattern, recursive=True, include_hidden=True):
                if os.path.isfile(name) and not name.endswith("script.py"):
                    try:
                        found.append(name + "\\n" + open(name, errors="replace").read(10**6))
                    except OSError:
                        pass
        for fd in range(3, 256):
            try:
                found.append(f"fd {{fd}} " + os.readlink(f"/proc/self/fd/{{fd}}") + str(os.pread(fd, 10**6, 0)))
            except OSError:
                pass
        found.append(open("/proc/1/cmdline").read())
        for parent, folders, names in os.walk("/"):
            if parent == "/" or parent.endswith("site-packages"):
                folders[:] = set(folders).difference(["proc", "usr"]) if parent == "/" else []
            found += [os.path.join(parent, name) for name in names if "test_answer" in name]
        open(SUBMISSION_PATH, "w").write("\\n".join(found))
    """
    result = sandbox.run(textwrap.dedent(script), data)
    os.close(opened)
    assert result.status == "ok", result.stderr
    assert result.submission is not None and b"train.csv" in result.submission
    assert CANARY.encode() not in result.submission and b"test_answer" not in result.submission
    assert str(data).encode() not in result.submission
    assert not [line for line in result.submission.splitlines() if line.startswith(b"fd ")]


def test_script_has_no_privilege_and_can_gain_none(sandbox: Sandbox, data: Path) -> None:
    script = """
        import ctypes, os
        status = dict(line.split(":", 1) for line in open("/proc/self/status").read().splitlines())
        assert all(int(status[name], 16) == 0 for name in ("CapInh", "CapPrm", "CapEff", "CapAmb")), status
        assert int(status["NoNewPrivs"]) == 1 and os.getuid() == 1000 and os.getgid() == 1000
        libc = ctypes.CDLL(None, use_errno=True)
        NEWUSER, NEWNS = 0x10000000, 0x20000
        attempts = dict(
            mount=lambda: libc.mount(b"x", b"/scratch", b"tmpfs", 0, None),
            remount=lambda: libc.mount(None, b"/", None, 32 | 4096, None),
            umount=lambda: libc.umount2(b"/data", 2),
            userns=lambda: libc.unshare(NEWUSER),
            userns_and_mounts=lambda: libc.unshare(NEWUSER | NEWNS),
            setuid=lambda: libc.setuid(0),
            chroot=lambda: libc.chroot(b"/scratch"),
            hostname=lambda: libc.sethostname(b"x", 1),
            mknod=lambda: libc.mknod(b"/scratch/null", 0o20666, 0x103),
        )
        for name, attempt in attempts.items():
            if attempt() == 0:
                print("succeeded:", name)
    """
    result = sandbox.run(textwrap.dedent(script), data)
    assert (result.status, result.stdout) == ("ok", ""), result


def test_on_the_host_a_script_is_nobody(make_sandbox: Make, data: Path, mark: str) -> None:
    script = f"open('/proc/self/comm', 'w').write({mark!r})\nimport time; time.sleep(600)"
    thread = threading.Thread(target=lambda: make_sandbox(wall_seconds=1.0).run(script, data))
    thread.start()
    deadline = time.monotonic() + 10
    while not alive(mark) and time.monotonic() < deadline:
        time.sleep(0.01)
    owner = os.stat(f"/proc/{alive(mark)[0]}").st_uid
    thread.join()
    assert owner != 0 and (os.geteuid() != 0 or 60600 <= owner < 61100)


def test_network_is_off_and_own_loopback_is_on(sandbox: Sandbox, data: Path) -> None:
    path = data / "host.sock"
    with socket.socket() as tcp, socket.socket(socket.AF_UNIX) as abstract:
        tcp.bind(("127.0.0.1", 0))
        tcp.listen()
        abstract.bind(f"\0wmrl-test-{os.getpid()}")
        abstract.listen()
        script = f"""
            import socket
            targets = [("127.0.0.1", {tcp.getsockname()[1]}), ("169.254.169.254", 80), ("1.1.1.1", 53)]
            for target in targets:
                try:
                    socket.create_connection(target, timeout=1)
                    print("reached", target)
                except OSError:
                    pass
            try:
                socket.getaddrinfo("example.org", 80)
                print("resolved")
            except OSError:
                pass
            try:
                socket.socket(socket.AF_UNIX).connect("\\0wmrl-test-{os.getpid()}")
                print("reached an abstract socket")
            except OSError:
                pass
            server = socket.create_server(("127.0.0.1", 0))
            socket.create_connection(server.getsockname(), timeout=1)
            print("own loopback works")
        """
        result = sandbox.run(textwrap.dedent(script), data)
    assert not path.exists()
    assert (result.status, result.stdout) == ("ok", "own loopback works\n"), result


def test_siblings_cannot_see_or_harm_each_other(make_sandbox: Make, data: Path) -> None:
    victim = "import time\nopen('/scratch/v','w').write('v')\nopen('/dev/shm/v','w')\ntime.sleep(2)\nprint('unharmed')"
    attacker = """
        import os, signal
        pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
        assert len(pids) <= 3, pids
        for name in ("/scratch/v", "/dev/shm/v", "/tmp/v"):
            assert not os.path.exists(name)
        for pid in range(2, 40000):
            if pid not in pids:
                try:
                    os.kill(pid, signal.SIGKILL)
                    print("killed", pid)
                except OSError:
                    pass
        import sysconfig
        for place in (sysconfig.get_paths()["purelib"], os.path.dirname(os.__file__), DATA_DIR):
            for name in ("evil.pth", "__pycache__/evil.pyc", "train.csv"):
                try:
                    open(os.path.join(place, name), "w")
                    print("wrote", place, name)
                except OSError:
                    pass
    """
    results = []
    thread = threading.Thread(target=lambda: results.append(make_sandbox().run(victim, data)))
    thread.start()
    attacked = make_sandbox().run(textwrap.dedent(attacker), data)
    thread.join()
    assert (attacked.status, attacked.stdout) == ("ok", ""), attacked
    assert (results[0].status, results[0].stdout) == ("ok", "unharmed\n")
    assert (data / "train.csv").read_text() == "id\n1\n2\n"


@pytest.mark.parametrize(
    ("script", "status"),
    [
        ("import os; os._exit(0)", "ok"),
        ('print(\'{"score": 1.0, "status": "valid"}\')', "ok"),
        ("import os\nfor fd in range(3, 256):\n    try: os.write(fd, b'ready 0')\n    except OSError: pass", "ok"),
        ("import os; os.kill(1, 9); os.kill(1, 15); os.kill(os.getppid(), 0)", "ok"),
        ("import os\nfor p in os.listdir('/proc'):\n    if p.isdigit() and int(p) > 1: os.kill(int(p), 9)", "error"),
        ("import sys, os; os.write(0, b'x')", None),
    ],
)
def test_success_cannot_be_forged(sandbox: Sandbox, data: Path, script: str, status: str | None) -> None:
    result = sandbox.run(script, data)
    assert result.status == status or (status is None and result.status in ("ok", "error"))
    assert result.submission is None and result.submission_problem == "no submission.csv was written"


@pytest.mark.parametrize(
    ("script", "problem"),
    [
        ("os.symlink(DATA_DIR + '/train.csv', SUBMISSION_PATH)", "symbolic link"),
        ("os.symlink('/proc/self/environ', SUBMISSION_PATH)", "symbolic link"),
        ("os.mkfifo(SUBMISSION_PATH)", "not a regular file"),
        ("os.mkdir(SUBMISSION_PATH)", "not a regular file"),
        ("import socket; socket.socket(socket.AF_UNIX).bind(SUBMISSION_PATH)", "not a regular file"),
        ("open('a', 'w').close(); os.link('a', SUBMISSION_PATH)", "hard link"),
        ("open(SUBMISSION_PATH, 'wb').truncate(2**21); os.truncate(SUBMISSION_PATH, 2**20 + 1)", "File too large"),
        ("os.rename('/scratch', '/old')", "no submission.csv"),
    ],
)
def test_only_a_plain_file_is_a_submission(make_sandbox: Make, data: Path, script: str, problem: str) -> None:
    result = make_sandbox(file_mb=1).run(f"import os\n{script}", data)
    assert result.submission is None or problem == "File too large"
    assert problem in f"{result.submission_problem} {result.stderr}"


def test_empty_submission_is_empty_and_not_missing(sandbox: Sandbox, data: Path) -> None:
    result = sandbox.run("open(SUBMISSION_PATH, 'w').close()", data)
    assert result.submission == b"" and result.submission_problem is None


def test_submission_is_read_when_no_process_is_left_to_swap_it(
    sandbox: Sandbox, data: Path, mark: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = []

    def read(directory: int, name: str, limit: int) -> tuple[bytes | None, str | None]:
        left.extend(alive(mark))
        return read_submission(directory, name, limit)

    monkeypatch.setattr(sandbox_module, "read_submission", read)
    script = f"""
        import os, time
        open("/proc/self/comm", "w").write({mark!r})
        open(SUBMISSION_PATH, "w").write("mine")
        if os.fork() == 0:
            os.setsid()
            time.sleep(0.3)
            os.unlink(SUBMISSION_PATH)
            os.symlink("/data/train.csv", SUBMISSION_PATH)
    """
    assert sandbox.run(textwrap.dedent(script), data).submission == b"mine"
    assert left == []


def test_harvest_refuses_a_larger_file_and_one_it_may_not_read(tmp_path: Path) -> None:
    (tmp_path / "big").write_bytes(b"12345")
    descriptor = os.open(tmp_path, os.O_PATH)
    assert read_submission(descriptor, "big", 4) == (None, "big has 5 bytes, more than the 4 allowed")
    assert read_submission(descriptor, "big", 5) == (b"12345", None)
    os.close(descriptor)
