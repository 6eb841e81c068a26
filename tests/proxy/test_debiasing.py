"""The debiaser: never decreasing, no needless ties, nothing unknown inside."""

from __future__ import annotations

import json
from typing import get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.isotonic import IsotonicRegression

from wmrl_gym.proxy import IsotonicDebiaser
from wmrl_gym.proxy.debiasing import Form

FORMS = get_args(Form)
SCORES = st.floats(-2, 3, allow_nan=False) | st.sampled_from([0.0, 0.1, 0.2, 0.525, 0.6, 0.725, 0.875])


def fitted(x: object, y: object, form: Form = "centred") -> IsotonicDebiaser:
    return IsotonicDebiaser(min_pairs=1, form=form).fit(x, y)  # type: ignore[arg-type]


@given(
    st.lists(st.tuples(SCORES, SCORES), min_size=1, max_size=60), st.lists(SCORES, max_size=40), st.sampled_from(FORMS)
)
@settings(max_examples=300, deadline=None)
def test_map_never_decreases_and_stays_in_the_range_of_executed_scores(
    pairs: list[tuple[float, float]], points: list[float], form: Form
) -> None:
    x, y = np.array(pairs).T
    debiaser = fitted(x, y, form)
    grid = np.sort(np.concatenate([x, np.nextafter(x, 9), np.nextafter(x, -9), debiaser.knots_x_, points, [-5.0, 5.0]]))
    calibrated = debiaser.predict(grid)
    assert (np.diff(calibrated) >= 0).all()
    if form == "binned" and len(np.unique(np.clip((x * 10).astype(int), 0, 9))) == 1:
        inside = (grid >= x.min()) & (grid <= x.max())
        assert calibrated[inside] == pytest.approx(grid[inside], abs=1e-9)  # one bin: the identity
        return
    assert calibrated.min() >= y.min() - 1e-9
    assert calibrated.max() <= y.max() + 1e-9


@given(st.lists(st.tuples(SCORES, SCORES), min_size=1, max_size=60))
@settings(max_examples=200, deadline=None)
def test_step_form_is_scikit_learns_prediction(pairs: list[tuple[float, float]]) -> None:
    x, y = np.array(pairs).T
    grid = np.linspace(-3, 4, 50)
    expected = IsotonicRegression(out_of_bounds="clip").fit(x, y).predict(grid)
    np.testing.assert_allclose(fitted(x, y, "step").predict(grid), expected, atol=1e-9)


