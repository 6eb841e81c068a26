"""The report's tables, as HTML. Everything that comes from a run is escaped here."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import numpy as np

from wmrl_gym.reporting.notation import Notation, duration
from wmrl_gym.reporting.report.curves import executed_seconds, mean_curve
from wmrl_gym.reporting.report.loading import RecordedRun

NONE = "–"


def run_table(runs: Sequence[RecordedRun]) -> str:
    """What each run is and what it spent."""
    executed = ("executed trajectories", "executed scripts", "executed seconds")
    headings = ("run", "experiment", "seed", "steps", *executed, "wall-clock")
    rows = [
        [
            escape(run.name),
            escape(run.experiment),
            NONE if run.seed is None else str(run.seed),
            _steps(run),
            _executed_share(run),
            _sum(run, "executions"),
            _number(None if (seconds := executed_seconds(run)) is None else sum(seconds.values()), "{:.0f} s"),
            _wall_clock(run),
        ]
        for run in runs
    ]
    return _table(headings, rows)


def result_tables(groups: Mapping[str, Sequence[RecordedRun]]) -> str:
    """Held-out results before and after training: one table per measure, and a mean where runs share an experiment."""
    names = list(dict.fromkeys(m["name"] for runs in groups.values() for run in runs for m in _measures(run)))
    parts = []
    for name in names:
        rows = []
        found = {
            experiment: [(run, m) for run in runs for m in _measures(run) if m["name"] == name]
            for experiment, runs in groups.items()
        }
        notation = _notation([one for measures in found.values() for _, one in measures])
        for experiment, measures in found.items():
            for run, one in measures:
                cells = [_value(_estimate(one, when), notation) for when in ("before", "after")]
                rows.append([escape(run.name), *cells, _gain(one.get("gain"), notation)])
            if len(measures) > 1:
                rows.append(_mean_row(experiment, [one for _, one in measures], notation))
        parts.append(_table((name, "before", "after", "gain (95 % interval)"), rows))
    return "\n".join(parts)


def note_list(runs: Sequence[RecordedRun]) -> str:
    """What is missing in which run; empty if nothing is."""
    by_note: dict[str, list[str]] = {}
    for run in runs:
        for note in run.notes:
            by_note.setdefault(note, []).append(run.name)
    items = []
    for note, names in by_note.items():
        who = "Every run" if len(names) == len(runs) > 1 else ", ".join(names)
        items.append(f"<li><b>{escape(who)}</b>: {escape(note)}</li>")
    return f"<ul>{''.join(items)}</ul>" if items else ""


def _measures(run: RecordedRun) -> list[dict[str, Any]]:
    measures = (run.table or {}).get("measures")
    return [m for m in measures if isinstance(m, dict) and m.get("name")] if isinstance(measures, list) else []


def _estimate(measure: Mapping[str, Any], when: str) -> float | None:
    interval = measure.get(when)
    value = interval.get("estimate") if isinstance(interval, dict) else None
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None


def _mean_row(experiment: str, measures: Sequence[Mapping[str, Any]], notation: Notation) -> list[str]:
    """Mean over seeds; the gain's interval is over seeds (Student's t), not over episodes."""
    whens = ("before", "after", "gain")
    columns = {when: [v for m in measures if (v := _estimate(m, when)) is not None] for when in whens}
    means = [_value(float(np.mean(columns[when])) if columns[when] else None, notation) for when in ("before", "after")]
    curve = mean_curve([{0: value} for value in columns["gain"]])
    gain = NONE
    if curve.mean:
        low, high = curve.low[0], curve.high[0]
        gain = _gain({"estimate": curve.mean[0], "low": low, "high": high}, notation)
    cells = [f"mean of {len(measures)} runs of {escape(experiment)}", *means, gain]
    return [f"<b>{cell}</b>" for cell in cells]


def _steps(run: RecordedRun) -> str:
    algorithm = run.config.get("algorithm")
    planned = algorithm.get("steps") if isinstance(algorithm, dict) else None
    done = len(run.metrics)
    return f"{done} of {planned}" if isinstance(planned, int) and planned != done else str(done)


def _executed_share(run: RecordedRun) -> str:
    shares = [v for record in run.metrics if isinstance(v := record.get("executed_share"), int | float)]
    return _number(float(np.mean(shares)) if shares else None, "{:.1%}")


def _sum(run: RecordedRun, name: str) -> str:
    values = [v for record in run.metrics if isinstance(v := record.get(name), int | float)]
    return _number(sum(values) if values else None, "{:.0f}")


def _wall_clock(run: RecordedRun) -> str:
    seconds = [
        value
        for record in run.metrics
        for name, value in record.items()
        if name.startswith("seconds/") and isinstance(value, int | float)
    ]
    return duration(sum(seconds)) if seconds else NONE


def _number(value: float | None, form: str) -> str:
    return NONE if value is None else form.format(value)


def _notation(measures: Sequence[Mapping[str, Any]]) -> Notation:
    """How measures of one name are written; tables that do not say so are of shares."""
    return Notation(all(one.get("share", True) for one in measures))


def _value(value: float | None, notation: Notation) -> str:
    return NONE if value is None else notation.value(value)


def _gain(interval: Any, notation: Notation) -> str:
    if not isinstance(interval, dict) or not isinstance(interval.get("estimate"), int | float):
        return NONE
    text = notation.change(interval["estimate"])
    low, high = interval.get("low"), interval.get("high")
    if isinstance(low, int | float) and isinstance(high, int | float):
        text += f" ({notation.change(low)} to {notation.change(high)})"
    return text


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Cells are HTML already; headings are not. It scrolls by itself where it is too wide for the page."""
    head = "".join(f'<th scope="col">{escape(heading)}</th>' for heading in headings)
    body = "".join(
        "<tr>" + f'<th scope="row">{row[0]}</th>' + "".join(f"<td>{cell}</td>" for cell in row[1:]) + "</tr>"
        for row in rows
    )
    caption = escape(headings[0])
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{caption}">'
        f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )
