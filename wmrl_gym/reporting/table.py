"""The table at the end of a run: what the agent could before and after, and what it cost."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from wmrl_gym.core import Measure
from wmrl_gym.reporting.bootstrap import Interval, Values, category_weights, difference_interval, mean_interval
from wmrl_gym.reporting.markup import markdown_table
from wmrl_gym.reporting.notation import Notation, are_successes, notation_of
from wmrl_gym.runs.records.run_directory import RunDirectory, write_atomically


@dataclass(frozen=True)
class HeldOutQuantity:
    """One held-out quantity, before and after; either is None if it was not measured."""

    name: str
    before: Interval | None
    after: Interval | None
    gain: Interval | None
    share: bool = True
    """Whether it is a share of 1."""


@dataclass(frozen=True)
class LanguageModelCost:
    """What predicting with a language model cost. Unknown is None."""

    asked: float
    """Submissions that were put to the model; others were decided without it."""
    prompt_tokens: float | None
    cached_tokens: float | None
    """Of the prompt's tokens, how many had been computed before."""
    generated_tokens: float | None
    seconds: float
    abstentions: float
    """Questions that were left without a usable answer."""
    suspicious: float
    """Strings in the agent's scripts that looked meant for the judge."""

    @classmethod
    def from_records(cls, records: Sequence[Mapping[str, Any]]) -> LanguageModelCost | None:
        """The sum over a run's metrics; None if they hold none of it."""
        told = [record for record in records if record.get("world_model/asked") is not None]
        if not told:
            return None

        def added(name: str) -> float | None:
            values = [record.get(f"world_model/{name}") for record in told]
            known = [value for value in values if value is not None]
            return sum(known) if known else None

        names = [field.name for field in fields(cls)]
        sums = {name: added(name) for name in names}
        return cls(**{name: value if "tokens" in name else value or 0.0 for name, value in sums.items()})  # type: ignore[arg-type]

    def line(self) -> str:
        """As a sentence."""

        def number(value: float | None) -> str:
            return "an unknown number of" if value is None else f"{value:,.0f}"

        cached = (
            ""
            if self.cached_tokens is None or not self.prompt_tokens
            else (f" ({self.cached_tokens / self.prompt_tokens:.0%} computed before)")
        )
        return (
            f"language model: {self.asked:.0f} scripts judged, {number(self.prompt_tokens)} prompt tokens{cached}, "
            f"{number(self.generated_tokens)} generated, {self.seconds:.0f} s; {self.abstentions:.0f} abstentions, "
            f"{self.suspicious:.0f} suspicious strings"
        )


@dataclass(frozen=True)
class Cost:
    """What a run spent."""

    trajectories: int
    executed_trajectories: int
    executions: int
    """Submissions really executed in training; an executed trajectory has up to one each turn."""
    seconds: Mapping[str, float]
    """Wall-clock seconds of each stage."""
    language_model: LanguageModelCost | None = None
    """What a world model that is a language model spent; None if there was none."""

    @property
    def executed_share(self) -> float:
        """Share of the trajectories that was really executed."""
        return self.executed_trajectories / self.trajectories if self.trajectories else 0.0


@dataclass(frozen=True)
class FinalTable:
    """All that is said at the end."""

    title: str
    samples: int
    """Episodes per task in the evaluations."""
    measures: tuple[HeldOutQuantity, ...]
    cost: Cost
    left_out: tuple[str, ...] = ()
    """Held-out tasks of which an evaluation has no result: they are in no measure."""

    def rows(self) -> list[tuple[str, str, str, str]]:
        """The measures as text: name, before, after, gain."""
        return [
            (one.name, _value(one.before, one.share), _value(one.after, one.share), _gain(one.gain, one.share))
            for one in self.measures
        ]

    def cost_lines(self) -> list[str]:
        """The cost as sentences, and before them what is not in the measures."""
        cost = self.cost
        absent = ", ".join(self.left_out)
        stages = ", ".join(f"{name} {seconds:.0f}" for name, seconds in cost.seconds.items())
        return [
            *([f"left out, because an evaluation has no result of them: {absent}"] if absent else []),
            f"really executed: {cost.executed_trajectories} of {cost.trajectories} training trajectories "
            f"({cost.executed_share:.1%}), {cost.executions} executions",
            f"seconds: {stages}; total {sum(cost.seconds.values()):.0f}",
            *([] if cost.language_model is None else [cost.language_model.line()]),
        ]

    def headings(self) -> tuple[str, str, str, str]:
        """Headings of `rows`."""
        return (f"held-out, avg@{self.samples}", "before", "after", "gain (95 % interval)")

    def markdown(self) -> str:
        """As Markdown."""
        lines = [f"### {self.title}", "", *markdown_table(self.headings(), self.rows(), left=len(self.headings()))]
        lines += ["", *(f"- {line}" for line in self.cost_lines()), ""]
        return "\n".join(lines)

    def print(self, console: Console) -> None:
        """On the terminal."""
        table = Table(title=self.title, title_justify="left", box=box.SIMPLE_HEAVY)
        for index, heading in enumerate(self.headings()):
            table.add_column(heading, justify="left" if index == 0 else "right")
        for row in self.rows():
            table.add_row(*row)
        console.print(table)
        for line in self.cost_lines():
            console.print(f" {line}", highlight=False, markup=False, soft_wrap=True)

    def write(self, run: RunDirectory) -> None:
        """As table.md and table.json in the run's folder."""
        write_atomically(run.path / "table.md", self.markdown())
        data: dict[str, Any] = {**asdict(self), "executed_share": self.cost.executed_share}
        write_atomically(run.path / "table.json", json.dumps(data, indent=2))


