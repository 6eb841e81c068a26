"""The folder of one run: what was asked for, on what, and what came of it."""

from __future__ import annotations

import datetime
import fcntl
import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import Any

import yaml

_RECORDED = (
    "gymnasium", "hydra-core", "numpy", "pandas", "peft", "scikit-learn", "tokenizers", "torch", "transformers",
    "wmrl-gym",
)  # fmt: skip


class DamagedRun(ValueError):
    """A file of a run's folder cannot be read."""


class RunInUse(RuntimeError):
    """Another process works on the same run."""


def during(step: int) -> str:
    """Name of the evaluation that is made when so many steps are done."""
    return f"during-{step:06d}"


class RunDirectory:
    """``runs/<experiment>-<timestamp>-s<seed>/`` and the names of what lies in it.

    Args:
        path: the folder.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def create(cls, root: Path, experiment: str, seed: int, config: Mapping[str, Any]) -> RunDirectory:
        """Make a new folder and write the resolved configuration and the circumstances into it."""
        stamp = datetime.datetime.now().strftime("%Y%m%d-%H%M%S")
        base = f"{experiment}-{stamp}-s{seed}"
        for attempt in range(1, 1000):
            path = root / (base if attempt == 1 else f"{base}-{attempt}")
            try:
                path.mkdir(parents=True)
                break
            except FileExistsError:
                continue  # two runs of the same second
        return cls(path)._begin(seed, config)

    @classmethod
    def at(cls, path: Path, seed: int, config: Mapping[str, Any]) -> RunDirectory:
        """The run in exactly this folder, begun if it is not there; an old one keeps its own configuration."""
        run = cls(path)
        path.mkdir(parents=True, exist_ok=True)
        return run if run.config_file.is_file() else run._begin(seed, config)

    def _begin(self, seed: int, config: Mapping[str, Any]) -> RunDirectory:
        write_atomically(self.path / "circumstances.json", json.dumps(circumstances(seed), indent=2))
        write_atomically(self.config_file, yaml.safe_dump(dict(config), sort_keys=False, allow_unicode=True))
        return self

    @classmethod
    def open(cls, path: Path) -> RunDirectory:
        """An existing run's folder.

        Raises:
            FileNotFoundError: if it is not one.
        """
        run = cls(path)
        if not run.config_file.is_file():
            what = "it has no config.yaml" if path.is_dir() else "there is no such folder"
            raise FileNotFoundError(
                f"'{path}' is not a run directory: {what}\n"
                "  give the folder a run printed at its start, for example runs/quickstart-20260102-030405-s0"
            )
        return run

    @property
    def config_file(self) -> Path:
        """The resolved configuration."""
        return self.path / "config.yaml"

    @property
    def metrics_file(self) -> Path:
        """One JSON object per step."""
        return self.path / "metrics.jsonl"

    @property
    def ledger_file(self) -> Path:
        """The pairs of predicted and executed scores."""
        return self.path / "ledger.jsonl"

    @property
    def trajectories_file(self) -> Path:
        """What the agent wrote, compressed."""
        return self.path / "trajectories.jsonl.gz"

    @property
    def checkpoints(self) -> Path:
        """The trainer's checkpoints."""
        return self.path / "checkpoints"

    @property
    def tensorboard(self) -> Path:
        """TensorBoard's event files."""
        return self.path / "tensorboard"

    def config(self) -> dict[str, Any]:
        """The resolved configuration, read back."""
        try:
            loaded = yaml.safe_load(self.config_file.read_text(encoding="utf-8"))
        except (yaml.YAMLError, UnicodeDecodeError) as error:
            raise DamagedRun(f"'{self.config_file}' is not YAML: {error}") from error
        if not isinstance(loaded, dict):
            raise DamagedRun(f"'{self.config_file}' holds no configuration: put back the one the run was started with")
        return loaded

    def write_json(self, name: str, data: Any) -> Path:
        """Write plain data as `name`."""
        write_atomically(self.path / name, json.dumps(data, indent=2))
        return self.path / name

    def read_json(self, name: str) -> Any:
        """Plain data written before, or None."""
        file = self.path / name
        try:
            return json.loads(file.read_text(encoding="utf-8")) if file.is_file() else None
        except ValueError as error:
            raise DamagedRun(
                f"'{file}' is not JSON: {error}\n  remove it, and what it told is found out anew"
            ) from error

    def evaluations_during(self) -> dict[int, Any]:
        """The evaluations made in mid-training, by the number of steps done."""
        names = {file.name: int(file.stem.removeprefix("during-")) for file in self.path.glob("during-*.json")}
        return {step: self.read_json(name) for name, step in sorted(names.items(), key=lambda item: item[1])}

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Inside this block no other process works on this run. The lock goes with the process, however it ends.

        Raises:
            RunInUse: if one does.
        """
        with locked(self.path / ".lock", self.path):
            yield


@contextmanager
def locked(file: Path, work: Path) -> Iterator[None]:
    """Inside this block no other process holds the lock ``file``, and so none works on ``work``.

    The file stays behind, unlocked. Programs that are started inside do not inherit the lock. A forked child does: if
    this process is killed, it keeps the lock until it ends, too.

    Raises:
        RunInUse: if one does.
    """
    with file.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise RunInUse(
                f"another process works on '{work}'\n  wait until it has ended, or stop it first."
            ) from error
        try:
            yield
        finally:
            fcntl.flock(lock, fcntl.LOCK_UN)  # closing alone would leave it to forked children


def write_atomically(path: Path, text: str) -> None:
    """Write a file so that a reader, or a resumed run, sees all of it or none of it."""
    temporary = path.with_name(path.name + ".tmp")
    temporary.write_text(text, encoding="utf-8")
    os.replace(temporary, path)


def circumstances(seed: int) -> dict[str, Any]:
    """Seed, versions, git state and machine, as plain data."""
    return {
        "seed": seed,
        "started": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "command": sys.argv,
        "versions": versions(_RECORDED),
        "git": git_state(Path(__file__).parent),
    }


def versions(names: tuple[str, ...]) -> dict[str, str | None]:
    """Installed version of each distribution, or None."""
    found: dict[str, str | None] = {}
    for name in names:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = None
    return found


def git_state(directory: Path) -> dict[str, Any] | None:
    """Commit and changed files of the checkout around `directory`; None outside of one."""

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(directory), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout

    try:
        commit = git("rev-parse", "HEAD").strip()
        changed = git("status", "--porcelain").splitlines()
    except (OSError, subprocess.SubprocessError):
        return None
    return {"commit": commit, "changed": changed}
