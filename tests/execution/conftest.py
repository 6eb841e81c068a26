"""Competition folders and sandboxes for tests with real processes."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from pathlib import Path

import pytest

from wmrl_gym.execution.sandbox import Sandbox, SandboxLimits

CANARY = "canary-7f3d5c"
MODES = ["fresh", "warm"]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Public folder of a competition whose answers lie next to it, as in MLE-Dojo's layout."""
    for part in ("public", "private"):
        (tmp_path / "data" / part).mkdir(parents=True)
    (tmp_path / "data/public/train.csv").write_text("id\n1\n2\n")
    (tmp_path / "data/private/test_answer.csv").write_text(CANARY)
    return tmp_path / "data/public"


@pytest.fixture(params=MODES)
def make_sandbox(request: pytest.FixtureRequest) -> Callable[..., Sandbox]:
    """Makes sandboxes with given limits, in each way of starting."""
    return lambda **limits: Sandbox(SandboxLimits(**{"wall_seconds": 10.0, **limits}), start=request.param)


@pytest.fixture
def sandbox(make_sandbox: Callable[..., Sandbox]) -> Sandbox:
    return make_sandbox()


@pytest.fixture
def mark() -> str:
    """A process name, inherited by children, by which processes are found again from outside."""
    return f"wt{secrets.token_hex(5)}"


def alive(mark: str) -> list[int]:
    """Host pids of the processes that carry a mark."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            name, state = Path(f"/proc/{pid}/comm").read_text().strip(), Path(f"/proc/{pid}/stat").read_text()
        except OSError:
            continue
        if name == mark and state.rpartition(")")[2].split()[0] != "Z":
            found.append(int(pid))
    return found
