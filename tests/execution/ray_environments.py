"""Environments for workers on other machines, and small clusters of several machines in one."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from wmrl_gym.core import DataFolder, ExpensiveRewardEnv, Outcome, Submission

STORE = 80 * 2**20
REFUSED = "WMRL_TEST_REFUSED"


class ScriptedEnv(ExpensiveRewardEnv[Any, Any]):
    """Does what the submission says, and leaves a line in a file for each execution."""

    def __init__(self, journal: str) -> None:
        self.journal = journal

    def preflight(self) -> None:
        if os.environ.get(REFUSED):
            raise RuntimeError("this machine cannot isolate scripts")

    def submit(self, action: Any) -> Submission:
        return Submission("task", action)

    def execute(self, submission: Submission) -> Outcome:
        name, *orders = submission.content
        with open(self.journal, "a") as file:
            file.write(f"{name} {os.getpid()}\n")
        for order in orders:
            if order == "raise":
                raise ValueError("no such column")
            if order == "exit":
                os._exit(3)
            if order == "strange":
                return 0.5  # type: ignore[return-value]
            if order == "untravelled":
                return Outcome(1.0, "valid", details={"thread": (piece for piece in ())})
            time.sleep(order)
        return Outcome(float(len(name)), "valid", details={"pid": os.getpid()})

    def advance(self, outcome: Outcome | None) -> Any:
        raise AssertionError("no episode is played")


class FileEnv(ExpensiveRewardEnv[Any, Any]):
    """Its outcome is the content of a file, which has to be there when the environment is made."""

    def __init__(self, folder: str | Path, travels: bool = True) -> None:
        self.folder, self.travels = Path(folder), travels
        (self.folder / "task" / "answer.txt").read_text()

    def data_digests(self) -> Mapping[str, str]:
        return {"task": (self.folder / "task" / "answer.txt").read_text()}

    def data_folders(self) -> Sequence[DataFolder]:
        return [DataFolder("folder", self.folder, ("task",))] if self.travels else []

    def submit(self, action: Any) -> Submission:
        return Submission("task", action)

    def execute(self, submission: Submission) -> Outcome:
        return Outcome(float((self.folder / "task" / "answer.txt").read_text()), "valid", str(self.folder))

    def advance(self, outcome: Outcome | None) -> Any:
        raise AssertionError("no episode is played")


class Machines:
    """A Ray cluster whose machines are processes here. The head executes nothing."""

    def __init__(self, cluster: Any) -> None:
        self.cluster = cluster
        self.address: str = cluster.address

    def add(self, num_cpus: int = 1, room: str = "", **variables: str) -> Any:
        """A machine, with environment variables of its own. Only who asks for its room comes there, if it has one."""
        resources = {room: num_cpus} if room else None
        return self.cluster.add_node(
            num_cpus=0 if room else num_cpus,
            resources=resources,
            object_store_memory=STORE,
            env_vars=variables or None,
        )

    def kill(self, node: Any) -> None:
        self.cluster.remove_node(node, allow_graceful=False)


@contextlib.contextmanager
def machines(count: int) -> Iterator[Machines]:
    """A cluster of a head and `count` machines with one CPU each."""
    pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_AUTH_MODE", "disabled")
        head = {"num_cpus": 0, "include_dashboard": False, "object_store_memory": STORE}
        made = Machines(Cluster(initialize_head=True, head_node_args=head))
        try:
            for _ in range(count):
                made.add()
            yield made
        finally:
            made.cluster.shutdown()


def journal_lines(path: Path | str, count: int, seconds: float = 20.0) -> list[tuple[str, int]]:
    """Name and process of each execution, as soon as there are `count`."""
    deadline = time.monotonic() + seconds
    while True:
        text = Path(path).read_text() if Path(path).exists() else ""
        lines = [(line.split()[0], int(line.split()[1])) for line in text.splitlines()]
        if len(lines) >= count or time.monotonic() > deadline:
            return lines
        time.sleep(0.05)
