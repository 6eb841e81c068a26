"""A training run: its folder, what is missing of it, and doing that.

``wmrl train`` is a thin face of `TrainingRun`: whatever the command does can be done from Python.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from wmrl_gym.algorithms.checkpoint import load_latest_checkpoint
from wmrl_gym.algorithms.evaluation import Evaluation
from wmrl_gym.algorithms.wmrl_grpo import WMRLGRPO
from wmrl_gym.configs.schema import TrainConfig
from wmrl_gym.configs.validation import ConfigError
from wmrl_gym.core import Executor, Group
from wmrl_gym.proxy import RewardProxy, RewardProxyVectorEnv, ScoredStep
from wmrl_gym.runs.assembly import Domain, executor_for, prepare_torch
from wmrl_gym.runs.configured import configured
from wmrl_gym.runs.evaluating import as_data, evaluate_held_out
from wmrl_gym.runs.output_folder import make_output_folder
from wmrl_gym.runs.records.metrics import JSONLMetrics, MetricsLog, TensorBoardMetrics, read_metrics
from wmrl_gym.runs.records.pairs import PairRecorder
from wmrl_gym.runs.records.run_directory import RunDirectory, during
from wmrl_gym.runs.records.trajectories import TrajectoryRecorder
from wmrl_gym.runs.stopping import GracefulStop, StopRequested


class RunProgress(Protocol):
    """Is told how far a run is."""

    def stage(self, text: str) -> None:
        """What is going on."""
        ...

    def step(self, step: int, metrics: Mapping[str, Any]) -> None:
        """A finished step, from 0, and its metrics; unknown is None."""
        ...


class Silence:
    """Tells nobody."""

    def stage(self, text: str) -> None:
        """Nothing."""

    def step(self, step: int, metrics: Mapping[str, Any]) -> None:
        """Nothing."""


class TrainingRun:
    """One run in its folder. What is already there is not done again.

    Make a new one with `from_config`, go on with an old one with `resume`.

    Args:
        config: what to do.
        directory: where.
    """

    def __init__(self, config: TrainConfig, directory: RunDirectory) -> None:
        self.config = config
        self.directory = directory
        self.domain = Domain(config.env, config.tasks)

    @classmethod
    def from_config(cls, config: Mapping[str, Any] | Sequence[str] = (), config_dir: Path | None = None) -> TrainingRun:
        """A new run in a folder of its own below ``runs``.

        Args:
            config: overrides as on the command line, for example ``["experiment=quickstart", "seed=1"]``; or the whole
                configuration as plain data, as `compose_config` gives it.
            config_dir: another directory with configuration groups, searched beside the built-in ones.

        Raises:
            ConfigError: if the configuration cannot be right; no folder is made then.
        """
        typed, plain = configured(TrainConfig, "train", config, config_dir)
        check(typed)
        make_output_folder(typed.runs, "runs")
        return cls(typed, RunDirectory.create(typed.runs, typed.experiment_name, typed.seed, plain))

    @classmethod
    def resume(cls, path: str | Path) -> TrainingRun:
        """A run that is there, with its own configuration.

        Raises:
            FileNotFoundError: if the folder is not a run's.
            ConfigError: if its configuration is not right any more.
        """
        directory = RunDirectory.open(Path(path))
        config = TrainConfig.from_mapping(directory.config())
        check(config)
        return cls(config, directory)

    def prepare(self) -> int:
        """Set torch's number of threads, and return it."""
        return prepare_torch(self.config.threads, scripts_beside=self.config.execution.mode == "async")

    def train(self, progress: RunProgress | None = None, until: int | None = None) -> None:
        """Do what is missing of the run: the evaluation before, the steps, those in mid-training and the one after.

        Ctrl-C stops after the step that is running, with a checkpoint; a later call goes on.

        Args:
            progress: is told of every stage and step.
            until: number of steps after which to stop, with a checkpoint; None goes on to the end.

        Raises:
            StopRequested: if the user asked for an end; a checkpoint is there.
            RunInUse: if another process works on the run.
        """
        settings = self.config.algorithm.build()
        progress = progress or Silence()
        self.prepare()
        with self.directory.lock(), executor_for(self.config.execution, self.domain) as executor:
            self._stages(settings, executor, progress, settings.steps if until is None else until)

    def _stages(self, settings: Any, executor: Executor, progress: RunProgress, until: int) -> None:
        policy = self.config.policy.build()
        trainer = self._trainer(policy, settings, executor)
        if self.config.evaluation.before:
            self._evaluate("before", policy, executor, progress)
        logs = self._logs(first_step := trainer.resume())
        for log in logs:
            log.rewind(first_step)
        self._record_groups(trainer, first_step)
        if first_step:
            progress.stage(f"going on after step {first_step}")
        with GracefulStop(progress.stage) as stop:

            def on_step(step: int, metrics: dict[str, float | None]) -> None:
                for log in logs:
                    log.write(step, metrics)
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

    def _trainer(self, policy: Any, settings: Any, executor: Executor) -> WMRLGRPO:
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
        return WMRLGRPO(
            policy,
            vector_env,
            self.domain.train,
            proxy,
            settings,
            reset_options=self.domain.reset_options,
            directory=self.directory.checkpoints,
        )

    def _evaluate(self, when: str, policy: Any, executor: Executor, progress: RunProgress) -> None:
        """Evaluate unless the result is there: before training with the weights given, later with those learned."""
        if not self.domain.held_out or self.directory.read_json(f"{when}.json") is not None:
            return
        config, evaluation = self.config, self.config.evaluation
        if when not in ("before", "after"):
            config = replace(config, evaluation=replace(evaluation, samples=evaluation.samples_during))
        episodes = len(self.domain.held_out) * config.evaluation.samples
        progress.stage(f"evaluating {when.split('-')[0]} training: {episodes} held-out episodes, all executed")
        result = evaluate_held_out(policy, self.domain, executor, config)
        self.directory.write_json(f"{when}.json", as_data(result, self.domain))

    def _logs(self, first_step: int) -> list[MetricsLog]:
        logs: list[MetricsLog] = [JSONLMetrics(self.directory.metrics_file)]
        if self.config.logger.tensorboard is not False:
            try:
                logs.append(TensorBoardMetrics(self.directory.tensorboard, first_step))
            except ImportError:
                if self.config.logger.tensorboard is True:
                    raise
        return logs

    def _record_groups(self, trainer: WMRLGRPO, first_step: int) -> None:
        """Have the pairs written down, and the trajectories if they are wanted."""
        recorders: list[PairRecorder | TrajectoryRecorder] = [PairRecorder(self.directory.ledger_file)]
        which = self.config.logger.trajectories
        if which != "none":
            by_std = trainer.settings.normalise_by_std
            recorders.append(TrajectoryRecorder(self.directory.trajectories_file, which, normalise_by_std=by_std))
        for recorder in recorders:
            recorder.rewind(first_step)

        def record(step: int, groups: Sequence[Group], scored: ScoredStep) -> None:
            for recorder in recorders:
                recorder.record(step, groups, scored)

        trainer.on_groups = record

    def evaluate(self, samples: int | None = None) -> Evaluation:
        """Play the held-out tasks with the agent of the newest checkpoint (or the untrained one), all executed.

        Nothing is written: the evaluations that belong to the run are made by `train`.

        Args:
            samples: episodes per task; None is the configuration's.

        Raises:
            ConfigError: if no task is held out.
        """
        if not self.domain.held_out:
            raise ConfigError("'tasks.held_out' is empty: name the tasks to evaluate on")
        config = self.config
        if samples is not None:
            config = replace(config, evaluation=replace(config.evaluation, samples=samples))
        self.prepare()
        policy = config.policy.build()
        newest = load_latest_checkpoint(self.directory.checkpoints)
        if newest is not None:
            policy.load_state_dict(newest[1]["policy"])
        with executor_for(config.execution, self.domain) as executor:
            return evaluate_held_out(policy, self.domain, executor, config)

    def metrics(self) -> list[dict[str, Any]]:
        """What was recorded of each step so far."""
        return read_metrics(self.directory.metrics_file)

    def evaluation(self, when: str = "after") -> Evaluation | None:
        """The evaluation "before" training, "after" it, or in mid-training ("during-8"); None if it was not made."""
        data = self.directory.read_json(f"{when}.json")
        return None if data is None else Evaluation.from_dict(data)


def check(config: TrainConfig) -> None:
    """Refuse parts that cannot be made or do not go together, before the run has a folder."""
    config.algorithm.build()
    config.policy.require_trainable()
    config.policy.check(training=True)
    proxy = config.proxy.build()
    if config.world_model is None:
        fraction = proxy.anchors.fraction
        if fraction < 1:
            raise ConfigError(
                f"there is no world model, but proxy.anchors.fraction is {fraction}: other groups would have no score\n"
                "  choose world_model=static_analysis, or proxy=all_executed."
            )
    domain = Domain(config.env, config.tasks)
    both = sorted(set(domain.train) & set(domain.held_out))
    if both:
        raise ConfigError(
            f"{len(both)} tasks are trained on and held out as well, for example {', '.join(both[:3])}: what they tell "
            "after training would be no measure of anything new\n"
            "  take them out of tasks.train or of tasks.held_out; tasks.held_out=[] evaluates nothing."
        )
    # Last, because it looks at the disk: what the configuration alone shows to be wrong is told wherever it is read.
    domain.check()
