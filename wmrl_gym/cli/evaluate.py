"""``wmrl evaluate``: an agent on held-out tasks; and the evaluations before and after a run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

from wmrl_gym.algorithms.checkpoint import load_latest_checkpoint
from wmrl_gym.algorithms.evaluation import Evaluation, turn_values
from wmrl_gym.algorithms.evaluation import evaluate as evaluate_policy
from wmrl_gym.cli.assembly import Domain, executor_for, prepare_torch
from wmrl_gym.cli.output_folder import make_output_folder
from wmrl_gym.configs.schema import EVALUATION_TEMPERATURE, EvaluateConfig, EvaluationConfig, TasksConfig, TrainConfig
from wmrl_gym.configs.validation import ConfigError
from wmrl_gym.core import Executor, Trajectory
from wmrl_gym.reporting.evaluation_files import show, write_evaluation
from wmrl_gym.reporting.evaluation_tables import EvaluationTables, evaluation_tables
from wmrl_gym.reporting.run_directory import RunDirectory, locked
from wmrl_gym.reporting.work_file import WorkFile

_SETTINGS = ("policy", "env", "tasks", "evaluation", "execution", "seed")
"""What a result is written down with."""


def evaluate(config: EvaluateConfig, plain: Mapping[str, Any]) -> int:
    """Measure an agent, print the result task by task, and write it if there is a place for it.

    What is played is saved there slice by slice: the same call goes on with what one that was killed has left.

    Args:
        config: what to measure, and how.
        plain: the same as plain data, to be written down.

    Raises:
        ConfigError: if no task is held out, or the result could not be written.
        OtherWork: if what was left behind in the folder was begun with other settings, or is damaged.
        RunInUse: if another process makes the same evaluation.
    """
    run = None if config.run is None else RunDirectory.open(config.run)
    settings = {key: plain[key] for key in _SETTINGS}
    temperature = config.evaluation.temperature
    if run is not None:
        trained, told = TrainConfig.from_mapping(run.config()), run.config()
        # At another temperature it is another agent: a robot's may do three times as well at 0.3 as at 1.
        temperature = trained.evaluation.temperature if temperature is None else temperature
        config, settings = replace(config, policy=trained.policy), {**settings, "policy": told["policy"]}
        if config.held_out_of == "run":
            config = replace(config, env=trained.env, tasks=trained.tasks)
            settings = {**settings, "env": told["env"], "tasks": told["tasks"]}
    temperature = EVALUATION_TEMPERATURE if temperature is None else temperature
    config = replace(config, evaluation=replace(config.evaluation, temperature=temperature))
    settings["evaluation"] = {**settings["evaluation"], "temperature": temperature}
    prepare_torch(config.threads)
    console = Console()
    if not config.tasks.held_out:
        raise ConfigError("'tasks.held_out' is empty: name the tasks to evaluate on")
    folder = config.output or (None if run is None else run.path)
    if folder is not None:
        make_output_folder(folder, "run" if config.output is None else "output")
    # Training tasks are not looked at: their data need not be here.
    domain = Domain(config.env, replace(config.tasks, train=config.tasks.held_out))
    name, stem, state = _agent(config), "evaluation", None
    if run is not None:
        checkpoint, state = _newest_checkpoint(run)
        console.print(f"agent of {checkpoint}", highlight=False)
        name, stem = f"{run.path.name}, {checkpoint.name}", f"evaluation-{checkpoint.name}-s{config.seed}"
    told = {"agent": name, **settings}
    # Runs of a comparison are called alike in different folders.
    with _work(folder, stem, {**told, "run": None if run is None else str(run.path.resolve())}) as work:
        if work is not None and work.portions:
            console.print(f"going on with what is saved in {work.path}", highlight=False, soft_wrap=True)
        policy = config.policy.build()
        if state is not None:
            policy.load_state_dict(state["policy"])
        with executor_for(config.execution, domain) as executor:
            result = evaluate_held_out(policy, domain, executor, config.evaluation, config.seed, config.tasks, work)
        title = f"{name}: held-out, avg@{result.samples}, temperature {temperature:g}"
        tables = tables_of(result, config, domain, title)
        show(tables, console)
        if folder is not None and work is not None:
            paths = write_evaluation(folder, stem, as_data(result), tables, told)
            work.path.unlink()
            console.print(f"wrote {paths[0].with_suffix('')}.json, .md and .tex", highlight=False, soft_wrap=True)
    return 0


def evaluate_held_out(
    policy: Any,
    domain: Domain,
    executor: Executor,
    config: EvaluationConfig,
    seed: int,
    tasks: TasksConfig | None = None,
    work: WorkFile | None = None,
) -> Evaluation:
    """Play the held-out tasks, everything executed; valued by the measures that ``tasks`` names, else by percentile.

    What ``work`` holds is not played again, and what is played is put there slice by slice.
    """
    return evaluate_policy(
        policy,
        domain.env_fns(domain.held_out, len(domain.held_out) * config.samples),
        domain.held_out,
        executor=executor,
        samples=config.samples,
        temperature=EVALUATION_TEMPERATURE if config.temperature is None else config.temperature,
        seed=seed,
        reset_options=domain.reset_options,
        metric=None if tasks is None else _values_of(tasks.measure),
        others=None if tasks is None else {n: _values_of(n) for n in tasks.also if n != tasks.measure},
        played=() if work is None else [Evaluation.from_dict(portion) for portion in work.portions],
        on_slice=None if work is None else lambda part: work.append(part.to_dict()),
    )


def tables_of(result: Evaluation, config: EvaluateConfig, domain: Domain, title: str) -> EvaluationTables:
    """The tables of an evaluation made with a configuration."""
    return evaluation_tables(
        as_data(result),
        title=title,
        measure=config.tasks.measure,
        categories=domain.categories,
        k=config.evaluation.k,
        success=config.evaluation.success,
    )


def as_data(result: Evaluation) -> dict[str, Any]:
    """An evaluation as plain data, with the values that a table needs."""
    return {**result.to_dict(), "scores": result.scores(), "valid": result.valid()}


@contextmanager
def _work(folder: Path | None, stem: str, settings: Mapping[str, Any]) -> Iterator[WorkFile | None]:
    """What is played already of an evaluation, kept from other processes; None if there is no place for it."""
    if folder is None:
        yield None
        return
    path = folder / f"{stem}.part.jsonl"
    with locked(folder / f".{stem}.lock", path):
        yield WorkFile(path, settings)


def _values_of(measure: str) -> Callable[[Trajectory], list[float | None]]:
    return partial(turn_values, measure=measure)


def _agent(config: EvaluateConfig) -> str:
    """What the agent is called in titles: its kind, and which one of them."""
    names = (config.policy.arguments.get(key) for key in ("model", "path", "adapter", "directory"))
    which = next((str(name) for name in names if isinstance(name, str | Path)), None)
    kind = config.policy.target.rpartition(".")[2].removeprefix("load_")
    return kind if which is None else f"{kind} {which}"


def _newest_checkpoint(run: RunDirectory) -> tuple[Path, dict[str, Any]]:
    newest = load_latest_checkpoint(run.checkpoints)
    if newest is None:
        raise FileNotFoundError(
            f"'{run.path}' has no checkpoint yet\n"
            "  wait for its first one, or evaluate the untrained agent without run="
        )
    return newest
