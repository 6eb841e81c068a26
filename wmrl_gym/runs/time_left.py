"""How long the rest of a comparison will take, judged by what is done of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from wmrl_gym.runs.arms import Plan
from wmrl_gym.runs.records.metrics import read_metrics
from wmrl_gym.runs.records.run_directory import RunDirectory, during


def time_left(plan: Plan, directories: Mapping[tuple[str, int], RunDirectory]) -> float | None:
    """Seconds that the rest of the comparison will take, judged by what is done; None before anything is.

    Steps are judged by the arm's own steps, or by all steps while the arm has none; evaluations by their samples.
    """
    steps = {key: _step_seconds(directory) for key, directory in directories.items()}
    by_arm = {arm: [s for key, row in steps.items() if key[0] == arm for s in row] for arm in plan.arms}
    per_step = _mean([seconds for row in by_arm.values() for seconds in row])
    per_sample = _mean([s for directory in directories.values() for s in _sample_seconds(directory)])
    if per_step is None and per_sample is None:
        return None
    total = 0.0
    for (arm, seed), directory in directories.items():
        config = plan.config(arm, seed)
        count = config.algorithm.build().steps
        total += (_mean(by_arm[arm]) or per_step or 0.0) * max(count - len(steps[arm, seed]), 0)
        due = {during(s): config.evaluation.samples_during for s in range(count) if config.evaluation.is_due(s, count)}
        due["after"] = config.evaluation.samples
        samples = sum(samples for name, samples in due.items() if not (directory.path / f"{name}.json").is_file())
        total += (per_sample or 0.0) * samples
    return total


def _step_seconds(directory: RunDirectory) -> list[float]:
    return [
        sum(value or 0.0 for name, value in record.items() if name.startswith("seconds/"))
        for record in read_metrics(directory.metrics_file)
    ]


def _sample_seconds(directory: RunDirectory) -> list[float]:
    """Seconds of each evaluation so far, for one episode of every task."""
    ends = (directory.read_json(f"{when}.json") for when in ("before", "after"))
    made = [*ends, *directory.evaluations_during().values()]
    return [result["seconds"] / result["samples"] for result in made if result is not None]


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None
