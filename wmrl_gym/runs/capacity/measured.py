"""The capacity of a run that was made: what its steps asked for, and what they cost."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from wmrl_gym.configs.capacity_schema import Capacity
from wmrl_gym.configs.schema import LOCAL_EXECUTOR, TrainConfig
from wmrl_gym.runs.records.metrics import read_metrics
from wmrl_gym.runs.records.run_directory import RunDirectory


def capacity_of_run(path: str | Path, first_step: int = 1) -> Capacity:
    """Fit every cost to the records of a run, so that the simulation repeats it and can be asked "what if?".

    Args:
        path: the run's folder.
        first_step: steps before it are left out, for they hold what is done once (if there are later ones).

    Raises:
        FileNotFoundError: if the folder is not a run's.
        ValueError: if it has no finished step, no world model or no executions, so that their cost is unknown; or if
            it is not known how many workers it had.
    """
    directory = RunDirectory.open(Path(path))
    config = TrainConfig.from_mapping(directory.config())
    records = read_metrics(directory.metrics_file)
    records = [record for record in records if record["step"] >= first_step] or records
    if not records:
        raise ValueError(f"{directory.path} has no finished step: give a run that trained at least one")
    if config.world_model is None:
        raise ValueError(f"{directory.path} had no world model, so a prediction's cost is unknown: give one that had")
    settings, anchors = config.algorithm.build(), config.proxy.build().anchors
    return fitted(
        records,
        steps=settings.steps,
        groups_per_step=settings.groups_per_step,
        group_size=settings.group_size,
        slots=_slots(config),
        mode=config.execution.mode,
        anchor_fraction=anchors.fraction,
        anchors_per_step=anchors.min_per_step,
        execution_spread=_spread(directory.ledger_file),
    )


def _slots(config: TrainConfig) -> int:
    """How many executions went on at the same time."""
    elsewhere = config.execution.executor.target != LOCAL_EXECUTOR
    if elsewhere and config.execution.max_workers is None:
        raise ValueError(
            "the run had as many workers as its cluster could hold, and it was not recorded how many\n"
            "  set execution.max_workers in its config.yaml to what it was."
        )
    return config.execution.max_workers or 1


def fitted(records: Sequence[Mapping[str, Any]], **workload: Any) -> Capacity:
    """Costs from the records of steps; see `capacity_of_run`.

    Args:
        records: metrics of each step, as `WMRLGRPO.step` gives them.
        workload: fields of `Capacity` that records do not hold.

    Raises:
        ValueError: if the records do not count turns, or nothing was executed.
    """
    if any(record.get("turns") is None for record in records):
        raise ValueError("the run's records do not say how many turns its episodes had: make one with this version")
    trajectories = len(records) * workload["groups_per_step"] * workload["group_size"]
    tokens = trajectories / len(records) * sum(r["turns"] * (r["tokens_per_turn"] or 0.0) for r in records)
    # The simulation counts whole turns: costs are spread over them so that their sums stay what they were.
    turns = max(1, round(sum(record["turns"] for record in records) / len(records)))
    executed_turns = trajectories / len(records) * sum(r["executed_share"] or 0.0 for r in records) * turns
    if not executed_turns:
        raise ValueError("nothing was executed, so the cost of an execution is unknown: give a run that has anchors")
    return Capacity(
        turns=turns,
        tokens_per_turn=tokens / (trajectories * turns),
        tokens_spread=0.0,
        generation_tokens_per_second=tokens / _seconds(records, "generate"),
        prediction_seconds=_seconds(records, "predict") / (trajectories * turns),
        execution_seconds=sum(record["executed_seconds"] or 0.0 for record in records) / executed_turns,
        update_tokens_per_second=tokens / _seconds(records, "update"),
        other_seconds=(_seconds(records, "score") + _seconds(records, "record")) / len(records),
        **workload,
    )


def _seconds(records: Sequence[Mapping[str, Any]], stage: str) -> float:
    """Seconds of a stage in all steps; never quite 0, for it divides."""
    return max(sum(float(record.get(f"seconds/{stage}") or 0.0) for record in records), 1e-9)


def _spread(ledger: Path) -> float:
    """Standard deviation over mean of what the anchors' trajectories took to execute; 0 if hardly any was."""
    lines = ledger.read_text(encoding="utf-8").splitlines() if ledger.is_file() else []
    seconds = np.array([json.loads(line)["seconds"] for line in lines], float)
    return float(seconds.std(ddof=1) / seconds.mean()) if seconds.size > 1 and seconds.mean() > 0 else 0.0
