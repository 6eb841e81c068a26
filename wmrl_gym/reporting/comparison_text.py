"""A comparison as tables: Markdown to read, LaTeX for a paper, plain data for everything else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from wmrl_gym.reporting.bootstrap import Interval
from wmrl_gym.reporting.comparison import ArmResult, Comparison, Reach
from wmrl_gym.reporting.comparison_curve import AXES
from wmrl_gym.reporting.comparison_training import InTraining, Kind
from wmrl_gym.reporting.markup import latex_row, markdown_table
from wmrl_gym.reporting.notation import PERCENT, PLAIN, Notation, notation_of

Table = tuple[list[str], list[list[str]]]
"""Headings and rows; the first column is text, the others are numbers."""

NOT_REACHED = "not reached"
_TRAINING_NOTES: dict[Kind, str] = {
    "achieved": "Share in training: of the turns whose outcome had that status in the last third of an arm's steps, as "
    "the agent was told (where nothing was executed, by the world model)",
    "executed score": "Executed score in training: mean score of the episodes that were really executed in the last "
    "third of an arm's steps",
}


def to_data(comparison: Comparison) -> dict[str, Any]:
    """As plain data; what is unknown or was not reached is None."""
    return asdict(comparison)


def final_table(comparison: Comparison) -> Table:
    """Final scores, how well each arm did in training at the end, and costs."""
    kind = comparison.in_training
    notation = _notation(comparison)
    headings = ["arm", f"final {comparison.measure.name}", "gain"]
    headings += [] if comparison.reference is None else [f"minus {comparison.reference}"]
    headings += [] if kind is None else [f"{comparison.success_status if kind == 'achieved' else kind} in training"]
    rows = []
    for result in comparison.arms:
        row = [result.arm, _value(result.final, notation), _change(result.gain, notation)]
        if comparison.reference is not None:
            row.append("-" if result.difference is None else _change(result.difference, notation))
        if kind is not None:
            row.append(_in_training(result.in_training, kind))
        rows.append([*row, *(f"{result.cost[axis]:,.0f}" for axis in AXES)])
    return [*headings, *AXES.values()], rows


def training_note(comparison: Comparison) -> str | None:
    """What the column of training is, of which steps, and from how many episodes; None if there is no such column."""
    if comparison.in_training is None:
        return None
    arms: dict[str, list[str]] = {}
    for result in comparison.arms:
        if (end := result.in_training) is not None:
            steps = f"steps {end.first_step} to {end.last_step}" if end.first_step < end.last_step else "the last step"
            where = f"{steps}, n = {end.episodes:,} episodes"
            arms.setdefault(where, []).append(result.arm)
    named = [where if len(arms) == 1 else f"{where} ({', '.join(names)})" for where, names in arms.items()]
    intervals = " Intervals are over seeds alone." if len(comparison.seeds) > 1 else ""
    return f"{_TRAINING_NOTES[comparison.in_training]}: {'; '.join(named) or 'unknown'}.{intervals}"


def seed_table(comparison: Comparison) -> Table:
    """Final score of each seed."""
    notation = _notation(comparison)
    headings = ["arm", *(f"seed {seed}" for seed in comparison.seeds)]
    return headings, [[arm.arm, *(notation.value(run.final) for run in arm.runs)] for arm in comparison.arms]


def reach_table(comparison: Comparison) -> Table:
    """Ratios of cost to reach the reference's final score."""
    headings = ["arm", *AXES.values(), "reached in"]
    return headings, [
        [result.arm, *(_reach(result.reach[axis]) for axis in AXES), _reached(result)] for result in comparison.arms
    ]


def stage_table(comparison: Comparison) -> Table:
    """Wall-clock seconds of training by stage."""
    names = list(dict.fromkeys(name for result in comparison.arms for name in result.stages))
    return ["arm", *names], [
        [result.arm, *(f"{result.stages[name]:,.0f}" if name in result.stages else "-" for name in names)]
        for result in comparison.arms
    ]


