"""The table at the end of a run, made from what lies in the run's folder."""

from __future__ import annotations

from typing import Any

from wmrl_gym.reporting.table import Cost, FinalTable, LanguageModelCost, quantities_of, tasks_without_result
from wmrl_gym.runs.training import TrainingRun


def final_table(run: TrainingRun) -> FinalTable:
    """What the agent could before and after, and what it cost."""
    config, directory = run.config, run.directory
    settings = config.algorithm.build()
    before, after = (directory.read_json(f"{when}.json") for when in ("before", "after"))
    domain = run.domain
    measures = quantities_of(domain.measure, before, after, domain.categories, domain.success_status)
    title = f"{config.experiment_name}, seed {config.seed}, {settings.steps} steps"
    records = run.metrics()
    trajectories = settings.groups_per_step * settings.group_size
    seconds = _seconds(records)
    on_the_way = list(directory.evaluations_during().values())
    for when, results in (("before", [before]), ("during", on_the_way), ("after", [after])):
        if any(results):
            seconds[f"evaluation {when}"] = sum(result["seconds"] for result in results if result)
    cost = Cost(
        trajectories=trajectories * len(records),
        executed_trajectories=round(sum(trajectories * (record["executed_share"] or 0.0) for record in records)),
        executions=round(sum(record["executions"] or 0.0 for record in records)),
        seconds=seconds,
        language_model=LanguageModelCost.from_records(records),
    )
    left_out = tasks_without_result(before, after)
    return FinalTable(title, config.evaluation.samples, tuple(measures), cost, left_out)


def _seconds(records: list[dict[str, Any]]) -> dict[str, float]:
    seconds: dict[str, float] = {}
    for record in records:
        for key, value in record.items():
            if key.startswith("seconds/") and value is not None:
                name = key.removeprefix("seconds/")
                seconds[name] = seconds.get(name, 0.0) + value
    return seconds
