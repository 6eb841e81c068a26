"""``wmrl evaluate``: an agent on held-out tasks; and the evaluations before and after a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from wmrl_gym.algorithms.checkpoint import load_latest_checkpoint
from wmrl_gym.algorithms.evaluation import Evaluation
from wmrl_gym.algorithms.evaluation import evaluate as evaluate_policy
from wmrl_gym.cli.assembly import Domain, executor_for, prepare_torch
from wmrl_gym.configs.schema import EvaluateConfig, EvaluationConfig, TasksConfig, TrainConfig
from wmrl_gym.core import Executor
from wmrl_gym.reporting.progress import duration
from wmrl_gym.reporting.run_directory import RunDirectory
from wmrl_gym.reporting.table import measures_of


def evaluate(config: EvaluateConfig) -> int:
    """Measure an agent and print the result task by task."""
    run = None if config.run is None else RunDirectory.open(config.run)
    if run is not None:
        trained = TrainConfig.from_mapping(run.config())
        config = replace(config, env=trained.env, tasks=trained.tasks, policy=trained.policy)
    prepare_torch(config.threads)
    console = Console()
    domain = Domain(config.env, config.tasks)
    policy = config.policy.build()
    checkpoint = None
    if run is not None:
        checkpoint, state = _newest_checkpoint(run)
        policy.load_state_dict(state["policy"])
        console.print(f"agent of {checkpoint}", highlight=False)
    with executor_for(config.execution, domain) as executor:
        result = evaluate_held_out(policy, domain, executor, config.evaluation, config.seed)
    _print(result, config.tasks, domain.categories, console)
    if run is not None and checkpoint is not None:
        run.write_json(f"evaluation-{checkpoint.name}-s{config.seed}.json", as_data(result))
    return 0


def evaluate_held_out(
    policy: Any, domain: Domain, executor: Executor, config: EvaluationConfig, seed: int
) -> Evaluation:
    """Play the held-out tasks, everything executed."""
    return evaluate_policy(
        policy,
        domain.env_fns(domain.held_out, len(domain.held_out) * config.samples),
        domain.held_out,
        executor=executor,
        samples=config.samples,
        temperature=config.temperature,
        seed=seed,
        reset_options=domain.reset_options,
    )


def as_data(result: Evaluation) -> dict[str, Any]:
    """An evaluation as plain data, with the values that a table needs."""
    return {**result.to_dict(), "scores": result.scores(), "valid": result.valid()}


def _newest_checkpoint(run: RunDirectory) -> tuple[Path, dict[str, Any]]:
    newest = load_latest_checkpoint(run.checkpoints)
    if newest is None:
        raise FileNotFoundError(
            f"'{run.path}' has no checkpoint yet\n"
            "  wait for its first one, or evaluate the untrained agent without run="
        )
    return newest


def _print(result: Evaluation, tasks: TasksConfig, categories: Mapping[str, str] | None, console: Console) -> None:
    columns = {tasks.measure: result.scores()}
    if tasks.measure == "percentile":
        columns["valid"] = result.valid()
    table = Table(title=f"held-out, avg@{result.samples}", title_justify="left", box=box.SIMPLE_HEAVY)
    table.add_column("task")
    for heading in columns:
        table.add_column(heading, justify="right")
    for task in result.scores():
        rows = [values[task] for values in columns.values()]
        table.add_row(task, *(f"{sum(row) / len(row):.1%}" if row else "-" for row in rows))
    console.print(table)
    for measure in measures_of(tasks.measure, None, as_data(result), categories):
        if measure.after is not None:
            bounds = f"{measure.after.low:.1%} to {measure.after.high:.1%}"
            console.print(
                f" mean {measure.name}: {measure.after.estimate:.1%} (95 % interval {bounds})", highlight=False
            )
    console.print(
        f" {result.executions} executions in {duration(result.seconds)}, {result.unknown} episodes without a result",
        highlight=False,
    )
