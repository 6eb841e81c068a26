"""Evaluation: avg@k on held-out tasks, everything really executed.

Each task is played k times. A task's score is the share of episodes that achieved something times the mean of the
best that these achieved, which is the mean over its episodes with a failure counted as 0 (paper, evaluation).
Episodes whose execution failed for reasons outside the agent (a machine that failed, an endpoint that gave no answer)
are excluded and counted.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np

from wmrl_gym.algorithms.rollout import GroupPlan, collect
from wmrl_gym.core import Executor, Outcome, Policy, Trajectory, concurrency
from wmrl_gym.policies.acting import IncompleteDecision, UnansweredDecision
from wmrl_gym.proxy.vector_env import RewardProxyVectorEnv

EVALUATION_STREAM = 1
"""Keeps evaluation's random numbers apart from training's."""
MAX_EPISODES = 256
"""So many are played at once; an episode may hold megabytes of pictures. The number changes no episode."""
SAVED_EPISODES = 16
"""So many are played at once where each slice is saved, unless more are needed to keep agent and executor busy: few,
because a kill costs those of one slice."""


TurnValues = Callable[[Trajectory], Sequence[float | None]]
"""The value of each turn of a trajectory, None where it achieved nothing."""


@dataclass(frozen=True)
class EvaluationSettings:
    """How an agent is measured.

    Raises:
        ValueError: for a number out of its range.
    """

    samples: int = 8
    """k of avg@k: episodes of each task."""
    temperature: float = 0.8
    """Of sampling; 0 is greedy."""
    seed: int = 0
    """Of the random streams: the same one gives the same episodes for the same policy."""
    max_consecutive_failures: int = 16
    """Executions without a score, one after the other, that end it."""

    def __post_init__(self) -> None:
        for name in ("samples", "max_consecutive_failures"):
            if getattr(self, name) < 1:
                raise ValueError(f"EvaluationSettings.{name} is {getattr(self, name)}: give at least 1")
        if not self.temperature >= 0:
            raise ValueError(f"EvaluationSettings.temperature is {self.temperature}: give 0 (greedy) or more")


@dataclass(frozen=True)
class EpisodeRecord:
    """What one evaluation episode achieved."""

    task: str
    metric: float | None
    """Best value of its submissions by the domain's measure; None if none achieved anything."""
    known: bool
    """False if an execution, or the agent's own server, failed: the episode is excluded."""
    statuses: tuple[str, ...]
    """Status of each turn."""
    turn_metrics: tuple[float | None, ...]
    """The same as ``metric`` turn by turn."""
    others: Mapping[str, float | None] = field(default_factory=dict)
    """Best of its submissions by other measures of the domain."""
    shortfalls: tuple[str, ...] = ()
    """Why answers of it were not the whole text that was asked for, one reason for each such answer, in order."""

    @property
    def best_so_far(self) -> tuple[float, ...]:
        """Best metric up to each turn, 0 as long as nothing was achieved."""
        return tuple(np.maximum.accumulate([value or 0.0 for value in self.turn_metrics]).tolist())


@dataclass(frozen=True)
class Evaluation:
    """All episodes of an evaluation."""

    records: tuple[EpisodeRecord, ...]
    samples: int
    temperature: float
    executions: int
    """Submissions that were executed."""
    seconds: float

    def scores(self) -> dict[str, list[float]]:
        """Metric of each known episode by task, failures counted as 0."""
        return self._by_task(lambda record: record.metric or 0.0)

    def achieved(self) -> dict[str, list[float]]:
        """1 for each known episode that achieved something, else 0, by task."""
        return self._by_task(lambda record: float(record.metric is not None))

    def other_scores(self, measure: str) -> dict[str, list[float]]:
        """Another measure of each known episode by task, failures counted as 0."""
        return self._by_task(lambda record: record.others.get(measure) or 0.0)

    def task_scores(self) -> dict[str, float | None]:
        """Score of each task; None if none of its episodes is known."""
        return {task: float(np.mean(values)) if values else None for task, values in self.scores().items()}

    def category_average(self, categories: Mapping[str, str]) -> float | None:
        """Mean over categories of the mean over their tasks, as in the paper's table."""
        by_category: dict[str, list[float]] = {}
        for task, score in self.task_scores().items():
            if score is not None:
                by_category.setdefault(categories[task], []).append(score)
        return float(np.mean([np.mean(scores) for scores in by_category.values()])) if by_category else None

    @property
    def unknown(self) -> int:
        """Episodes that were excluded."""
        return sum(not record.known for record in self.records)

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        return {**asdict(self), "task_scores": self.task_scores(), "unknown": self.unknown}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Evaluation:
        """What `to_dict` gave, also after it has been JSON."""
        records = tuple(
            EpisodeRecord(
                **{
                    **record,
                    "statuses": tuple(record["statuses"]),
                    "turn_metrics": tuple(record["turn_metrics"]),
                    "shortfalls": tuple(record.get("shortfalls", ())),  # earlier versions did not write them
                }
            )
            for record in data["records"]
        )
        return cls(records, data["samples"], data["temperature"], data["executions"], data["seconds"])

    def _by_task(self, value: Callable[[EpisodeRecord], float]) -> dict[str, list[float]]:
        values: dict[str, list[float]] = {record.task: [] for record in self.records}
        for record in self.records:
            if record.known:
                values[record.task].append(value(record))
        return values


