"""The table at the end of a run: what the agent could before and after, and what it cost."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from wmrl_gym.reporting.bootstrap import Interval, Values, difference_interval, mean_interval
from wmrl_gym.reporting.run_directory import RunDirectory, write_atomically


@dataclass(frozen=True)
class Measure:
    """One held-out quantity, before and after; either is None if it was not measured."""

    name: str
    before: Interval | None
    after: Interval | None
    gain: Interval | None


@dataclass(frozen=True)
class Cost:
    """What a run spent."""

    trajectories: int
    executed_trajectories: int
    executions: int
    """Submissions really executed in training; an executed trajectory has up to one each turn."""
    seconds: Mapping[str, float]
    """Wall-clock seconds of each stage."""

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
    measures: tuple[Measure, ...]
    cost: Cost

    def rows(self) -> list[tuple[str, str, str, str]]:
        """The measures as text: name, before, after, gain."""
        return [
            (measure.name, _share(measure.before), _share(measure.after), _gain(measure.gain))
            for measure in self.measures
        ]

    def cost_lines(self) -> list[str]:
        """The cost as sentences."""
        cost = self.cost
        stages = ", ".join(f"{name} {seconds:.0f}" for name, seconds in cost.seconds.items())
        return [
            f"really executed: {cost.executed_trajectories} of {cost.trajectories} training trajectories "
            f"({cost.executed_share:.1%}), {cost.executions} scripts",
            f"seconds: {stages}; total {sum(cost.seconds.values()):.0f}",
        ]

    def headings(self) -> tuple[str, str, str, str]:
        """Headings of `rows`."""
        return (f"held-out, avg@{self.samples}", "before", "after", "gain (95 % interval)")

    def markdown(self) -> str:
        """As Markdown."""
        lines = [f"### {self.title}", ""]
        lines += ["| " + " | ".join(self.headings()) + " |", "| --- | --- | --- | --- |"]
        lines += ["| " + " | ".join(row) + " |" for row in self.rows()]
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
            console.print(f" {line}", highlight=False, soft_wrap=True)

    def write(self, run: RunDirectory) -> None:
        """As table.md and table.json in the run's folder."""
        write_atomically(run.path / "table.md", self.markdown())
        data: dict[str, Any] = {**asdict(self), "executed_share": self.cost.executed_share}
        write_atomically(run.path / "table.json", json.dumps(data, indent=2))


def measure(
    name: str, before: Values | None, after: Values | None, weights: Mapping[str, float] | None = None
) -> Measure:
    """A quantity from its values per task and episode, with bootstrap intervals; ``weights`` of the tasks, if any."""
    gain = difference_interval(before, after, weights) if before is not None and after is not None else None
    return Measure(
        name,
        None if before is None else mean_interval(before, weights),
        None if after is None else mean_interval(after, weights),
        gain,
    )


def restricted(values: Values | None, tasks: Sequence[str]) -> Values | None:
    """Only some of the tasks."""
    return None if values is None else {task: values[task] for task in tasks}


def _share(interval: Interval | None) -> str:
    return "-" if interval is None else f"{interval.estimate:.1%}"


def _gain(interval: Interval | None) -> str:
    if interval is None:
        return "-"
    return f"{100 * interval.estimate:+.1f} ({100 * interval.low:+.1f} to {100 * interval.high:+.1f})"
