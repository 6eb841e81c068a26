"""The problem has the constants it claims, and the quadrature that predicts from it is right."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.theory.fusion import THETA
from benchmarks.theory.problem import standard_problem
from benchmarks.theory.quadrature import (
    blurred,
    floor,
    group_variance,
    mean_score,
    regression_map,
    stationary_point,
    task_gradients,
)
from benchmarks.theory.scorers import Scorer, exploit, no_bias, offset, tilt

PROBLEM = standard_problem()
COORDINATE = st.floats(-3, 3)


def truth(r, actions):
    return r


@given(COORDINATE, COORDINATE)
@settings(max_examples=30, deadline=None)
def test_policy_gradient_is_that_of_the_stated_objective(x, y):
    theta = np.array([x, y])
    gradient = task_gradients(PROBLEM, theta, truth).mean(axis=0)
    assert gradient == pytest.approx(-PROBLEM.curvature * (theta - PROBLEM.optimum), abs=1e-6)


@given(COORDINATE, COORDINATE)
@settings(max_examples=30, deadline=None)
def test_gap_is_what_the_mean_score_is_short_of_the_best(x, y):
    theta = np.array([x, y])
    best = mean_score(PROBLEM, PROBLEM.optimum, truth)
    assert best - mean_score(PROBLEM, theta, truth) == pytest.approx(float(PROBLEM.gap(theta)), abs=1e-6)


@given(COORDINATE, COORDINATE)
@settings(max_examples=30, deadline=None)
def test_objective_is_gradient_dominated_and_smooth(x, y):
    theta = np.array([x, y])
    gap = float(PROBLEM.gap(theta))
    squared = float((task_gradients(PROBLEM, theta, truth).mean(axis=0) ** 2).sum())
    assert 2 * PROBLEM.domination * gap - 1e-6 <= squared <= 2 * PROBLEM.smoothness * gap + 1e-6


def test_offset_leaves_no_floor_and_tilt_does():
    assert floor(PROBLEM, Scorer(offset(0.64)).mean) < 1e-12
    assert floor(PROBLEM, Scorer(tilt(0.64)).mean) > 0.01


def test_tilt_favours_the_easy_tasks_on_the_left():
    assert stationary_point(PROBLEM, Scorer(tilt(0.32)).mean)[0] < -0.1


def test_exploit_pulls_along_the_worthless_feature_only():
    theta = stationary_point(PROBLEM, Scorer(exploit(0.5)).mean)
    assert theta[0] == pytest.approx(0.0, abs=1e-6)
    assert theta[1] > 0.3


def test_floor_grows_as_the_square_of_a_small_bias():
    small, twice = (floor(PROBLEM, Scorer(tilt(size)).mean) for size in (0.02, 0.04))
    assert twice / small == pytest.approx(4.0, rel=0.01)


def test_every_floor_respects_the_papers_bound():
    for size in (0.04, 0.16, 0.64):
        bound = 32 * PROBLEM.score_norm_squared * size**2 / PROBLEM.domination
        assert floor(PROBLEM, Scorer(tilt(size)).mean) < bound


def test_group_variance_agrees_with_sampling():
    rng = np.random.default_rng(0)
    n, repetitions = 8, 20000
    tasks = rng.integers(0, PROBLEM.n_tasks, repetitions)
    noise = rng.standard_normal((repetitions, n, 2))
    rewards = PROBLEM.truth(tasks[:, None], THETA + PROBLEM.spread * noise) + 0.5 * rng.standard_normal(noise.shape[:2])
    centred = rewards - rewards.mean(axis=1, keepdims=True)
    gradients = (centred[..., None] * noise / PROBLEM.spread).mean(axis=1)
    predicted = group_variance(PROBLEM, THETA, truth, n, 0.5)
    assert gradients.var(axis=0) == pytest.approx(predicted.within + predicted.between, rel=0.05)


def test_noise_adds_exactly_its_share_to_the_variance():
    n, sigma = 8, 1.5
    extra = group_variance(PROBLEM, THETA, truth, n, sigma).total - group_variance(PROBLEM, THETA, truth, n, 0.0).total
    assert extra == pytest.approx(sigma**2 * PROBLEM.score_norm_squared * (n - 1) / n**2)


def test_noise_in_predictions_leaves_a_floor_where_there_was_no_bias():
    scorer = Scorer(no_bias, noise=0.4)
    calibrate = blurred(regression_map(PROBLEM, PROBLEM.optimum, scorer.mean, scorer.noise), scorer.noise)
    assert floor(PROBLEM, scorer.mean) < 1e-12
    assert floor(PROBLEM, lambda r, a: calibrate(scorer.mean(r, a))) > 1e-4


def test_regression_map_shrinks_towards_frequent_scores():
    learned = regression_map(PROBLEM, PROBLEM.optimum, Scorer(no_bias).mean, noise=0.8)
    assert learned(np.array([0.5]))[0] < 0.0
    assert learned(np.array([-5.0]))[0] > -5.0
