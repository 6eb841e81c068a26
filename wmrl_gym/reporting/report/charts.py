"""The report's charts, as Plotly's plain data.

Colours are named by the style sheet's variables ("var(--series-1)"), which the page's script looks up, so that a chart
follows the reader from light to dark. Every chart over steps carries its other abscissae in ``meta.x``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from wmrl_gym.reporting.report.agreement_over_time import Calibration, calibrations, status_accuracy
from wmrl_gym.reporting.report.curves import Curve, Series, mean_costs, mean_curve, metric
from wmrl_gym.reporting.report.loading import RecordedRun

Groups = Mapping[str, Sequence[RecordedRun]]
N_COLOURS = 8
LEAST_FOR_BAND = 3
"""Runs from which an interval over seeds is drawn."""
FEW_STEPS = 15
"""A curve with fewer gets dots."""
STAGES: Mapping[str, str] = {
    "generate": "generate", "predict": "predict", "execute": "execute (waiting)", "score": "score", "record": "record",
    "update": "update",
}  # fmt: skip


@dataclass(frozen=True)
class Chart:
    """One chart of the page."""

    key: str
    title: str
    note: str
    """What is drawn, in a sentence."""
    data: list[dict[str, Any]]
    layout: dict[str, Any]

    def as_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {"key": self.key, "title": self.title, "data": self.data, "layout": self.layout}


@dataclass(frozen=True)
class Line:
    """One quantity of a chart over steps."""

    take: Callable[[RecordedRun], Series]
    label: str = ""
    """Tells several quantities of one chart apart."""
    dash: str = "solid"


LEARNING: tuple[tuple[str, str, str], ...] = (
    ("reward", "Reward", "Mean over the step's trajectories: executed in anchor groups, calibrated in others."),
    ("predicted_score", "Predicted score", "Mean score that the world model predicted."),
    ("executed_score", "Executed score", "Mean score of the trajectories that were really executed."),
    ("flat_groups", "Flat groups", "Share of groups without variance, from which nothing is learned."),
    ("kl", "KL divergence", "From the reference policy."),
    ("entropy", "Entropy", "Of the policy, per token."),
)


def learning_charts(groups: Groups) -> list[Chart]:
    """What the agent learned, over the cost of the reader's choice. Quantities nobody recorded are left out."""
    runs = [run for group in groups.values() for run in group]
    told = [evaluation.get("success_status") for run in runs for evaluation in run.evaluations.values()]
    statuses = dict.fromkeys(status for status in told if status is not None)
    shares = [
        (f"status/{status}", f"{status.capitalize()} share", f"Share of turns that were told the status {status}.")
        for status in statuses
    ]
    charts = [
        _over_steps(groups, f"learning-{name.replace('/', '-')}", title, note, [Line(metric(name))])
        for name, title, note in (*LEARNING, *shares)
    ]
    return [chart for chart in charts if chart is not None]


def fusion_charts(groups: Groups) -> list[Chart]:
    """Residual and weight of the two streams."""
    residuals = [
        Line(metric("proxy/residual"), "η̂²"),
        Line(metric("proxy/residual_calibration"), "η̂² of the warm-up", "dash"),
    ]
    charts = (
        _over_steps(
            groups, "fusion-residual", "Residual η̂²",
            "Disagreement inside anchor groups after calibration, in units of the executed variance; 0 is perfect.",
            residuals,
        ),
        _over_steps(
            groups, "fusion-rho", "Weight ρ of an anchor group", "Beside a world-model group, which weighs 1.",
            [Line(metric("proxy/rho"))],
        ),
    )  # fmt: skip
    return [chart for chart in charts if chart is not None]


def accuracy_charts(groups: Groups) -> list[Chart]:
    """How right the world model was, over the newest pairs at each step."""
    biases = [
        Line(metric("proxy/bias_after"), "after debiasing"),
        Line(metric("proxy/bias_before"), "before", "dash"),
    ]
    charts = (
        _over_steps(
            groups, "accuracy-status", "Status accuracy",
            "Share of executed scripts whose status the world model named.", [Line(status_accuracy)],
        ),
        _over_steps(
            groups, "accuracy-rank", "Rank correlation",
            "Spearman's, of raw predictions with executed scores.", [Line(metric("proxy/rank_correlation"))],
        ),
        _over_steps(
            groups, "accuracy-auc", "AUC",
            "Probability that a success is predicted above a failure.", [Line(metric("proxy/auc"))],
        ),
        _over_steps(groups, "accuracy-bias", "Bias", "Mean of predicted minus executed score.", biases),
    )  # fmt: skip
    return [chart for chart in charts if chart is not None]


