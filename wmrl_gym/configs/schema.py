"""The typed shape of each primary configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from wmrl_gym.configs.validation import Component, to_dataclass


@dataclass(frozen=True)
class TasksConfig:
    """Which tasks an agent is trained on, and on which it is measured."""

    train: list[str] | str
    """Names, or a function that returns them as "module.function"."""
    held_out: list[str] | str
    """Likewise; they are never trained on. An empty list evaluates nothing."""
    option: str | None = None
    """Name of the environment's argument that takes all names, and of the reset option that takes one."""
    categories: dict[str, str] | str | None = None
    """Task -> category, or a function that returns that as "module.function". Where every held-out task has one, the
    mean over categories is reported beside the mean over tasks."""
    measure: str | None = None
    """By what a task's episodes are valued and reported: one of the environment's `measures`; None is its usual one."""
    also: list[str] = field(default_factory=list)
    """Further measures that `wmrl evaluate` reports: shares from 0 to 1 of which more is better, because an episode's
    best is taken and a failure counts 0."""

    def __post_init__(self) -> None:
        """Refuse an empty list, and a measure that cannot be averaged."""
        if isinstance(self.train, list) and not self.train:
            raise ValueError("tasks.train is empty: name at least one task")
        if "raw_score" in (self.measure, *self.also):
            raise ValueError(
                "raw_score is no measure: its unit and direction differ from task to task, so neither an episode's "
                "best nor a mean over tasks means anything; choose one of the environment's measures, or score"
            )


EVALUATION_TEMPERATURE = 0.8
"""The paper's, for language models (section on evaluation)."""


@dataclass(frozen=True)
class EvaluationConfig:
    """How an agent is measured on the held-out tasks. Everything is really executed."""

    samples: int = 8
    """k of avg@k: episodes per task."""
    temperature: float | None = None
    """Of the agent's distribution. None is that of the run which trained it, or else `EVALUATION_TEMPERATURE`."""
    k: int | None = None
    """k of pass@k and All@k, which `wmrl evaluate` reports; None is `samples`. With fewer, the estimates of every
    choice of k among the samples are averaged."""
    success: float | None = None
    """When an episode counts as a success for them: with a score of at least this; None is with any outcome that
    achieved something. Scores that are all 0 or 1 are successes by themselves."""
    before: bool = True
    """Evaluate before training."""
    after: bool = True
    """Evaluate after training."""
    every: int | None = None
    """Evaluate in mid-training after every so many steps, too; None does not."""
    samples_during: int = 2
    """Episodes per task of the evaluations in mid-training."""

    def __post_init__(self) -> None:
        """Check the numbers."""
        for name in ("samples", "samples_during", "every"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"evaluation.{name} is {value}: give at least 1")
        if self.temperature is not None and not self.temperature >= 0:
            raise ValueError(f"evaluation.temperature is {self.temperature}: give 0 (greedy) or more")
        if self.k is not None and not 1 <= self.k <= self.samples:
            raise ValueError(f"evaluation.k is {self.k}: give at least 1 and at most evaluation.samples={self.samples}")

    @property
    def resolved_temperature(self) -> float:
        """`temperature`, or what stands for None where no run says otherwise."""
        return EVALUATION_TEMPERATURE if self.temperature is None else self.temperature

    def is_due(self, step: int, steps: int) -> bool:
        """Whether a run of `steps` steps evaluates in mid-training, when `step` of them are done."""
        return self.every is not None and 0 < step < steps and step % self.every == 0

    def stops(self, first: int, last: int) -> list[int]:
        """Numbers of steps to stop at on the way: multiples of `every` from `first` on, and `last` in any case."""
        inner = [] if self.every is None else [step for step in range(first, last) if step % self.every == 0]
        return [*inner, last]


LOCAL_EXECUTOR = "wmrl_gym.execution.local.LocalExecutor"


@dataclass(frozen=True)
class ExecutionConfig:
    """How submissions are really executed."""

    executor: Component = field(default_factory=lambda: Component(LOCAL_EXECUTOR, {}, "execution.executor"))
    """Who executes: a member of the group ``execution`` names one, or a class of your own in ``_target_``. It is given
    those of ``execute`` (the environment's), ``make_environment`` and ``max_workers`` that it takes."""
    mode: Literal["lockstep", "async"] = "lockstep"
    """Whether anchors are waited for at each turn, which makes a run repeatable bit for bit."""
    max_workers: int | None = 1
    """Submissions executed at the same time. None leaves it to the executor: 1 on this machine, as many as fit on a Ray
    cluster."""
    max_consecutive_failures: int = 16
    """Executions without a score, one after the other, that stop the run."""
    cache: Path | None = None
    """Folder of remembered outcomes; None executes everything anew."""

    def __post_init__(self) -> None:
        """Check the numbers."""
        for name in ("max_workers", "max_consecutive_failures"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"execution.{name} is {getattr(self, name)}: give at least 1")


@dataclass(frozen=True)
class LoggerConfig:
    """What is written down beside metrics.jsonl."""

    tensorboard: bool | Literal["auto"] = "auto"
    """Write TensorBoard's files, too; "auto" does where it is installed."""
    trajectories: Literal["all", "anchors", "none"] = "all"
    """Which trajectories are recorded, for `wmrl report`."""