def evaluate(
    policy: Policy,
    env_fns: Sequence[Callable[[], gym.Env[Any, Any]]],
    tasks: Sequence[str],
    settings: EvaluationSettings | None = None,
    *,
    executor: Executor | None = None,
    reset_options: Callable[[str], Mapping[str, Any]] | None = None,
    measures: Mapping[str, TurnValues] | None = None,
    played: Sequence[Evaluation] = (),
    on_slice: Callable[[Evaluation], None] | None = None,
) -> Evaluation:
    """Play every task several times, in slices of as many tasks as `MAX_EPISODES` or `SAVED_EPISODES` allows.

    Args:
        policy: decides. If it has a ``concurrency``, that many episodes are played at once even where slices are saved.
        env_fns: make at least len(tasks) x samples environments; no more of them are used than play at once,
            ``samples`` in a row for each task.
        tasks: what to play.
        settings: see `EvaluationSettings`; None is as they are by default.
        executor: executes; None executes in this thread.
        reset_options: options of `reset` that begin an episode of a task.
        measures: by what a trajectory is valued, by name; None is the usual measure of the domain. The first gives an
            episode's ``metric``, further ones its ``others``, each by the episode's best turn.
        played: slices that an earlier call with the same arguments gave to ``on_slice``. They are not played again.
        on_slice: is given each finished slice, to save it.

    Raises:
        ValueError: if ``played`` is not the beginning of this evaluation; see `check_beginning`.
        ExecutorError: if too many executions in a row failed.
    """
    settings = settings or EvaluationSettings()
    samples, temperature = settings.samples, settings.temperature
    check_beginning(played, tasks, settings)
    started = time.perf_counter()
    at_once = max(1, _episodes_at_once(policy, executor, saved=on_slice is not None) // samples)
    vector_env = RewardProxyVectorEnv(
        env_fns[: min(len(tasks), at_once) * samples],
        None,
        executor,
        max_consecutive_failures=settings.max_consecutive_failures,
        share_executions=False,  # each episode is measured by itself
    )
    options = reset_options or (lambda task: {})
    plans = [GroupPlan(task, task, True, 1.0, samples, options(task)) for task in tasks]
    domain = vector_env.domain
    usual = domain.measures[0].name
    values = measures or {usual: partial(turn_values, measure=usual, success_status=domain.success_status)}
    slices = list(played)
    done = sum(len(part.records) for part in slices) // samples
    try:
        for start in range(done, len(plans), at_once):
            executed_before = vector_env.n_executions
            groups = collect(
                policy,
                vector_env,
                plans[start : start + at_once],
                seed=settings.seed,
                step=0,
                temperature=temperature,
                stream=EVALUATION_STREAM,
                before=plans[:start],
            )
            records = tuple(_record(group.task_id, t, values) for group in groups for t in group.trajectories)
            now = time.perf_counter()
            executions = vector_env.n_executions - executed_before
            slices.append(Evaluation(records, samples, temperature, executions, now - started))
            started = now
            if on_slice is not None:
                on_slice(slices[-1])
    finally:
        vector_env.close()
    return Evaluation(
        records=tuple(record for part in slices for record in part.records),
        samples=samples,
        temperature=temperature,
        executions=sum(part.executions for part in slices),
        seconds=sum(part.seconds for part in slices),
    )


def check_beginning(played: Sequence[Evaluation], tasks: Sequence[str], settings: EvaluationSettings) -> None:
    """Refuse slices that are not the first of an evaluation: others would be counted twice, or never played.

    Raises:
        ValueError: unless they hold ``samples`` episodes of each of the first ``tasks``, in order, at ``temperature``.
    """
    samples, temperature = settings.samples, settings.temperature
    found = [record.task for part in played for record in part.records]
    whole = [task for task in tasks for _ in range(samples)]
    other = any((part.samples, part.temperature) != (samples, temperature) for part in played)
    if other or len(found) % samples or found != whole[: len(found)]:
        raise ValueError(
            f"the {len(found)} episodes played already, of {', '.join(dict.fromkeys(found))}, are not the first of "
            f"this evaluation, which has {samples} of each task at temperature {temperature:g}: {', '.join(tasks)}"
        )


def turn_values(trajectory: Trajectory, measure: str, success_status: str | None = None) -> list[float | None]:
    """Value of each turn's submission, None where it achieved nothing.

    Args:
        trajectory: of one episode.
        measure: a key of `Outcome.details`; an outcome's score where that is missing or None.
        success_status: status of outcomes that achieved something; None counts all that were executed.
    """
    executed = [turn.executed for turn in trajectory.turns]
    return [
        None if outcome is None or success_status not in (None, outcome.status) else _value(outcome, measure)
        for outcome in executed
    ]


def _value(outcome: Outcome, measure: str) -> float | None:
    value = outcome.details.get(measure)
    return outcome.score if value is None else float(value)


def _best(values: Sequence[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)


def _episodes_at_once(policy: Policy, executor: Executor | None, saved: bool) -> int:
    if not saved:
        return MAX_EPISODES
    # Neither an executor of many places nor an agent that batches must run out of work because slices are small.
    busy = max(2 * (1 if executor is None else executor.capacity), concurrency(policy))
    return min(MAX_EPISODES, max(SAVED_EPISODES, busy))


def _record(task: str, trajectory: Trajectory, measures: Mapping[str, TurnValues]) -> EpisodeRecord:
    answered = not any(isinstance(turn.decision, UnansweredDecision) for turn in trajectory.turns)
    first, *others = measures
    values = measures[first](trajectory)
    return EpisodeRecord(
        task=task,
        metric=_best(values),
        # Who gave up before the first turn has failed: that is no fault of the machine.
        known=answered and (trajectory.executed_score is not None or not trajectory.turns),
        statuses=tuple("" if turn.executed is None else str(turn.executed.status) for turn in trajectory.turns),
        turn_metrics=tuple(values),
        others={name: _best(measures[name](trajectory)) for name in others},
        shortfalls=tuple(
            turn.decision.reason for turn in trajectory.turns if isinstance(turn.decision, IncompleteDecision)
        ),
    )