def noisy_pairs(n: int = 400, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.random(n)
    return x, np.clip(x**2 + 0.3 * rng.standard_normal(n), 0, 1)


def test_centred_form_breaks_every_tie_between_the_outer_centres() -> None:
    x, y = noisy_pairs()
    step, centred = fitted(x, y, "step"), fitted(x, y)
    inside = np.unique(x[(x > centred.knots_x_[1]) & (x < centred.knots_x_[-2])])
    assert (np.diff(step.predict(inside)) == 0).mean() > 0.5
    assert (np.diff(centred.predict(inside)) > 0).all()


def test_centred_form_orders_the_ends_too_where_executed_scores_leave_room() -> None:
    x = np.array([0.0, 0.1, 0.2, 0.3, 0.6, 0.7, 0.8, 0.9])
    y = np.array([0.4, 0.2, 0.3, 0.1, 0.9, 0.5, 0.7, 0.6])  # two plateaus, of means 0.25 and 0.675
    debiaser = fitted(x, y)
    assert len(np.unique(fitted(x, y, "step").predict(x))) == 2
    assert (np.diff(debiaser.predict(x)) > 0).all()
    assert debiaser.predict([0.15, 0.75]) == pytest.approx([0.25, 0.675])


def test_centred_form_leaves_a_true_tie_alone() -> None:
    x = np.array([0.0, 0.1, 0.2, 0.6, 0.7])
    y = np.array([0.0, 0.0, 0.0, 0.5, 0.8])  # all executions down there scored the least there is
    assert fitted(x, y).predict([0.0, 0.05, 0.1]).tolist() == [0.0, 0.0, 0.0]


def test_nothing_is_extrapolated_beyond_the_observed_predictions() -> None:
    x, y = noisy_pairs()
    for form in FORMS:
        debiaser = fitted(x, y, form)
        assert debiaser.predict([-3.0, 7.0]).tolist() == debiaser.predict([x.min(), x.max()]).tolist()


def test_reversed_world_model_is_worth_a_constant() -> None:
    x = np.linspace(0, 1, 50)
    for form in ("centred", "step"):
        assert np.ptp(fitted(x, 1 - x, form).predict(x)) < 1e-9


def test_monotone_distortion_is_undone() -> None:
    rng = np.random.default_rng(1)
    truth = rng.random(3000)
    distorted = truth**3 / 2 + 0.4
    held_out = np.linspace(0.1, 0.9, 30)
    for form, error in (("centred", 0.01), ("step", 0.01), ("binned", 0.2)):
        calibrated = fitted(distorted, truth, form).predict(held_out**3 / 2 + 0.4)
        assert np.abs(calibrated - held_out).max() < error


def test_binned_form_averages_equal_bins_by_their_counts() -> None:
    # Bins 0, 1 and 9 hold 1, 3 and 1 pairs; bins 0 and 1 violate the order and are pooled: (1·0.8 + 3·0.4) / 4 = 0.5.
    debiaser = fitted([0.05, 0.12, 0.14, 0.19, 1.0], [0.8, 0.3, 0.4, 0.5, 0.9], "binned")
    assert debiaser.predict([0.05, 0.15, 1.0, 0.575]) == pytest.approx([0.5, 0.5, 0.9, 0.7])  # 0.575: half-way


def test_binned_form_leaves_a_world_model_that_is_right_as_it_is() -> None:
    levels = np.array([0.0, 0.1, 0.2, 0.525, 0.6, 0.725, 0.875])  # those of the checks and their buckets
    x = np.repeat(levels, 5)
    assert fitted(x, x, "binned").predict(levels) == pytest.approx(levels)
    one_bin = fitted([0.52, 0.55], [0.9, 0.1], "binned")
    assert one_bin.predict([0.0, 0.3, 0.525, 1.0]) == pytest.approx([0.0, 0.3, 0.525, 1.0])


def test_identity_until_there_are_enough_pairs_then_refits_on_schedule() -> None:
    debiaser = IsotonicDebiaser(min_pairs=10, refit_every=4)
    rng = np.random.default_rng(0)
    fits = []
    for _ in range(20):
        x = rng.random(1)
        debiaser.update(x, x / 2)
        fits.append(debiaser.n_fits_)
        if debiaser.n_fits_ == 0:
            assert debiaser.predict([0.3, 7.0]).tolist() == [0.3, 7.0]
    assert fits == [0] * 9 + [1] * 4 + [2] * 4 + [3] * 3
    assert debiaser.predict(0.5) == pytest.approx(0.25, abs=0.1)


def test_window_forgets_the_oldest() -> None:
    debiaser = IsotonicDebiaser(min_pairs=4, refit_every=1, window=4)
    debiaser.update([0.0, 0.0, 1.0, 1.0], [0.0, 0.0, 1.0, 1.0])
    debiaser.update([0.0, 0.0, 1.0, 1.0], [0.4, 0.4, 0.6, 0.6])
    assert debiaser.predict([0.0, 1.0]).tolist() == [0.4, 0.6]
    assert debiaser.n_pairs_ == 8


@pytest.mark.parametrize("unknown", [None, float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("side", ["predicted", "executed"])
def test_unknown_score_is_refused_and_nothing_of_the_call_is_stored(unknown: float | None, side: str) -> None:
    debiaser = IsotonicDebiaser(min_pairs=2).update([0.1, 0.9], [0.2, 0.8])
    before = debiaser.state_dict()
    scores = {"predicted": [0.5, 0.6], "executed": [0.5, 0.6], side: [0.5, unknown]}
    for call in (debiaser.update, debiaser.fit):
        with pytest.raises(ValueError, match=f"{side} score at position 1 is unknown"):
            call(**scores)
    with pytest.raises(ValueError, match="position 1 is unknown"):
        debiaser.predict([0.5, unknown])  # type: ignore[list-item]
    assert debiaser.state_dict() == before


def test_vectors_of_different_lengths_are_refused() -> None:
    with pytest.raises(ValueError, match=r"shape \(2,\), executed \(3,\)"):
        IsotonicDebiaser().update([0.1, 0.2], [0.1, 0.2, 0.3])


@pytest.mark.parametrize("form", FORMS)
def test_restored_debiaser_goes_on_to_the_last_bit(form: Form) -> None:
    x, y = noisy_pairs(300)
    one = IsotonicDebiaser(min_pairs=50, refit_every=30, window=120, form=form)
    for start in range(0, 210, 7):
        one.update(x[start : start + 7], y[start : start + 7])
    other = IsotonicDebiaser(min_pairs=50, refit_every=30, window=120, form=form)
    other.load_state_dict(json.loads(json.dumps(one.state_dict())))
    for start in range(210, 300, 9):
        assert one.predict(x).tolist() == other.predict(x).tolist()
        one.update(x[start : start + 9], y[start : start + 9])
        other.update(x[start : start + 9], y[start : start + 9])
    assert one.state_dict() == other.state_dict()
    assert one.n_fits_ > 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"form": "spline"}, "centred, step, binned"),
        ({"window": 100}, "never be fitted"),
        ({"refit_every": 0}, "at least 1"),
    ],
)
def test_nonsense_settings_are_refused(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        IsotonicDebiaser(**arguments)  # type: ignore[arg-type]
