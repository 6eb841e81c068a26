from __future__ import annotations

import numpy as np
import pytest

from wmrl_gym.reporting.bootstrap import category_weights, difference_interval, mean_interval


def test_estimate_weighs_tasks_alike_whatever_their_number_of_episodes() -> None:
    assert mean_interval({"a": [1.0], "b": [0.0, 0.0, 0.0]}).estimate == 0.5


def test_interval_covers_the_true_mean_about_as_often_as_it_says() -> None:
    rng = np.random.default_rng(0)
    covered = 0
    for trial in range(200):
        values = {task: rng.normal(size=40) for task in "abc"}
        interval = mean_interval(values, resamples=500, seed=trial)
        covered += interval.low <= 0 <= interval.high
    assert 0.88 < covered / 200 < 0.99


@pytest.mark.parametrize("samples", [2, 8])
def test_the_interval_of_a_gain_covers_as_often_as_it_says_with_few_episodes_too(samples: int) -> None:
    rng = np.random.default_rng(2)
    covered, trials = 0, 400
    for trial in range(trials):
        # Mostly failures, and successes of some percentile: what agents achieve on seven tasks.
        before, after = (
            {task: rng.uniform(0.3, 0.9, samples) * (rng.random(samples) < share) for task in "abcdefg"}
            for share in (0.4, 0.7)
        )
        interval = difference_interval(before, after, resamples=400, seed=trial)
        covered += interval.low <= 0.6 * (0.7 - 0.4) <= interval.high
    assert covered / trials > 0.92


def test_clear_gain_excludes_zero_and_no_gain_does_not() -> None:
    rng = np.random.default_rng(1)
    before = {task: rng.uniform(0.0, 0.4, 16) for task in "abcd"}
    better = {task: values + 0.3 for task, values in before.items()}
    assert difference_interval(before, better).excludes_zero
    same = {task: rng.permutation(values) for task, values in before.items()}
    assert not difference_interval(before, same).excludes_zero


def test_interval_does_not_depend_on_the_order_of_tasks() -> None:
    values = {"a": [0.1, 0.9, 0.4], "b": [0.0, 1.0, 0.3]}
    assert mean_interval(values) == mean_interval(dict(reversed(values.items())))


def test_different_tasks_and_empty_ones_are_refused() -> None:
    with pytest.raises(ValueError, match="different tasks"):
        difference_interval({"a": [1.0]}, {"b": [1.0]})
    with pytest.raises(ValueError, match="at least one task"):
        mean_interval({"a": []})


def test_categories_weigh_alike_whatever_their_number_of_tasks() -> None:
    weights = category_weights({"a": "x", "b": "x", "c": "y"})
    assert weights == {"a": 0.25, "b": 0.25, "c": 0.5}
    values = {"a": [0.2, 0.2], "b": [0.4, 0.4], "c": [0.9, 0.9]}
    interval = mean_interval(values, weights)
    assert (interval.low, interval.estimate, interval.high) == pytest.approx((0.6, 0.6, 0.6))
    gain = difference_interval(values, {**values, "c": [0.7, 0.7]}, weights)
    assert (gain.low, gain.estimate, gain.high) == pytest.approx((-0.1, -0.1, -0.1))


def test_equal_weights_are_those_of_the_plain_mean() -> None:
    values = {"a": [0.1, 0.9, 0.4], "b": [0.0, 1.0, 0.3]}
    weighted, plain = mean_interval(values, {"a": 0.5, "b": 0.5}), mean_interval(values)
    assert (weighted.low, weighted.estimate, weighted.high) == pytest.approx((plain.low, plain.estimate, plain.high))