def calibration_charts(groups: Groups) -> list[Chart]:
    """Predicted against executed scores, early, in the middle and late, one chart for each experiment."""
    charts = []
    for index, (experiment, runs) in enumerate(groups.items()):
        phases = calibrations(runs)
        if phases:
            charts.append(_calibration_chart(f"calibration-{index}", experiment, phases))
    return charts


def time_chart(groups: Groups) -> list[Chart]:
    """Where the wall-clock time went, mean over the runs of each experiment."""
    spent = {experiment: _mean_seconds(runs) for experiment, runs in groups.items()}
    spent = {experiment: seconds for experiment, seconds in spent.items() if seconds}
    if not spent:
        return []
    stages = list(dict.fromkeys(name for seconds in spent.values() for name in seconds))
    names = list(spent)
    graph = _plotly()
    data = [
        graph.Bar(
            x=[spent[name].get(stage, 0.0) for name in names],
            y=names,
            orientation="h",
            name=stage,
            marker={"color": _colour(index)},
            hovertemplate="%{x:.1f} s<extra>%{y}: " + stage + "</extra>",
        ).to_plotly_json()
        for index, stage in enumerate(stages)
    ]
    layout = graph.Layout(
        barmode="stack",
        height=150 + 44 * len(names),
        xaxis={"title": {"text": "seconds"}, "rangemode": "tozero"},
        yaxis={"autorange": "reversed", "automargin": True},
    ).to_plotly_json()
    return [Chart("time", "Seconds of each stage", "Mean over the runs of an experiment.", data, layout)]


def _over_steps(groups: Groups, key: str, title: str, note: str, lines: Sequence[Line]) -> Chart | None:
    data: list[dict[str, Any]] = []
    values: list[float] = []
    for index, (experiment, runs) in enumerate(groups.items()):
        for line in lines:
            series = [one for run in runs if (one := line.take(run))]
            if not series:
                continue
            values += [value for one in series for value in one.values()]
            name = ", ".join(part for part in (experiment, line.label) if part)
            curve = mean_curve(series)
            if line.dash == "solid":
                data += _spread_traces(curve, series, runs, name, index)
            data.append(_mean_trace(curve, runs, name, index, line.dash))
    if not data:
        return None
    layout = _plotly().Layout(
        showlegend=sum(trace.get("showlegend", True) for trace in data) > 1,
        xaxis={"title": {"text": "training steps"}},
        yaxis=_axis_range(values),
    )
    return Chart(key, title, note, data, layout.to_plotly_json())


def _spread_traces(
    curve: Curve, series: Sequence[Series], runs: Sequence[RecordedRun], name: str, index: int
) -> list[dict[str, Any]]:
    """What lies around a mean: its interval; with two runs the runs themselves, for their interval says nothing."""
    common = {"mode": "lines", "hoverinfo": "skip", "showlegend": False, "name": name, "legendgroup": name}
    colour = _colour(index)
    if len(series) == 2:
        return [_trace(runs, list(one), list(one.values()), line={"color": colour, "width": 1}, opacity=0.45, **common)
                for one in series]  # fmt: skip
    banded = [i for i, n in enumerate(curve.runs) if n >= LEAST_FOR_BAND]
    if not banded:
        return []
    # One closed outline: there along the upper bound and back along the lower one.
    steps = [curve.steps[i] for i in [*banded, *reversed(banded)]]
    outline = [curve.high[i] for i in banded] + [curve.low[i] for i in reversed(banded)]
    return [_trace(runs, steps, outline, fill="toself", fillcolor=colour, opacity=0.18, line={"width": 0}, **common)]


def _mean_trace(curve: Curve, runs: Sequence[RecordedRun], name: str, index: int, dash: str) -> dict[str, Any]:
    return _trace(
        runs,
        curve.steps,
        curve.mean,
        customdata=[[step + 1, curve.runs[i], _bounds(curve, i)] for i, step in enumerate(curve.steps)],
        mode="lines+markers" if len(curve.steps) < FEW_STEPS else "lines",
        line={"color": _colour(index), "dash": dash, "width": 2},
        marker={"size": 5},
        name=name,
        legendgroup=name,
        hovertemplate="%{y:.3f}%{customdata[2]}<br>step %{customdata[0]}, %{customdata[1]} run(s)",
    )


