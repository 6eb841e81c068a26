"""A run's folder, read as far as it can be read: what is missing is said, what is broken off is used up to there."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from wmrl_gym.runs.records.run_directory import RunDirectory
from wmrl_gym.runs.records.trajectories import RecordedTrajectories, read_trajectories

Record = dict[str, Any]


@dataclass(frozen=True, eq=False)
class RecordedRun:
    """What one run left behind."""

    name: str
    """Its folder's name, made unique among the runs of a report."""
    experiment: str
    seed: int | None
    config: Record
    metrics: list[Record]
    """One record per step, in order of the steps."""
    pairs: list[Record]
    """The ledger."""
    recorded: RecordedTrajectories
    table: Record | None
    """The final table; None if the run has not ended."""
    evaluations: dict[str, Record] = field(default_factory=dict)
    """The held-out evaluations that are there, by "before" and "after"."""
    notes: tuple[str, ...] = ()
    """What is missing or broken, in sentences."""


def load_runs(paths: Sequence[Path]) -> list[RecordedRun]:
    """Read the folders of runs.

    Raises:
        FileNotFoundError: if one is not a run's folder.
        ValueError: if a configuration cannot be read, a folder is named twice, or none of the runs has done anything.
    """
    resolved = [path.resolve() for path in paths]
    for index, path in enumerate(resolved):
        if path in resolved[:index]:
            raise ValueError(f"run '{paths[index]}' is named twice: name each run once")
    runs: list[RecordedRun] = []
    for path in paths:
        runs.append(_load(path, {run.name for run in runs}))
    if not any(run.metrics or run.evaluations or run.recorded.trajectories for run in runs):
        raise ValueError(
            f"there is nothing to report yet: {', '.join(map(str, paths))} holds neither a finished step nor an "
            "evaluation\n  wait for the first step, or resume the run with wmrl train resume=<run>"
        )
    return runs


def _load(path: Path, taken: set[str]) -> RecordedRun:
    directory = RunDirectory(path)
    config = _config(directory)
    notes: list[str] = []
    metrics = _by_step(_json_lines(directory.metrics_file, notes))
    pairs = [pair for pair in _json_lines(directory.ledger_file, notes) if _is_pair(pair)]
    recorded = read_trajectories(directory.trajectories_file)
    if recorded.problem:
        notes.append(f"{recorded.problem}; what stands before is shown.")
    elif not recorded.trajectories:
        notes.append(
            "No trajectories were recorded, so there are no scripts to look at (logger.trajectories=all records them)."
        )
    parts = {name: _json_file(path / f"{name}.json", notes) for name in ("table", "before", "after")}
    if not metrics:
        notes.append("It has not finished a step.")
    if parts["table"] is None:
        notes.append("It has no final table: it has not ended.")
    name = path.resolve().name
    while name in taken:
        name += "'"
    seed = config.get("seed")
    return RecordedRun(
        name=name,
        experiment=str(config.get("experiment_name") or "train"),
        seed=seed if isinstance(seed, int) else None,
        config=config,
        metrics=metrics,
        pairs=pairs,
        recorded=recorded,
        table=parts["table"],
        evaluations={when: data for when in ("before", "after") if (data := parts[when]) is not None},
        notes=tuple(notes),
    )


def _config(directory: RunDirectory) -> Record:
    path = directory.path
    if not directory.config_file.is_file():
        inner = sorted(file.parent for file in path.glob("*/config.yaml")) if path.is_dir() else []
        hint = "give the folder a run printed at its start, for example runs/quickstart-20260102-030405-s0"
        if inner:
            hint = f"it holds {len(inner)} of them: wmrl report {path}/*"
        what = "there is no such folder" if not path.exists() else "it has no config.yaml"
        raise FileNotFoundError(f"'{path}' is not a run directory: {what}\n  {hint}")
    try:
        config = yaml.safe_load(directory.config_file.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ValueError(
            f"{directory.config_file} cannot be read: {str(error).splitlines()[0]}\n"
            "  restore the file, or leave this run out."
        ) from error
    if not isinstance(config, dict):
        raise ValueError(f"{directory.config_file} holds no settings\n  restore the file, or leave this run out.")
    return config


def _json_lines(path: Path, notes: list[str]) -> list[Record]:
    """The records of a file up to the first line that is none: a kill in mid-write leaves such a line at the end."""
    if not path.is_file():
        return []
    records: list[Record] = []
    for number, line in enumerate(path.read_bytes().splitlines(), start=1):
        try:
            record = json.loads(line)
        except ValueError:  # broken JSON and broken UTF-8 alike
            record = None
        if not isinstance(record, dict):
            notes.append(f"{path.name} breaks off in line {number}; what stands before is shown.")
            break
        records.append(record)
    return records


def _json_file(path: Path, notes: list[str]) -> Record | None:
    if not path.is_file():
        return None
    try:
        data = json.loads(path.read_bytes())
    except ValueError:
        data = None
    if not isinstance(data, dict):
        notes.append(f"{path.name} cannot be read and is left out.")
        return None
    return data


def _by_step(records: list[Record]) -> list[Record]:
    """One record per step, the newest of each."""
    steps = {record["step"]: record for record in records if isinstance(record.get("step"), int)}
    return [steps[step] for step in sorted(steps)]


def _is_pair(pair: Record) -> bool:
    return isinstance(pair.get("step"), int) and all(
        isinstance(pair.get(name), int | float) for name in ("predicted", "executed")
    )
