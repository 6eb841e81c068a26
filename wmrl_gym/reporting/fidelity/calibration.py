"""Calibration of predicted scores, and what an isotonic debiaser would gain: fitted on one half, shown on the other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from wmrl_gym.proxy.debiasing import IsotonicDebiaser
from wmrl_gym.reporting.fidelity.agreement import Estimate, episode_draws
from wmrl_gym.reporting.fidelity.pairs import FloatArray, Pairs

MAX_POINTS = 12
"""Points of a curve: the distinct predictions, or quantile bins if there are more."""
LEAST_PAIRS = 40
"""With fewer pairs, halves of them say nothing."""
REPEATS = 100

Distance = Callable[[FloatArray, FloatArray], float]


@dataclass(frozen=True)
class Point:
    """One bin of a calibration curve."""

    predicted: float
    """Mean prediction."""
    executed: float
    """Mean executed score."""
    n: int


@dataclass(frozen=True)
class Errors:
    """How far scores are from the truth on the held-out half."""

    mae: float
    rmse: float
    bias: float
    """Mean of predicted minus executed."""
    calibration_error: float
    """Mean over the curve's bins of the distance between mean prediction and mean truth, weighted by their counts."""


@dataclass(frozen=True)
class Calibration:
    """Before and after f-hat, on solutions that it was not fitted on."""

    fitted_on: int
    shown_on: int
    before: Errors
    after: Errors
    curve_before: list[Point]
    curve_after: list[Point]
    map_x: list[float]
    """Knots of the fitted map."""
    map_y: list[float]
    gain_mae: Estimate
    """Mean absolute error before minus after: positive where debiasing helps. Episodes of the held-out half are drawn
    anew, and the map is kept."""
    gain_calibration_error: Estimate
    repeats: int
    """Random halves that the two figures below are over, the first one among them."""
    mean_gain_mae: float
    share_of_halves_gained: float


def calibration(pairs: Pairs, *, resamples: int, level: float, seed: int) -> Calibration | None:
    """Fit f-hat on the episodes of one random half and measure it on those of the other.

    Returns:
        None with fewer than `LEAST_PAIRS` known pairs, or predictions that are all the same.
    """
    known = pairs.take(pairs.known)
    if len(known) < LEAST_PAIRS or np.unique(known.predicted).size < 2:
        return None
    rng = np.random.default_rng(seed)
    gains = []
    for repeat in range(REPEATS):
        fitted, shown = _halves(known, rng)
        debiaser = _fit(fitted)
        after = debiaser.predict(shown.predicted)
        gains.append(_mae(shown.predicted, shown.executed) - _mae(after, shown.executed))
        if repeat == 0:
            first = fitted, shown, debiaser, after
    fitted, shown, debiaser, after = first
    return Calibration(
        fitted_on=len(fitted),
        shown_on=len(shown),
        before=_errors(shown.predicted, shown.executed),
        after=_errors(after, shown.executed),
        curve_before=curve(shown.predicted, shown.executed),
        curve_after=curve(after, shown.executed),
        map_x=debiaser.knots_x_.tolist(),
        map_y=debiaser.knots_y_.tolist(),
        gain_mae=_gain(shown, after, _mae, resamples, level, seed),
        gain_calibration_error=_gain(shown, after, _calibration_error, resamples, level, seed),
        repeats=REPEATS,
        mean_gain_mae=float(np.mean(gains)),
        share_of_halves_gained=float(np.mean([gain > 0 for gain in gains])),
    )


def curve(predicted: FloatArray, executed: FloatArray) -> list[Point]:
    """Mean truth against mean prediction, one point for each value, or quantile bin where there are many values."""
    values = np.unique(predicted)
    if values.size <= MAX_POINTS:
        bins = np.searchsorted(values, predicted)
    else:
        edges = np.unique(np.quantile(predicted, np.linspace(0, 1, MAX_POINTS + 1)[1:-1]))
        bins = np.searchsorted(edges, predicted, side="right")
    return [
        Point(float(predicted[bins == index].mean()), float(executed[bins == index].mean()), int((bins == index).sum()))
        for index in np.unique(bins)
    ]


def _halves(pairs: Pairs, rng: np.random.Generator) -> tuple[Pairs, Pairs]:
    """By episode, so that no revision is judged by a map that saw what it revises."""
    episodes = rng.permutation(np.unique(pairs.episode))
    mine = np.isin(pairs.episode, episodes[: len(episodes) // 2])
    return pairs.take(mine), pairs.take(~mine)


def _fit(pairs: Pairs) -> IsotonicDebiaser:
    size = max(len(pairs), 1)
    return IsotonicDebiaser(min_pairs=1, refit_every=1, window=size).fit(pairs.predicted, pairs.executed)


def _mae(predicted: FloatArray, executed: FloatArray) -> float:
    return float(np.abs(predicted - executed).mean())


def _calibration_error(predicted: FloatArray, executed: FloatArray) -> float:
    points = curve(predicted, executed)
    return sum(point.n * abs(point.predicted - point.executed) for point in points) / len(predicted)


def _errors(predicted: FloatArray, executed: FloatArray) -> Errors:
    error = predicted - executed
    return Errors(
        mae=_mae(predicted, executed),
        rmse=float(np.sqrt((error**2).mean())),
        bias=float(error.mean()),
        calibration_error=_calibration_error(predicted, executed),
    )


def _gain(shown: Pairs, after: FloatArray, distance: Distance, resamples: int, level: float, seed: int) -> Estimate:
    value = distance(shown.predicted, shown.executed) - distance(after, shown.executed)
    draws = [
        distance(shown.predicted[rows], shown.executed[rows]) - distance(after[rows], shown.executed[rows])
        for rows in episode_draws(shown, resamples, seed)
    ]
    low, high = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2])
    return Estimate(value, float(low), float(high))


def advice(found: Calibration | None) -> str:
    """Whether debiasing would help, in a sentence."""
    if found is None:
        return (
            "Nothing can be said about debiasing: too few known predictions, or all of them equal, and a map of one "
            "value changes no order."
        )
    gain = found.gain_mae
    bounds = f"{_signed(gain.value)} ({_signed(gain.low)} to {_signed(gain.high)})"
    if gain.low is not None and gain.low > 0:
        word = "Debiasing would help"
    elif gain.high is not None and gain.high < 0:
        word = "Debiasing would raise the mean absolute error"
    else:
        word = "No gain of debiasing is shown"
    return f"{word}: gain in held-out mean absolute error {bounds}."


def _signed(value: float | None) -> str:
    return "-" if value is None else f"{value:+.3f}"