def quantity(
    name: str,
    before: Values | None,
    after: Values | None,
    weights: Mapping[str, float] | None = None,
    *,
    share: bool = True,
) -> HeldOutQuantity:
    """A quantity from its values per task and episode, with bootstrap intervals; ``weights`` of the tasks, if any."""
    gain = difference_interval(before, after, weights) if before is not None and after is not None else None
    return HeldOutQuantity(
        name,
        None if before is None else mean_interval(before, weights, share=share),
        None if after is None else mean_interval(after, weights, share=share),
        gain,
        share,
    )


def quantities_of(
    measure: Measure,
    before: Mapping[str, Any] | None,
    after: Mapping[str, Any] | None,
    categories: Mapping[str, str] | None = None,
    success_status: str | None = None,
) -> list[HeldOutQuantity]:
    """Everything there is to say of two evaluations of the same tasks.

    Args:
        measure: by which the episodes were valued.
        before: "scores" and "achieved" of the episodes by task, as an evaluation file holds them; None if not measured.
        after: likewise.
        categories: of the tasks, if their means are to be weighed alike.
        success_status: what the domain calls an outcome that achieved something; None if it does not say.
    """
    scores_before, scores_after = _comparable(before, after, "scores")
    told = [scores for scores in (scores_before, scores_after) if scores]
    if not told:
        return []
    successes = are_successes(score for scores in told for episodes in scores.values() for score in episodes)
    share = notation_of(measure, successes=successes).is_share
    name = measure.name
    found = [quantity(name, scores_before, scores_after, share=share)]
    if categories is not None and all(set(scores) == set(categories) for scores in told):
        title = f"{name}, categories weighed alike"
        found.append(quantity(title, scores_before, scores_after, category_weights(categories), share=share))
    # An evaluation that an earlier version wrote does not say what was achieved.
    if success_status is not None and all("achieved" in made for made in (before, after) if made is not None):
        found.append(quantity(f"{success_status} share", *_comparable(before, after, "achieved")))
    elif successes:
        for title, counts in (("all of k succeed", all), ("any of k succeeds", any)):
            found.append(_share_of_tasks(title, counts, scores_before, scores_after))
    return found


def tasks_without_result(*evaluations: Mapping[str, Any] | None) -> tuple[str, ...]:
    """Tasks of which one of the evaluations that were made has no result; arguments as in `quantities_of`."""
    made = [evaluation["scores"] for evaluation in evaluations if evaluation is not None]
    return tuple(sorted({task for scores in made for task, episodes in scores.items() if not episodes}))


def _comparable(
    before: Mapping[str, Any] | None, after: Mapping[str, Any] | None, key: str
) -> tuple[Values | None, Values | None]:
    """Both without the tasks of which one has no result: a gain between other tasks would be none of the agent's."""
    absent = tasks_without_result(before, after)
    pair = [None if r is None else {t: v for t, v in r[key].items() if t not in absent} for r in (before, after)]
    return pair[0] or None, pair[1] or None


def _share_of_tasks(
    title: str, counts: Callable[[Sequence[float]], bool], before: Values | None, after: Values | None
) -> HeldOutQuantity:
    """Share of the tasks whose episodes count. The tasks are drawn anew, for each has one such number.

    The gain draws a task with both its numbers: before and after it is the same task.
    """
    shares = [
        None if scores is None else {task: float(counts(episodes)) for task, episodes in scores.items()}
        for scores in (before, after)
    ]
    intervals = [None if row is None else mean_interval({"tasks": list(row.values())}, share=True) for row in shares]
    gain = None
    if shares[0] is not None and shares[1] is not None:
        gain = mean_interval({"tasks": [shares[1][task] - shares[0][task] for task in shares[0]]})
    return HeldOutQuantity(title, intervals[0], intervals[1], gain)


def _value(interval: Interval | None, share: bool) -> str:
    return "-" if interval is None else Notation(share).value(interval.estimate)


def _gain(interval: Interval | None, share: bool) -> str:
    if interval is None:
        return "-"
    estimate, low, high = map(Notation(share).change, (interval.estimate, interval.low, interval.high))
    return f"{estimate} ({low} to {high})"
