"""``wmrl train``: a run from its configuration to its final table, and going on with one that was cut off."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from rich.console import Console

from wmrl_gym.algorithms.wmrl_grpo import WMRLGRPO
from wmrl_gym.cli.evaluate import as_data, evaluate_held_out
from wmrl_gym.configs.schema import TrainConfig
from wmrl_gym.configs.validation import ConfigError
from wmrl_gym.core import Executor
from wmrl_gym.proxy import RewardProxy, RewardProxyVectorEnv
from wmrl_gym.reporting.progress import Progress
from wmrl_gym.reporting.table import Cost, FinalTable, LanguageModelCost, measures_of, tasks_without_result
from wmrl_gym.runs.assembly import Domain, executor_for, prepare_torch
from wmrl_gym.runs.output_folder import make_output_folder
from wmrl_gym.runs.records.metrics import JSONLMetrics, MetricsLog, TensorBoardMetrics, read_metrics
from wmrl_gym.runs.records.run_directory import RunDirectory, during
from wmrl_gym.runs.records.trajectories import TrajectoryRecorder
from wmrl_gym.runs.stopping import GracefulStop, StopRequested

COLUMNS = (
    ("reward", "reward"),
    ("predicted_score", "predicted"),
    ("executed_score", "executed"),
    ("executed_share", "anchors"),
    ("status/valid", "valid"),
    ("flat_groups", "flat"),
    ("proxy/bias_after", "bias"),
    ("proxy/rho", "rho"),
    ("kl", "kl"),
    ("entropy", "entropy"),
    ("seconds", "seconds"),
)


class Display(Protocol):
    """Shows how far a run is."""

    def stage(self, text: str) -> None:
        """Say what is going on."""
        ...

    def step(self, step: int, metrics: Mapping[str, Any]) -> None:
        """Show a finished step."""
        ...


def train(config: TrainConfig, plain: dict[str, Any]) -> int:
    """Start a new run."""
    check(config)
    make_output_folder(config.runs, "runs")
    run = RunDirectory.create(config.runs, config.experiment_name, config.seed, plain)
    return Run(config, run).go()


def resume(path: Path) -> int:
    """Go on with a run from its newest checkpoint, with its own configuration."""
    run = RunDirectory.open(path)
    config = TrainConfig.from_mapping(run.config())
    check(config)
    return Run(config, run).go()


class Run:
    """One run in its folder. What is already there is not done again.

    Args:
        config: what to do.
        directory: where.
    """

    def __init__(self, config: TrainConfig, directory: RunDirectory) -> None:
        self.config = config
        self.directory = directory
        self.console = Console()
        self.domain = Domain(config.env, config.tasks)

    def go(self) -> int:
        """Evaluate, train, evaluate, and print the table. Returns the exit code."""
        self.console.print(f"run directory: {self.directory.path}", highlight=False, soft_wrap=True)
        threads = prepare_torch(self.config.threads, scripts_beside=self.config.execution.mode == "async")
        self.console.print(
            f"{len(self.domain.train)} training tasks, {len(self.domain.held_out)} held out, seed {self.config.seed}, "
            f"{threads} threads",
            highlight=False,
        )
        settings = self.config.algorithm.build()
        try:
            with Progress(settings.steps, COLUMNS, self.console) as progress:
                self.advance(progress)
        except (KeyboardInterrupt, StopRequested):
            self.console.print(f"stopped; to go on: wmrl train resume={self.directory.path}", highlight=False)
            return 130
        table = self.table(settings)
        table.print(self.console)
        table.write(self.directory)
        return 0

    def advance(self, progress: Display, until: int | None = None) -> None:
        """Do what is missing of the run, evaluations among it.

        Args:
            progress: is told of every stage and step.
            until: number of steps after which to stop, with a checkpoint; None goes on to the end.

        Raises:
            StopRequested: if the user asked for an end; a checkpoint is there.
            RunInUse: if another process works on the run.
        """
        settings = self.config.algorithm.build()
        with self.directory.lock(), executor_for(self.config.execution, self.domain) as executor:
            self._stages(settings, executor, progress, settings.steps if until is None else until)

    def _stages(self, settings: Any, executor: Executor, progress: Display, until: int) -> None:
        policy = self.config.policy.build()
        trainer, proxy = self._trainer(policy, settings, executor)
        if self.config.evaluation.before:
            self._evaluate("before", policy, executor, progress)
        logs = self._logs(first_step := trainer.resume())
        for log in logs:
            log.rewind(first_step)
        self._record_trajectories(trainer, first_step)
        if first_step:
            progress.stage(f"going on after step {first_step}")
        with GracefulStop(self.console) as stop:

            def on_step(step: int, metrics: dict[str, float | None]) -> None:
                for log in logs:
                    log.write(step, metrics)
                proxy.write_ledger(self.directory.ledger_file)
                seconds = sum(value or 0.0 for name, value in metrics.items() if name.startswith("seconds/"))
                progress.step(step, {**metrics, "seconds": seconds})
                if stop.requested:
                    trainer.save()
                    raise StopRequested

            trainer.on_step = on_step
            try:
                for end in self.config.evaluation.stops(first_step, until):
                    trainer.train(end)
                    if self.config.evaluation.is_due(end, settings.steps):
                        self._evaluate(during(end), policy, executor, progress)
                    if stop.requested:
                        raise StopRequested
            finally:
                for log in logs:
                    log.close()
        if self.config.evaluation.after and until >= settings.steps:
            self._evaluate("after", policy, executor, progress)

    def _trainer(self, policy: Any, settings: Any, executor: Executor) -> tuple[WMRLGRPO, RewardProxy]:
        config = self.config
        proxy: RewardProxy = config.proxy.build()
        vector_env = RewardProxyVectorEnv(
            self.domain.env_fns(self.domain.train, settings.groups_per_step * settings.group_size),
            None if config.world_model is None else config.world_model.build(),
            executor,
            mode=config.execution.mode,
            max_in_flight=proxy.anchors.max_in_flight,
            max_consecutive_failures=config.execution.max_consecutive_failures,
        )
        trainer = WMRLGRPO(
            policy,
            vector_env,
            self.domain.train,
            proxy,
            settings,
            reset_options=self.domain.reset_options,
            directory=self.directory.checkpoints,
        )
        return trainer, proxy

    def _evaluate(self, when: str, policy: Any, executor: Executor, progress: Display) -> None:
        """Evaluate unless the result is there: before training with the weights given, later with those learned."""
        if not self.domain.held_out or self.directory.read_json(f"{when}.json") is not None:
            return
        config, evaluation = self.config, self.config.evaluation
        if when not in ("before", "after"):
            config = replace(config, evaluation=replace(evaluation, samples=evaluation.samples_during))
        episodes = len(self.domain.held_out) * config.evaluation.samples
        progress.stage(f"evaluating {when.split('-')[0]} training: {episodes} held-out episodes, all executed")
        result = evaluate_held_out(policy, self.domain, executor, config)
        self.directory.write_json(f"{when}.json", as_data(result))

    def _logs(self, first_step: int) -> list[MetricsLog]:
        logs: list[MetricsLog] = [JSONLMetrics(self.directory.metrics_file)]
        if self.config.logger.tensorboard is not False:
            try:
                logs.append(TensorBoardMetrics(self.directory.tensorboard, first_step))
            except ImportError:
                if self.config.logger.tensorboard is True:
                    raise
        return logs

    def _record_trajectories(self, trainer: WMRLGRPO, first_step: int) -> None:
        which = self.config.logger.trajectories
        if which == "none":
            return
        by_std = trainer.settings.normalise_by_std
        recorder = TrajectoryRecorder(self.directory.trajectories_file, which, normalise_by_std=by_std)
        recorder.rewind(first_step)
        trainer.on_groups = recorder.record

    def table(self, settings: Any) -> FinalTable:
        """The final table, from what lies in the run's folder."""
        before, after = (self.directory.read_json(f"{when}.json") for when in ("before", "after"))
        measures = measures_of(self.config.tasks.measure, before, after, self.domain.categories)
        title = f"{self.config.experiment_name}, seed {self.config.seed}, {settings.steps} steps"
        records = read_metrics(self.directory.metrics_file)
        trajectories = settings.groups_per_step * settings.group_size
        seconds = _seconds(records)
        on_the_way = list(self.directory.evaluations_during().values())
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
        return FinalTable(title, self.config.evaluation.samples, tuple(measures), cost, left_out)


def check(config: TrainConfig) -> None:
    """Refuse parts that cannot be made or do not go together, before the run has a folder."""
    config.algorithm.build()
    config.policy.require_trainable()
    proxy = config.proxy.build()
    if config.world_model is None:
        fraction = proxy.anchors.fraction
        if fraction < 1:
            raise ConfigError(
                f"there is no world model, but proxy.anchors.fraction is {fraction}: other groups would have no score\n"
                "  choose world_model=static_analysis, or proxy=all_executed."
            )
    # Last, because it looks at the disk: what the configuration alone shows to be wrong is told wherever it is read.
    domain = Domain(config.env, config.tasks)
    domain.env_fns([*domain.train, *domain.held_out], 1)[0]().close()


def _seconds(records: list[dict[str, Any]]) -> dict[str, float]:
    seconds: dict[str, float] = {}
    for record in records:
        for key, value in record.items():
            if key.startswith("seconds/") and value is not None:
                name = key.removeprefix("seconds/")
                seconds[name] = seconds.get(name, 0.0) + value
    return seconds
