from __future__ import annotations

import numpy as np
import pytest

from tests.corpus.made import record
from tests.reporting.fidelity.made import predicted
from wmrl_gym.reporting.fidelity.calibration import LEAST_PAIRS, advice, calibration, curve
from wmrl_gym.reporting.fidelity.pairs import Pairs


def pairs_of(predictions: np.ndarray, truths: np.ndarray) -> Pairs:
    records = [record("valid", float(score), episode=i) for i, score in enumerate(truths)]
    return Pairs.of(records, [predicted(score=float(score)) for score in predictions])


def test_monotone_distortion_is_undone_and_the_gain_shown_on_the_other_half() -> None:
    rng = np.random.default_rng(1)
    truth = rng.random(400)
    found = calibration(pairs_of(0.5 + truth**3 / 2, truth), resamples=200, level=0.95, seed=0)
    assert found is not None and found.fitted_on == found.shown_on == 200
    assert found.after.mae < 0.1 * found.before.mae
    assert found.gain_mae.value == pytest.approx(found.before.mae - found.after.mae)
    assert found.gain_mae.low is not None and found.gain_mae.low > 0
    assert found.share_of_halves_gained == 1.0
    assert advice(found).startswith("Debiasing would help")


def test_nothing_is_gained_on_scores_that_are_right_already() -> None:
    rng = np.random.default_rng(2)
    truth = rng.random(200)
    found = calibration(pairs_of(truth, truth), resamples=200, level=0.95, seed=0)
    assert found is not None and found.before.mae == 0.0
    assert found.gain_mae.value is not None and found.gain_mae.value <= 0
    assert "help" not in advice(found)


def test_few_or_equal_or_unknown_predictions_have_no_calibration() -> None:
    rng = np.random.default_rng(3)
    truth = rng.random(LEAST_PAIRS)
    assert calibration(pairs_of(truth[1:], truth[1:]), resamples=10, level=0.95, seed=0) is None
    assert calibration(pairs_of(np.full(LEAST_PAIRS, 0.5), truth), resamples=10, level=0.95, seed=0) is None
    silent = Pairs.of([record()] * 100, [predicted("unknown", None)] * 100)
    assert calibration(silent, resamples=10, level=0.95, seed=0) is None
    assert "Nothing can be said" in advice(None)


def test_revisions_stay_on_their_side_of_the_split() -> None:
    # Two scripts an episode, told apart by nothing but their episode's own score: a leak would be learned by heart.
    rng = np.random.default_rng(4)
    scores = np.repeat(rng.random(100), 2)
    records = [record("valid", float(s), episode=i // 2, turn=i % 2) for i, s in enumerate(scores)]
    found = calibration(
        Pairs.of(records, [predicted(score=float(s)) for s in rng.random(200)]), resamples=50, level=0.95, seed=0
    )
    assert found is not None and found.fitted_on % 2 == found.shown_on % 2 == 0


def test_curve_has_a_point_for_each_value_and_loses_no_solution() -> None:
    points = curve(np.array([0.1, 0.1, 0.8]), np.array([0.0, 0.2, 1.0]))
    assert [(p.predicted, pytest.approx(p.executed), p.n) for p in points] == [(0.1, 0.1, 2), (0.8, 1.0, 1)]
    many = np.linspace(0, 1, 500)
    assert sum(point.n for point in curve(many, many)) == 500 and len(curve(many, many)) <= 12
