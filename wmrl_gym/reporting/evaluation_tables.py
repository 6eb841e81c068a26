"""What an evaluation says: task by task, category by category, on average, and turn by turn.

Built from the plain data of an evaluation, so that tables can be made again from its JSON file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from wmrl_gym.reporting.bootstrap import Values, category_weights, mean_interval
from wmrl_gym.reporting.notation import PERCENT, Notation, are_successes, measure_of, notation_of
from wmrl_gym.reporting.pass_at_k import all_at_k, curve, pass_at_k

_REASONS = {
    "length": "at the limit of tokens",
    "refusal": "refusals",
    "tool_calls": "calls of tools",
    "thoughts": "of thoughts alone",
    "context": "for which the context was too short",
}


@dataclass(frozen=True)
class Number:
    """A quantity and the bounds of its 95 % bootstrap interval, if it has one."""

    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Row:
    """A task, a category or an average. Unknown is None."""

    name: str
    kind: Literal["task", "category", "average"]
    category: str | None
    tasks: int
    episodes: int
    """Those with a result."""
    score: Number | None
    others: Mapping[str, Number | None]
    achieved: Number | None
    """Share of its episodes that achieved something."""
    pass_at_k: Number | None
    all_at_k: Number | None


@dataclass(frozen=True)
class Turn:
    """Mean over the tasks of what was reached up to a turn, failures counted as 0."""

    turn: int
    best: Number
    achieved: Number


@dataclass(frozen=True)
class EvaluationTables:
    """All tables of one evaluation."""

    title: str
    measure: str
    share: bool
    """Whether the measure is a share of 1."""
    success_status: str | None
    """What the domain calls an outcome that achieved something, if the share of such episodes is shown."""
    samples: int
    k: int
    success: str
    """In words, when an episode succeeds."""
    rows: tuple[Row, ...]
    turns: tuple[Turn, ...]
    curve: Mapping[int, tuple[float, float]]
    """k -> mean over the tasks of (pass@k, All@k), for every k that all tasks have episodes for."""
    executions: int
    seconds: float
    unknown: int
    """Episodes without a result, which count nowhere."""
    shortfalls: Mapping[str, int]
    """Answers that were not the whole text that was asked for, by reason. Their episodes count."""

    def to_dict(self) -> dict[str, Any]:
        """As plain data."""
        return asdict(self)

    @property
    def other_measures(self) -> tuple[str, ...]:
        """Names of the measures beside the main one."""
        return tuple(self.rows[0].others) if self.rows else ()

    def headings(self) -> list[str]:
        """Headings of `cells`."""
        achieved = [] if self.success_status is None else [self.success_status]
        names = [name.replace("_", " ") for name in (self.measure, *self.other_measures)]
        return ["task", "category", *names, *achieved, f"pass@{self.k}", f"All@{self.k}"]

    def cells(self, row: Row, *, intervals: bool = True) -> list[str]:
        """A row as text."""
        shares = [*(row.others[name] for name in self.other_measures)]
        shares += [] if self.success_status is None else [row.achieved]
        shares += [row.pass_at_k, row.all_at_k]
        score = self.score_text(row.score, intervals)
        return [row.name, row.category or "", score, *(share(number, intervals) for number in shares)]

    def score_text(self, number: Number | None, interval: bool = True) -> str:
        """A number of the main measure as text."""
        return _text(number, interval, Notation(self.share))

    def turn_lines(self, *, intervals: bool = True) -> tuple[list[str], list[list[str]]]:
        """Header and rows of the table turn by turn."""
        header = ["best so far, mean over tasks", *(f"turn {turn.turn}" for turn in self.turns)]
        lines = [[self.measure.replace("_", " "), *(self.score_text(turn.best, intervals) for turn in self.turns)]]
        if self.success_status is not None:
            lines.append([self.success_status, *(share(turn.achieved, intervals) for turn in self.turns)])
        return header, lines

    def notes(self) -> list[str]:
        """What has to be said beside the tables."""
        lost = ", ".join(row.name for row in self.rows if row.kind == "task" and not row.episodes)
        return [
            *([f"In no mean, because no episode has a result: {lost}."] if lost else []),
            f"{self.samples} episodes a task; failures count 0; brackets are 95 % bootstrap intervals over episodes "
            "(of pass@k and All@k over tasks).",
            f"An episode succeeds {self.success}.",
            f"{self.executions} executions in {self.seconds:.0f} s; {self.unknown} episodes without a result.",
            *self._shortfall_notes(),
        ]

    def _shortfall_notes(self) -> list[str]:
        if not self.shortfalls:
            return []
        counts = ", ".join(f"{count} {_REASONS.get(reason, reason)}" for reason, count in self.shortfalls.items())
        return [f"Answers that were not the whole text that was asked for, and counted as they were: {counts}."]


def share(number: Number | None, interval: bool = True) -> str:
    """A share as text, for example ``41.2% [38.0, 44.1]``; ``-`` if unknown."""
    return _text(number, interval, PERCENT)


def _text(number: Number | None, interval: bool, notation: Notation) -> str:
    if number is None:
        return "-"
    text = notation.value(number.value)
    if not interval or number.low is None or number.high is None:
        return text
    return f"{text} [{notation.bound(number.low)}, {notation.bound(number.high)}]"


def evaluation_tables(
    data: Mapping[str, Any],
    *,
    title: str,
    categories: Mapping[str, str] | None = None,
    k: int | None = None,
    success: float | None = None,
) -> EvaluationTables:
    """Tables of an evaluation.

    Args:
        data: plain data of an evaluation, as `runs.evaluating.as_data` makes it.
        title: of the tables.
        categories: of the tasks; None leaves out everything by category.
        k: of pass@k and All@k; None is the number of episodes per task. With fewer than the episodes, the unbiased
            estimates are used.
        success: score with which an episode succeeds; None is with anything achieved. Scores that are all 0 or 1 are
            successes by themselves, except those of graded measures.
    """
    records: Sequence[Mapping[str, Any]] = [record for record in data["records"] if record["known"]]
    tasks = list(dict.fromkeys(record["task"] for record in data["records"]))
    k = k or int(data["samples"])
    measure, status = measure_of(data), data.get("success_status")
    plain = not measure.is_graded and are_successes(record["metric"] or 0.0 for record in records)
    succeeds, words = _success(success, measure.name, status, plain)
    by_task = {task: [record for record in records if record["task"] == task] for task in tasks}
    build = _Rows(by_task, categories, k, succeeds)
    known = [task for task in tasks if by_task[task]]
    return EvaluationTables(
        title=title,
        measure=measure.name,
        share=notation_of(measure, successes=plain).is_share,
        success_status=None if plain else status,
        samples=int(data["samples"]),
        k=k,
        success=words,
        rows=tuple(build.rows(tasks)),
        turns=tuple(_turns({task: by_task[task] for task in known})),
        curve=_mean_curve([curve([succeeds(record) for record in by_task[task]]) for task in known]),
        executions=int(data["executions"]),
        seconds=float(data["seconds"]),
        unknown=len(data["records"]) - len(records),
        shortfalls=dict(Counter(reason for record in records for reason in record.get("shortfalls") or ())),
    )


def _success(
    success: float | None, measure: str, status: str | None, plain: bool
) -> tuple[Callable[[Mapping[str, Any]], bool], str]:
    if plain:
        return (lambda record: record["metric"] == 1.0), f"where its {measure} is 1"
    if success is None:
        words = "with anything handed in" if status is None else f"with an outcome that is {status}"
        return (lambda record: record["metric"] is not None), words
    words = f"with a {measure.replace('_', ' ')} of {success:g} or more"
    return (lambda record: record["metric"] is not None and record["metric"] >= success), words


class _Rows:
    """Makes the rows of one evaluation."""

    def __init__(
        self,
        by_task: Mapping[str, Sequence[Mapping[str, Any]]],
        categories: Mapping[str, str] | None,
        k: int,
        succeeds: Callable[[Mapping[str, Any]], bool],
    ) -> None:
        self.by_task = by_task
        self.categories = categories
        self.k = k
        self.succeeds = succeeds
        others = (record.get("others") or {} for records in by_task.values() for record in records)
        self.others = list(dict.fromkeys(name for other in others for name in other))

    def rows(self, tasks: Sequence[str]) -> list[Row]:
        rows = [self._row(task, "task", [task], category=(self.categories or {}).get(task)) for task in tasks]
        known = [task for task in tasks if self.by_task[task]]
        if self.categories is not None:
            for category in dict.fromkeys(self.categories[task] for task in tasks):
                members = [task for task in known if self.categories[task] == category]
                rows.append(self._row(category, "category", members))
        rows.append(self._row("mean over tasks", "average", known))
        if self.categories is not None and known:
            weights = category_weights({task: self.categories[task] for task in known})
            rows.append(self._row("mean over categories", "average", known, weights))
        return rows

    def _row(
        self,
        name: str,
        kind: Literal["task", "category", "average"],
        members: Sequence[str],
        weights: Mapping[str, float] | None = None,
        category: str | None = None,
    ) -> Row:
        def mean(value: Callable[[Mapping[str, Any]], float]) -> Number | None:
            values = {task: [value(record) for record in self.by_task[task]] for task in members}
            return _interval(values, weights)

        return Row(
            name=name,
            kind=kind,
            category=category,
            tasks=len(members),
            episodes=sum(len(self.by_task[task]) for task in members),
            score=mean(lambda record: record["metric"] or 0.0),
            others={other: mean(lambda record, o=other: record["others"].get(o) or 0.0) for other in self.others},  # type: ignore[misc]
            achieved=mean(lambda record: float(record["metric"] is not None)),
            pass_at_k=self._over_tasks(pass_at_k, members, weights),
            all_at_k=self._over_tasks(all_at_k, members, weights),
        )

    def _over_tasks(
        self,
        estimate: Callable[[int, int, int], float | None],
        members: Sequence[str],
        weights: Mapping[str, float] | None,
    ) -> Number | None:
        """Mean of an estimate; its interval draws the tasks anew, for each has one such number."""
        counts = [
            (len(records), sum(map(self.succeeds, records))) for records in map(self.by_task.__getitem__, members)
        ]
        estimates = [estimate(n, c, self.k) for n, c in counts]
        known = [value for value in estimates if value is not None]
        if not known or len(known) < len(estimates):
            return None
        if weights is not None:
            return Number(float(np.average(known, weights=[weights[task] for task in members])))
        if len(known) == 1:
            return Number(known[0])
        return _interval({"tasks": known}, None)


def _interval(values: Values, weights: Mapping[str, float] | None) -> Number | None:
    if not values or not all(len(episodes) for episodes in values.values()):
        return None
    interval = mean_interval(values, weights)
    if all(len(episodes) == 1 for episodes in values.values()):  # one episode says nothing of the spread
        return Number(interval.estimate)
    return Number(interval.estimate, interval.low, interval.high)


def _turns(by_task: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[Turn]:
    """An episode that ended early keeps what it had reached."""
    longest = max((len(record["turn_metrics"]) for records in by_task.values() for record in records), default=0)
    turns = []
    for end in range(1, longest + 1):
        reached = {task: [_reached(record, end) for record in records] for task, records in by_task.items()}
        best = _interval({t: [value or 0.0 for value in values] for t, values in reached.items()}, None)
        achieved = _interval({t: [float(v is not None) for v in values] for t, values in reached.items()}, None)
        if best is not None and achieved is not None:
            turns.append(Turn(end, best, achieved))
    return turns


def _reached(record: Mapping[str, Any], end: int) -> float | None:
    return max((value for value in record["turn_metrics"][:end] if value is not None), default=None)


def _mean_curve(curves: Sequence[Mapping[int, tuple[float, float]]]) -> dict[int, tuple[float, float]]:
    most = min((len(curve) for curve in curves), default=0)
    means = {k: np.mean([curve[k] for curve in curves], axis=0) for k in range(1, most + 1)}
    return {k: (float(mean[0]), float(mean[1])) for k, mean in means.items()}
