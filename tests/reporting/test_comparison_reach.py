from __future__ import annotations

import numpy as np
import pytest

from wmrl_gym.reporting.comparison_reach import NEVER, cost_to_reach, monotone, ratio_of

COST = [0.0, 10.0, 20.0, 40.0]


def test_a_score_between_two_points_is_reached_between_their_costs() -> None:
    assert cost_to_reach(COST, [0.2, 0.4, 0.5, 0.7], 0.6) == pytest.approx(30.0)
    assert cost_to_reach(COST, [0.2, 0.4, 0.5, 0.7], 0.25) == pytest.approx(2.5)


def test_a_score_that_was_there_at_the_start_costs_nothing() -> None:
    assert cost_to_reach(COST, [0.5, 0.6, 0.6, 0.7], 0.5) == 0.0
    assert cost_to_reach(COST, [0.5, 0.6, 0.6, 0.7], 0.1) == 0.0


def test_a_score_above_the_curve_is_never_reached() -> None:
    assert cost_to_reach(COST, [0.2, 0.3, 0.4, 0.5], 0.51) == NEVER


def test_on_a_plateau_the_first_point_counts() -> None:
    assert cost_to_reach(COST, [0.2, 0.5, 0.5, 0.5], 0.5) == 10.0


def test_an_axis_on_which_nothing_was_spent_gives_no_cost() -> None:
    assert cost_to_reach([0.0] * 4, [0.2, 0.3, 0.4, 0.5], 0.4) == 0.0


def test_a_peak_that_is_not_held_is_pooled_with_what_comes_after() -> None:
    levels = monotone([0.2, 0.8, 0.2, 0.2], [1, 1, 1, 1])
    assert levels == pytest.approx([0.2, 0.4, 0.4, 0.4])
    assert cost_to_reach(COST, levels, 0.8) == NEVER


def test_points_with_more_episodes_weigh_more() -> None:
    assert monotone([0.6, 0.4], [1, 3]) == pytest.approx([0.45, 0.45])


def test_ratio_divides_costs_row_by_row() -> None:
    ratio = ratio_of(np.array([5.0, 4.0, 6.0]), np.array([10.0, 10.0, 10.0]), 0.95)
    assert ratio is not None
    assert (ratio.estimate, ratio.low, ratio.high) == pytest.approx((0.5, 0.4, 0.6))
    assert ratio.reached == ratio.defined == 1.0


def test_ratio_of_an_arm_that_never_gets_there_is_none_and_not_a_number() -> None:
    ratio = ratio_of(np.full(101, NEVER), np.full(101, 10.0), 0.95)
    assert ratio is not None
    assert ratio.estimate is ratio.low is ratio.high is None and ratio.reached == 0.0


def test_an_arm_that_gets_there_in_half_of_the_resamples_has_no_upper_bound() -> None:
    own = np.concatenate([[5.0], np.full(50, 5.0), np.full(50, NEVER)])
    ratio = ratio_of(own, np.full(101, 10.0), 0.95)
    assert ratio is not None
    assert (ratio.estimate, ratio.low, ratio.high, ratio.reached) == (0.5, 0.5, None, 0.5)


def test_there_is_no_ratio_to_a_reference_that_has_paid_nothing() -> None:
    assert ratio_of(np.full(11, 5.0), np.zeros(11), 0.95) is None
    some = ratio_of(np.full(11, 5.0), np.array([10.0] * 6 + [0.0] * 5), 0.95)
    assert some is not None and some.defined == 0.5 and some.estimate == 0.5
