"""What the world model's word was worth in the course of a run: its calibration, and how often it named the status."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from wmrl_gym.proxy.debiasing import IsotonicDebiaser
from wmrl_gym.reporting.report.curves import Series
from wmrl_gym.reporting.report.loading import RecordedRun

PHASES = ("early", "middle", "late")
MAX_POINTS = 12
"""Points of a calibration curve: the distinct predictions, or quantile bins if there are more."""
NO_STATUS = "predicted"
"""What a world model calls an outcome of which it foretells the score alone."""


@dataclass(frozen=True)
class Calibration:
    """Executed against predicted scores in one phase of training."""

    phase: str
    first_step: int
    last_step: int
    n: int
    """Pairs of the phase."""
    predicted: list[float]
    """Mean prediction of each bin."""
    executed: list[float]
    """Mean executed score of each bin."""
    counts: list[int]
    map_x: list[float]
    """Knots of the isotonic fit to the phase's pairs; empty if all predictions are the same."""
    map_y: list[float]


def calibrations(runs: Sequence[RecordedRun]) -> list[Calibration]:
    """Calibration in each third of the steps that have pairs, the pairs of all runs taken together."""
    pairs = [pair for run in runs for pair in run.pairs]
    if not pairs:
        return []
    last = max(pair["step"] for pair in pairs)
    phases: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for pair in pairs:
        phases[min(len(PHASES) * pair["step"] // (last + 1), len(PHASES) - 1)].append(pair)
    return [_calibration(PHASES[index], phases[index], _form(runs[0])) for index in sorted(phases)]


def status_accuracy(run: RecordedRun) -> Series:
    """Share of executed scripts whose status the world model had named, over the newest ``proxy.metric_window``.

    Scripts of which either does not know the status, or of which only the score was predicted, are left out.
    """
    proxy = run.config.get("proxy")
    window = proxy.get("metric_window") if isinstance(proxy, dict) else None
    newest: deque[bool] = deque(maxlen=window if isinstance(window, int) and window > 0 else 512)
    right: dict[int, list[bool]] = defaultdict(list)
    for trajectory in run.recorded.trajectories:
        for turn in trajectory["turns"]:
            predicted, executed = turn["predicted"], turn["executed"]
            if predicted is None or executed is None or executed["source"] != "execution":
                continue
            if predicted["status"] == NO_STATUS:
                continue
            if predicted["score"] is not None and executed["score"] is not None:
                right[trajectory["step"]].append(predicted["status"] == executed["status"])
    series: Series = {}
    for step in sorted(right):
        newest.extend(right[step])
        series[step] = sum(newest) / len(newest)
    return series


def _form(run: RecordedRun) -> Any:
    """The form of the run's own debiaser, so that the curve drawn is the one it used."""
    proxy = run.config.get("proxy")
    debiaser = proxy.get("debiaser") if isinstance(proxy, dict) else None
    form = debiaser.get("form") if isinstance(debiaser, dict) else None
    return form if form in ("centred", "step", "binned") else "centred"


def _calibration(phase: str, pairs: Sequence[dict[str, Any]], form: Any) -> Calibration:
    predicted = np.array([pair["predicted"] for pair in pairs], float)
    executed = np.array([pair["executed"] for pair in pairs], float)
    bins = _bins(predicted)
    counts = Counter(bins.tolist())
    map_x: list[float] = []
    map_y: list[float] = []
    if np.unique(predicted).size > 1:
        fitted = IsotonicDebiaser(min_pairs=1, refit_every=1, window=len(pairs), form=form).fit(predicted, executed)
        map_x, map_y = fitted.knots_x_.tolist(), fitted.knots_y_.tolist()
    return Calibration(
        phase=phase,
        first_step=min(pair["step"] for pair in pairs),
        last_step=max(pair["step"] for pair in pairs),
        n=len(pairs),
        predicted=[float(predicted[bins == index].mean()) for index in sorted(counts)],
        executed=[float(executed[bins == index].mean()) for index in sorted(counts)],
        counts=[counts[index] for index in sorted(counts)],
        map_x=map_x,
        map_y=map_y,
    )


def _bins(predicted: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Bin of each prediction: its own value's, or its quantile's where there are many values."""
    values = np.unique(predicted)
    if values.size <= MAX_POINTS:
        return np.searchsorted(values, predicted)
    edges = np.unique(np.quantile(predicted, np.linspace(0, 1, MAX_POINTS + 1)[1:-1]))
    return np.searchsorted(edges, predicted, side="right")
