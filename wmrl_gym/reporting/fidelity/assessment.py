"""Everything that is said of a world model's fidelity, as plain data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from wmrl_gym.corpus.file import Record
from wmrl_gym.reporting.fidelity.agreement import FIGURES, SUMMARY, estimates
from wmrl_gym.reporting.fidelity.calibration import advice, calibration
from wmrl_gym.reporting.fidelity.checks import check_fidelity
from wmrl_gym.reporting.fidelity.pairs import Pairs, TextArray, constant_predictions
from wmrl_gym.runs.predicting import TOKENS, Prediction


def assess(
    records: Sequence[Record],
    predictions: Sequence[Prediction],
    *,
    resamples: int = 1000,
    level: float = 0.95,
    seed: int = 0,
) -> dict[str, Any]:
    """Compare predictions with the truth.

    Args:
        records: executed solutions.
        predictions: of the same solutions, in the same order.
        resamples: of the bootstrap.
        level: of the intervals.
        seed: of resampling and of the halves for the debiaser.

    Raises:
        ValueError: if no solution has a known truth.
    """
    pairs = Pairs.of(records, predictions)
    if not len(pairs):
        raise ValueError("no solution of the corpus has a known truth: write it anew where scripts can be executed")
    drawing = {"resamples": resamples, "level": level, "seed": seed}
    guess = Pairs.of(records, constant_predictions(records))
    calibrated = calibration(pairs, **drawing)  # type: ignore[arg-type]
    return {
        "solutions": len(records),
        "without_truth": len(records) - len(pairs),
        "level": level,
        "statuses": dict(Counter(pairs.true_status.tolist()).most_common()),
        "overall": _figures(pairs, tuple(FIGURES), drawing),
        "constant": {name: figure(guess) for name, figure in FIGURES.items()},
        "confusion": _confusion(pairs),
        "by_author": _parts(pairs, pairs.author, drawing),
        "by_task": _parts(pairs, pairs.task, drawing),
        "checks": [asdict(check) for check in check_fidelity(records, predictions)],
        "calibration": None if calibrated is None else asdict(calibrated),
        "advice": advice(calibrated),
        "cost": cost(predictions),
    }


def cost(predictions: Sequence[Prediction]) -> dict[str, float | None]:
    """Of one prediction. Tokens are None if no language model tells any, and else a mean over all scripts."""
    told = [prediction.tokens for prediction in predictions if prediction.tokens is not None]
    return {
        "seconds": float(np.mean([prediction.seconds for prediction in predictions])),
        "median_seconds": float(np.median([prediction.seconds for prediction in predictions])),
        "cpu_seconds": float(np.mean([prediction.cpu_seconds for prediction in predictions])),
        **{f"{name}_tokens": _tokens(told, name, len(predictions)) for name in TOKENS},
    }


def _tokens(told: Sequence[Mapping[str, int | None]], name: str, scripts: int) -> float | None:
    """Scripts that were decided without a question cost none; one count that is not told makes the mean unknown."""
    counts = [tokens[name] for tokens in told]
    known = [count for count in counts if count is not None]
    return sum(known) / scripts if known and len(known) == len(counts) else None


def _figures(pairs: Pairs, names: tuple[str, ...], drawing: Mapping[str, Any]) -> dict[str, Any]:
    return {name: asdict(estimate) for name, estimate in estimates(pairs, names, **drawing).items()}


def _confusion(pairs: Pairs) -> dict[str, dict[str, int]]:
    """True status -> predicted status -> number. An abstention is predicted "unknown"."""
    guesses = np.where(pairs.known, pairs.status, "unknown")
    table: dict[str, dict[str, int]] = {}
    for truth, guess in zip(pairs.true_status.tolist(), guesses.tolist(), strict=True):
        row = table.setdefault(truth, {})
        row[guess] = row.get(guess, 0) + 1
    return {truth: dict(sorted(row.items())) for truth, row in sorted(table.items())}


def _parts(pairs: Pairs, labels: TextArray, drawing: Mapping[str, Any]) -> dict[str, Any]:
    """The figures of each part, beside what its own commonest status would score."""
    found: dict[str, Any] = {}
    for label in sorted(set(labels.tolist())):
        part = pairs.take(labels == label)
        commonest = Counter(part.true_status.tolist()).most_common(1)[0][1] / len(part)
        found[label] = {
            "n": len(part),
            "valid_share": float(part.valid.mean()),
            "constant_status_accuracy": commonest,
            **_figures(part, SUMMARY, drawing),
        }
    return found