def markdown(comparison: Comparison, title: str, command: str) -> str:
    """All tables, with what has to be known to read them."""
    lines = [f"# {title}", "", f"`{command}`", ""]
    lines += markdown_table(*final_table(comparison))
    lines += ["", f"Means over {_seeds(comparison)}; in parentheses {comparison.level:.0%} intervals of a bootstrap"]
    lines[-1] += " over seeds and over episodes within tasks. Costs are those of training, without evaluations."
    if (note := training_note(comparison)) is not None:
        lines.append(note)
    if len(comparison.seeds) < 2:
        lines.append("One seed: the intervals speak of the episodes alone, not of other seeds.")
    else:
        heading = f"Final {comparison.measure.name}, seed by seed:"
        lines += ["", heading, "", *markdown_table(*seed_table(comparison)), ""]
    if comparison.left_out:
        lines.append(f"Left out, because an evaluation has no result of them: {', '.join(comparison.left_out)}.")
    if comparison.target is not None:
        who = comparison.reference
        target = _notation(comparison).value(comparison.target)
        lines += ["", f"Cost to reach {target}, {who}'s level at its end, divided by what {who} paid:"]
        lines += ["", *markdown_table(*reach_table(comparison)), ""]
        if all(reach.ratio is None for result in comparison.arms for reach in result.reach.values()):
            lines.append(f"{who} gained nothing that it could hold, so there is nothing to reach.")
        lines.append(
            "Each curve is made monotone first, so a score counts as reached if it is held. *Reached in* is the share "
            "of the bootstrap's resamples in which the arm gets there at all."
        )
        defined = [r.ratio.defined for result in comparison.arms for r in result.reach.values() if r.ratio is not None]
        if defined and min(defined) < 1:
            lines.append(
                f"In {1 - min(defined):.0%} of the resamples {who} itself gained nothing, so there is no ratio: they "
                "are left out of the intervals and of *reached in*."
            )
    lines += ["", "Wall-clock seconds by stage:", "", *markdown_table(*stage_table(comparison)), ""]
    return "\n".join(lines)


def latex(comparison: Comparison) -> str:
    """The tables as LaTeX `tabular`s, without packages."""
    tables = [final_table(comparison)]
    if comparison.reference is not None:
        tables.append(reach_table(comparison))
    note = training_note(comparison)
    return "\n".join([*([] if note is None else [f"% {note}"]), *map(_latex_table, tables)])


def _latex_table(table: Table) -> str:
    headings, rows = table
    body = [latex_row(cells) for cells in [headings, *rows]]
    lines = [r"\begin{tabular}{l" + "r" * (len(headings) - 1) + "}", r"\hline", body[0], r"\hline", *body[1:]]
    return "\n".join([*lines, r"\hline", r"\end{tabular}", ""])


def _notation(comparison: Comparison) -> Notation:
    return notation_of(comparison.measure, successes=comparison.successes)


def _seeds(comparison: Comparison) -> str:
    count = len(comparison.seeds)
    return f"{count} seed{'s' if count > 1 else ''} ({', '.join(map(str, comparison.seeds))})"


def _value(interval: Interval, notation: Notation) -> str:
    return f"{notation.value(interval.estimate)} ({notation.bound(interval.low)} to {notation.bound(interval.high)})"


def _change(interval: Interval, notation: Notation) -> str:
    estimate, low, high = map(notation.change, (interval.estimate, interval.low, interval.high))
    return f"{estimate} ({low} to {high})"


def _in_training(result: InTraining | None, kind: Kind) -> str:
    if result is None:
        return "-"
    notation = PERCENT if kind == "achieved" else PLAIN
    text = notation.value(result.estimate)
    if result.low is None or result.high is None:
        return text
    return f"{text} ({notation.bound(result.low)} to {notation.bound(result.high)})"


def _reach(reach: Reach) -> str:
    ratio = reach.ratio
    if ratio is None:
        return "no ratio"
    if ratio.estimate is None and ratio.low is None:
        return NOT_REACHED
    estimate, low, high = (_times(value) for value in (ratio.estimate, ratio.low, ratio.high))
    return f"{estimate} ({low} to {high})"


def _times(value: float | None) -> str:
    return NOT_REACHED if value is None else f"{value:.2f}"


def _reached(result: ArmResult) -> str:
    ratios: Sequence[float] = [reach.ratio.reached for reach in result.reach.values() if reach.ratio is not None]
    return f"{ratios[0]:.0%}" if ratios else "-"
