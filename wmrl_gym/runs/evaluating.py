"""Measuring an agent on held-out tasks: that of a run, or one as it is configured. All of it is really executed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

from wmrl_gym.algorithms.checkpoint import checkpoints, latest_checkpoint, load_checkpoint, load_latest_checkpoint
from wmrl_gym.algorithms.evaluation import Evaluation, EvaluationSettings, TurnValues, check_beginning, turn_values
from wmrl_gym.algorithms.evaluation import evaluate as evaluate_policy
from wmrl_gym.configs.schema import EvaluateConfig, TrainConfig
from wmrl_gym.configs.validation import ConfigError
from wmrl_gym.core import Executor
from wmrl_gym.runs.assembly import Domain, executor_for, prepare_torch
from wmrl_gym.runs.configured import configured
from wmrl_gym.runs.evaluation_key import evaluation_key
from wmrl_gym.runs.output_folder import make_output_folder
from wmrl_gym.runs.records.run_directory import RunDirectory
from wmrl_gym.runs.records.work_file import WorkFile

_SETTINGS = ("policy", "env", "tasks", "evaluation", "execution", "seed")
"""What a result is written down with."""
_PART = ".part.jsonl"
"""Ending of the file in which an unfinished evaluation is saved."""


class AgentEvaluation:
    """One evaluation of one agent: which checkpoint, on which tasks, where its result belongs.

    What is played is saved slice by slice in `saved`: an evaluation with the same arguments goes on with what one that
    was killed has left.

    Args:
        config: what to measure, and how.
        plain: the same as plain data, to be written down.

    Attributes:
        config: with what a run puts in its place.
        settings: the same as plain data.
        domain: the held-out tasks.
        name: what the agent is called.
        folder: where the result belongs; None if it is not to be written.
        stem: name of the result's files there, without an ending.
        checkpoint: the agent's; None for the policy as it is configured.
        is_newest: whether that is the run's newest one.

    Raises:
        ConfigError: if no task is held out, the domain does not know a measure, or the result could not be written.
        FileNotFoundError: if there is no such run, or it has no checkpoint.
    """

    def __init__(self, config: EvaluateConfig, plain: Mapping[str, Any]) -> None:
        run = None if config.run is None else RunDirectory.open(config.run)
        self.config, self.settings = resolved(config, plain, run)
        self._threads = prepare_torch(config.threads)
        if not self.config.tasks.held_out:
            raise ConfigError("'tasks.held_out' is empty: name the tasks to evaluate on")
        # Training tasks are not looked at: their data need not be here.
        tasks = self.config.tasks
        self.domain = Domain(self.config.env, replace(tasks, train=tasks.held_out))
        self.domain.check()
        self.folder = config.output or (None if run is None else run.path)
        if config.output is not None:
            make_output_folder(config.output)
        elif run is not None:
            make_output_folder(run.path, "run", remedy="give the result a folder of its own with output=")
        self.name, self.stem = _agent(self.config), "evaluation"
        self.checkpoint: Path | None = None
        self.is_newest = True
        self._state: dict[str, Any] | None = None
        if run is not None and self.folder is not None:
            self.checkpoint, self._state = _checkpoint(run, self.folder, self.config.seed)
            self.is_newest = self.checkpoint == latest_checkpoint(run.checkpoints)
            self.name = f"{run.path.name}, {self.checkpoint.name}"
            self.stem = _stem(self.checkpoint, self.config.seed)

    @classmethod
    def from_config(
        cls, config: Mapping[str, Any] | Sequence[str] = (), config_dir: Path | None = None
    ) -> AgentEvaluation:
        """An evaluation as it is configured.

        Args:
            config: overrides as on the command line, for example ``["run=runs/mine"]``; or the whole configuration as
                plain data.
            config_dir: another directory with configuration groups, searched beside the built-in ones.

        Raises:
            ConfigError: if the configuration cannot be right.
            FileNotFoundError: if there is no such run, or it has no checkpoint.
        """
        return cls(*configured(EvaluateConfig, "evaluate", config, config_dir))

    @property
    def episodes(self) -> int:
        """How many episodes are played."""
        return len(self.domain.held_out) * self.config.evaluation.samples

    def saved(self) -> AbstractContextManager[WorkFile | None]:
        """The file of what is played, to be entered; nothing where there is no folder."""
        if self.folder is None:
            return nullcontext()
        key = evaluation_key(self.config, self.settings, self.domain, self._threads, self.checkpoint)
        return WorkFile(self.folder / f"{self.stem}{_PART}", key)

    def play(self, work: WorkFile | None = None, on_begin: Callable[[], None] = lambda: None) -> Evaluation:
        """Play what is missing.

        Args:
            work: what is saved, entered; None saves nothing.
            on_begin: called when the agent is made, before the first episode.

        Raises:
            ExecutorError: if too many executions in a row failed.
        """
        policy = self.config.policy.build()
        if self._state is not None:
            policy.load_state_dict(self._state["policy"])
        on_begin()
        with executor_for(self.config.execution, self.domain) as executor:
            return evaluate_held_out(policy, self.domain, executor, self.config, work)


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
    settings = EvaluationSettings(
        samples=config.evaluation.samples,
        temperature=config.evaluation.resolved_temperature,
        seed=config.seed,
        max_consecutive_failures=config.execution.max_consecutive_failures,
    )

    def saved(portions: list[Any]) -> list[Evaluation]:
        slices = [Evaluation.from_dict(portion) for portion in portions]
        check_beginning(slices, domain.held_out, settings)
        return slices

    played = [] if work is None else work.understood(saved)
    if work is not None and played and played[-1].unknown:
        work.take_back()
        del played[-1]
    return evaluate_policy(
        policy,
        domain.env_fns(domain.held_out, len(domain.held_out) * settings.samples),
        domain.held_out,
        settings,
        executor=executor,
        reset_options=domain.reset_options,
        measures={name: _values_of(name, domain) for name in (domain.measure.name, *config.tasks.also)},
        played=played,
        on_slice=None if work is None else lambda part: work.append(part.to_dict()),
    )


def as_data(result: Evaluation, domain: Domain) -> dict[str, Any]:
    """An evaluation as plain data, with what a table needs: the values by task, and what kind of numbers they are."""
    return {
        **result.to_dict(),
        "scores": result.scores(),
        "achieved": result.achieved(),
        "measure": asdict(domain.measure),
        "success_status": domain.success_status,
    }


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
        if config.tasks_of == "run":
            config = replace(config, env=trained.env, tasks=trained.tasks)
            settings = {**settings, "env": of_run["env"], "tasks": of_run["tasks"]}
    settings["evaluation"] = {**settings["evaluation"], "temperature": evaluation.resolved_temperature}
    return replace(config, evaluation=evaluation), settings


def _stem(checkpoint: Path, seed: int) -> str:
    return f"evaluation-{checkpoint.name}-s{seed}"


def _values_of(measure: str, domain: Domain) -> TurnValues:
    return partial(turn_values, measure=measure, success_status=domain.success_status)


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