@dataclass(frozen=True)
class TrainConfig:
    """All of `wmrl train`."""

    env: Component
    """What is played: a member of the group ``env``, or a class of your own in ``_target_``."""
    tasks: TasksConfig
    """See the section tasks."""
    policy: Component
    """The agent."""
    algorithm: Component
    """Settings of the algorithm."""
    proxy: Component
    """Anchors, debiasing, fusion."""
    execution: ExecutionConfig
    """See the section execution."""
    logger: LoggerConfig
    """See the section logger."""
    evaluation: EvaluationConfig
    """See the section evaluation."""
    world_model: Component | None = None
    """None: nothing is predicted, so everything must be executed."""
    experiment_name: str = "train"
    """Names the run's folder, and the experiment that runs of several seeds belong to."""
    seed: int = 0
    """Of everything that is random."""
    runs: Path = Path("runs")
    """Folder in which the run's folder is made."""
    threads: int | None = None
    """torch threads; None is 1 where scripts run beside the trainer (``execution.mode=async``), else all cores."""

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, Any]) -> TrainConfig:
        """Check plain data and type it.

        Raises:
            ConfigError: for anything that cannot be right.
        """
        return to_dataclass(cls, mapping)

    def __post_init__(self) -> None:
        """Refuse what would fail late."""
        _check_threads(self.threads)
        if not self.experiment_name or "/" in self.experiment_name or self.experiment_name.startswith("."):
            raise ValueError(f"experiment_name is {self.experiment_name!r}: it names a folder in 'runs', so no slashes")


def _check_threads(threads: int | None) -> None:
    if threads is not None and threads < 1:
        raise ValueError(f"threads is {threads}: give at least 1, or null to choose by the machine")


@dataclass(frozen=True)
class SupervisedConfig:
    """All of `wmrl sft`."""

    output: Path
    """Folder that the agent is written to."""
    settings: Component
    """Of the training: steps, learning rate and so on."""
    policy: Component | None = None
    """Which agent is trained; None is the nano agent, new or from `start`."""
    start: Path | None = None
    """A saved nano agent to go on from."""
    overview_style: Literal["compact", "full"] = "compact"
    """In which style of observation the conversations are held: that of the environment the agent will meet."""
    data_root: Path | None = None
    """Folder of the prepared competitions; None is the usual one."""
    demonstrations: list[Path] | None = None
    """Files of demonstrations, or folders of them: `policy` is cloned from these instead of from conversations."""
    examples: Component | None = None
    """Reads them; its argument ``paths`` takes `demonstrations`."""
    loss: str = ""
    """Function that gives the policy's loss on them, as "module.function"; see `behaviour_cloning.CloningLoss`."""
    seed: int = 0
    """Of the initial weights, the conversations and their order."""
    threads: int | None = None
    """torch threads; None is all cores."""

    def __post_init__(self) -> None:
        """Refuse what would fail late."""
        _check_threads(self.threads)


@dataclass(frozen=True)
class EvaluateConfig:
    """All of `wmrl evaluate`."""

    env: Component
    """What is played."""
    tasks: TasksConfig
    """See the section tasks."""
    policy: Component
    """The agent that is measured, if no run is named."""
    execution: ExecutionConfig
    """See the section execution."""
    evaluation: EvaluationConfig
    """See the section evaluation."""
    run: Path | None = None
    """A run's folder: its trained agent is measured."""
    tasks_of: Literal["run", "configuration"] = "run"
    """Whose environment and held-out tasks a run is measured on: its own, or those of `env` and `tasks` here."""
    output: Path | None = None
    """Folder for the result as JSON, Markdown and LaTeX; None writes it into the run, if there is one."""
    seed: int = 0
    """Of the episodes."""
    threads: int | None = None
    """torch threads; None is all cores."""

    def __post_init__(self) -> None:
        """Refuse what would fail late, or take the place of another result."""
        _check_threads(self.threads)
        if self.run is not None and self.tasks_of == "configuration" and self.output is None:
            raise ValueError(
                "output is null with tasks_of=configuration: in the run's folder the result would take the place of "
                "that on its own tasks, so name another one"
            )


@dataclass(frozen=True)
class ExportConfig:
    """All of `wmrl export`."""

    run: Path
    """A run's folder: its trained agent is written."""
    output: Path
    """Folder to write; it must not be there, or be empty."""
    checkpoint: int | None = None
    """Which checkpoint's agent, by the number of steps done; None is the newest."""
    merge: bool = True
    """Write one model, a low-rank adapter merged into it. False writes the adapter alone, with the path of its base."""
    dtype: Literal["float32", "bfloat16", "float16"] | None = None
    """Type of the weights that are written; None is as they were trained."""


@dataclass(frozen=True)
class CompareConfig:
    """What belongs to `wmrl compare` itself; everything else on its command line goes to the runs."""

    seeds: list[int]
    """Every arm is run once with each."""
    arms: dict[str, list[str]]
    """Name of an arm -> the overrides that make it."""
    only: list[str] | None = None
    """Which of `arms` are run; None is all of them, or none if there is a sweep."""
    reference: str | None = None
    """The arm whose final score the others are to reach; None is the first in which everything is executed."""
    evaluations: int = 4
    """Evaluations in mid-training, if ``evaluation.every`` does not say when they come."""
    slice: int | None = None
    """Steps of an arm before the next one's turn; None goes from one evaluation to the next."""
    folder: Path | None = None
    """None is ``<runs>/compare-<experiment_name>``."""
    level: float = 0.95
    """Of the confidence intervals."""
    resamples: int = 2000
    """Bootstrap samples behind an interval."""

    def __post_init__(self) -> None:
        """Refuse what would fail late."""
        if not self.seeds or len(set(self.seeds)) < len(self.seeds):
            raise ValueError(f"seeds is {self.seeds}: give at least one, and each once")
        for name in ("evaluations", "slice", "resamples"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} is {value}: give at least 1")
        if not 0 < self.level < 1:
            raise ValueError(f"level is {self.level}: give a share between 0 and 1, for example 0.95")
