"""``wmrl evaluate``: an agent on held-out tasks; and the evaluations before and after a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console

from wmrl_gym.algorithms.checkpoint import checkpoints, latest_checkpoint, load_checkpoint, load_latest_checkpoint
from wmrl_gym.algorithms.evaluation import Evaluation, check_beginning, turn_values
from wmrl_gym.algorithms.evaluation import evaluate as evaluate_policy
from wmrl_gym.configs.schema import EvaluateConfig, TrainConfig
from wmrl_gym.configs.validation import ConfigError
from wmrl_gym.core import Executor, Trajectory
from wmrl_gym.reporting.evaluation_files import show, write_evaluation
from wmrl_gym.reporting.evaluation_tables import EvaluationTables, evaluation_tables
from wmrl_gym.runs.assembly import Domain, executor_for, prepare_torch
from wmrl_gym.runs.evaluation_key import evaluation_key
from wmrl_gym.runs.output_folder import make_output_folder
from wmrl_gym.runs.records.run_directory import RunDirectory
from wmrl_gym.runs.records.work_file import WorkFile

_SETTINGS = ("policy", "env", "tasks", "evaluation", "execution", "seed")
"""What a result is written down with."""
_PART = ".part.jsonl"
"""Ending of the file in which an unfinished evaluation is saved."""


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
        ExecutorError: if too many executions in a row failed.
    """
    run = None if config.run is None else RunDirectory.open(config.run)
    config, settings = resolved(config, plain, run)
    threads = prepare_torch(config.threads)
    console = Console()
    if not config.tasks.held_out:
        raise ConfigError("'tasks.held_out' is empty: name the tasks to evaluate on")
    folder = config.output or (None if run is None else run.path)
    if config.output is not None:
        make_output_folder(config.output)
    elif run is not None:
        make_output_folder(run.path, "run", remedy="give the result a folder of its own with output=")
    # Training tasks are not looked at: their data need not be here.
    domain = Domain(config.env, replace(config.tasks, train=config.tasks.held_out))
    name, stem, checkpoint, state = _agent(config), "evaluation", None, None
    if run is not None and folder is not None:
        checkpoint, state = _checkpoint(run, folder, config.seed)
        newest = checkpoint == latest_checkpoint(run.checkpoints)
        console.print(
            f"agent of {checkpoint}" + ("" if newest else ", not the newest: its evaluation lies here half done"),
            highlight=False,
            soft_wrap=True,
        )
        name, stem = f"{run.path.name}, {checkpoint.name}", _stem(checkpoint, config.seed)
    place: AbstractContextManager[WorkFile | None] = nullcontext()
    if folder is not None:
        place = WorkFile(folder / f"{stem}{_PART}", evaluation_key(config, settings, domain, threads, checkpoint))
    with place as work:
        if work is not None and work.portions:
            console.print(f"going on with what is saved in {work.path}", highlight=False, soft_wrap=True)
        policy = config.policy.build()
        if state is not None:
            policy.load_state_dict(state["policy"])
        episodes = len(domain.held_out) * config.evaluation.samples
        console.print(f"evaluating: {episodes} held-out episodes, all executed", highlight=False)
        with executor_for(config.execution, domain) as executor:
            result = evaluate_held_out(policy, domain, executor, config, work)
        title = f"{name}: held-out, avg@{result.samples}, temperature {result.temperature:g}"
        tables = tables_of(result, config, domain, title)
        show(tables, console)
        if folder is not None and work is not None:
            paths = write_evaluation(folder, stem, as_data(result), tables, {"agent": name, **settings})
            work.path.unlink(missing_ok=True)
            console.print(f"wrote {paths[0].with_suffix('')}.json, .md and .tex", highlight=False, soft_wrap=True)
    return 0


def evaluate_held_out(
    policy: Any,
    domain: Domain,
    executor: Executor,
    config: EvaluateConfig | TrainConfig,
    work: WorkFile | None = None,
) -> Evaluation:
    """Play the held-out tasks, everything executed; valued by the measures that the configuration names.

    What ``work`` holds is not played again, and what is played is put there slice by slice. Only a last slice in which
    an episode has no result is played again: whatever failed may have been what ended the evaluation.
    """
    samples, temperature = config.evaluation.samples, config.evaluation.resolved_temperature

    def saved(portions: list[Any]) -> list[Evaluation]:
        slices = [Evaluation.from_dict(portion) for portion in portions]
        check_beginning(slices, domain.held_out, samples, temperature)
        return slices

    played = [] if work is None else work.understood(saved)
    if work is not None and played and played[-1].unknown:
        work.take_back()
        del played[-1]
    return evaluate_policy(
        policy,
        domain.env_fns(domain.held_out, len(domain.held_out) * samples),
        domain.held_out,
        executor=executor,
        samples=samples,
        temperature=temperature,
        seed=config.seed,
        reset_options=domain.reset_options,
        metric=_values_of(config.tasks.measure),
        others={name: _values_of(name) for name in config.tasks.also if name != config.tasks.measure},
        played=played,
        on_slice=None if work is None else lambda part: work.append(part.to_dict()),
        max_consecutive_failures=config.execution.max_consecutive_failures,
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


def resolved(
    config: EvaluateConfig, plain: Mapping[str, Any], run: RunDirectory | None
) -> tuple[EvaluateConfig, dict[str, Any]]:
    """The configuration with what a run puts in its place, and the same as plain data, to be written down."""
    settings = {key: plain[key] for key in _SETTINGS}
    evaluation = config.evaluation
    if run is not None:
        of_run = run.config()
        trained = TrainConfig.from_mapping(of_run)
        # At another temperature it is another agent: a robot's may do three times as well at 0.3 as at 1.
        if evaluation.temperature is None:
            evaluation = replace(evaluation, temperature=trained.evaluation.temperature)
        config, settings = replace(config, policy=trained.policy), {**settings, "policy": of_run["policy"]}
        if config.held_out_of == "run":
            config = replace(config, env=trained.env, tasks=trained.tasks)
            settings = {**settings, "env": of_run["env"], "tasks": of_run["tasks"]}
    settings["evaluation"] = {**settings["evaluation"], "temperature": evaluation.resolved_temperature}
    return replace(config, evaluation=evaluation), settings


def _stem(checkpoint: Path, seed: int) -> str:
    return f"evaluation-{checkpoint.name}-s{seed}"


def _values_of(measure: str) -> Callable[[Trajectory], list[float | None]]:
    return partial(turn_values, measure=measure)


def _agent(config: EvaluateConfig) -> str:
    """What the agent is called in titles: its kind, and which one of them."""
    names = (config.policy.arguments.get(key) for key in ("model", "path", "adapter", "directory"))
    which = next((str(name) for name in names if isinstance(name, str | Path)), None)
    kind = config.policy.target.rpartition(".")[2].removeprefix("load_")
    return kind if which is None else f"{kind} {which}"


def _checkpoint(run: RunDirectory, folder: Path, seed: int) -> tuple[Path, dict[str, Any]]:
    """The newest checkpoint; but if one whose evaluation lies half done in the folder is still there, that one."""
    for path in reversed(checkpoints(run.checkpoints)):
        if (folder / f"{_stem(path, seed)}{_PART}").is_file():
            return path, load_checkpoint(path)
    newest = load_latest_checkpoint(run.checkpoints)
    if newest is None:
        raise FileNotFoundError(
            f"'{run.path}' has no checkpoint yet\n"
            "  wait for its first one, or evaluate the untrained agent without run="
        )
    return newest