def _trace(
    runs: Sequence[RecordedRun], steps: Sequence[int], values: Sequence[float | None], **style: Any
) -> dict[str, Any]:
    """A line over steps that carries its other abscissae."""
    x = {"steps": [float(step + 1) for step in steps], **mean_costs(runs, steps)}
    trace = _plotly().Scatter(x=x["steps"], y=list(values), meta={"x": x}, **style)
    plain: dict[str, Any] = trace.to_plotly_json()
    return plain


def _bounds(curve: Curve, i: int) -> str:
    low, high = curve.low[i], curve.high[i]
    return "" if low is None or high is None else f" ({low:.3f} to {high:.3f})"


def _axis_range(values: Sequence[float]) -> dict[str, Any]:
    """The range of the runs' own values: an interval over two or three seeds is so wide that it would hide them."""
    low, high = min(values), max(values)
    margin = 0.08 * (high - low) or 0.1
    return {"range": [low - margin, high + margin]}


def _calibration_chart(key: str, experiment: str, phases: Sequence[Calibration]) -> Chart:
    graph = _plotly()
    points = [value for phase in phases for value in (*phase.predicted, *phase.executed)]
    low, high = min(0.0, *points), max(1.0, *points)
    data = [
        graph.Scatter(
            x=[low, high], y=[low, high], mode="lines", name="identity", hoverinfo="skip",
            line={"color": "var(--muted)", "dash": "dot", "width": 1},
        ).to_plotly_json()
    ]  # fmt: skip
    largest = max(count for phase in phases for count in phase.counts)
    for index, phase in enumerate(phases):
        name = f"{phase.phase}: steps {phase.first_step + 1} to {phase.last_step + 1}, {phase.n} pairs"
        common = {"legendgroup": name, "name": name}
        data.append(
            graph.Scatter(
                x=phase.map_x, y=phase.map_y, mode="lines", hoverinfo="skip", showlegend=bool(phase.map_x),
                line={"color": _colour(index), "width": 2}, **common,
            ).to_plotly_json()
        )  # fmt: skip
        data.append(
            graph.Scatter(
                x=phase.predicted,
                y=phase.executed,
                customdata=phase.counts,
                mode="markers",
                marker={
                    "color": _colour(index),
                    "opacity": 0.6,
                    "size": [6 + 16 * math.sqrt(count / largest) for count in phase.counts],
                },
                showlegend=not phase.map_x,
                hovertemplate="predicted %{x:.3f}<br>executed %{y:.3f} (mean of %{customdata})<extra></extra>",
                **common,
            ).to_plotly_json()
        )
    layout = graph.Layout(
        showlegend=True,
        height=400,
        xaxis={"title": {"text": "predicted score"}},
        yaxis={"title": {"text": "executed score"}},
    ).to_plotly_json()
    note = "Line: isotonic fit to the phase's pairs. Dots: mean executed score at a prediction, larger for more pairs."
    return Chart(key, experiment, note, data, layout)


def _mean_seconds(runs: Sequence[RecordedRun]) -> dict[str, float]:
    """Stage -> seconds, mean over runs."""
    totals: dict[str, float] = {}
    for run in runs:
        for record in run.metrics:
            for name, value in record.items():
                if name.startswith("seconds/") and isinstance(value, int | float):
                    stage = STAGES.get(name.removeprefix("seconds/"), name.removeprefix("seconds/"))
                    totals[stage] = totals.get(stage, 0.0) + value / len(runs)
        for when, evaluation in run.evaluations.items():
            if isinstance(seconds := evaluation.get("seconds"), int | float):
                stage = f"evaluation {when}"
                totals[stage] = totals.get(stage, 0.0) + seconds / len(runs)
    return totals


def _colour(index: int) -> str:
    return f"var(--series-{index % N_COLOURS + 1})"


def _plotly() -> Any:
    try:
        import plotly.graph_objects as go
    except ImportError as error:
        raise ImportError("the report's charts need Plotly: pip install 'wmrl-gym[report]'") from error
    return go
