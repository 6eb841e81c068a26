"""Fusion: weights of mean one that make the plain mean the fused gradient, and a rho that follows the residual."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wmrl_gym.proxy import InverseVarianceFusion, group_residual, group_weights

MASKS = st.lists(st.booleans(), min_size=1, max_size=200)
TRUTH = np.array([0.0, 1.0, 0.2, 0.8])


def predictions_with_residual(residual: float) -> np.ndarray:
    """Predictions of TRUTH whose group residual is ``residual`` (shrunk around a wrong mean, to be exact)."""
    return 5.0 + TRUTH * (1 - np.sqrt(residual))


@given(MASKS, st.floats(1e-3, 1e3))
def test_weights_average_to_one_for_any_rho(is_anchor: list[bool], rho: float) -> None:
    weights = group_weights(is_anchor, rho)
    assert weights.mean() == pytest.approx(1.0, rel=1e-12)
    anchors, others = weights[np.array(is_anchor)], weights[~np.array(is_anchor)]
    if anchors.size and others.size:
        assert anchors[0] / others[0] == pytest.approx(rho)


@given(MASKS, st.floats(1.0, 4.0), st.integers(0, 2**31))
def test_mean_of_weighted_gradients_is_the_fused_gradient(is_anchor: list[bool], rho: float, seed: int) -> None:
    anchor_G = np.array(is_anchor)
    gradients = np.random.default_rng(seed).standard_normal((len(anchor_G), 3))
    fused = (rho * gradients[anchor_G].sum(0) + gradients[~anchor_G].sum(0)) / (
        rho * anchor_G.sum() + (~anchor_G).sum()
    )
    np.testing.assert_allclose((group_weights(anchor_G, rho)[:, None] * gradients).mean(0), fused, atol=1e-12)


def test_residual_is_squared_and_centred_disagreement_over_the_variance_of_the_truth() -> None:
    calibrated, executed = [0.1, 0.5, 0.9], [0.0, 0.3, 0.9]
    centred = np.subtract(calibrated, 0.5) - np.subtract(executed, 0.4)
    assert group_residual(calibrated, executed) == pytest.approx(np.mean(centred**2) / np.var(executed))
    assert group_residual(np.add(executed, 7.0), executed) == pytest.approx(0.0)
    assert group_residual([0.5, 0.5, 0.5], executed) == pytest.approx(1.0)


def test_group_without_variance_is_skipped() -> None:
    fusion = InverseVarianceFusion()
    assert fusion.update([0.1, 0.9], [0.5, 0.5]) is None
    assert fusion.update([0.1], [0.5]) is None
    assert fusion.n_groups_ == 0
    assert fusion.residual_ is None


def test_rho_is_one_in_the_warm_up_and_two_when_it_ends() -> None:
    fusion = InverseVarianceFusion()
    rhos = []
    for _ in range(33):
        rhos.append(fusion.rho)
        fusion.update(predictions_with_residual(0.25), TRUTH)
    assert rhos[:32] == [1.0] * 32
    assert rhos[32] == pytest.approx(2.0)
    assert fusion.calibration_residual_ == pytest.approx(0.25)


def test_rho_follows_the_residual_within_its_clip_and_the_calibration_stays_frozen() -> None:
    fusion = InverseVarianceFusion(half_life=2, warmup=4)
    for _ in range(4):
        fusion.update(predictions_with_residual(0.2), TRUTH)
    for _ in range(60):
        fusion.update(predictions_with_residual(0.3), TRUTH)
    assert fusion.rho == pytest.approx(1 + 0.3 / 0.2)
    for _ in range(60):
        fusion.update(predictions_with_residual(0.9), TRUTH)
    assert fusion.rho == 4.0
    for _ in range(200):
        fusion.update(predictions_with_residual(0.0), TRUTH)
    assert fusion.rho == pytest.approx(1.0)
    assert fusion.calibration_residual_ == pytest.approx(0.2)


def test_an_observation_counts_half_after_its_half_life() -> None:
    fusion = InverseVarianceFusion(half_life=5, warmup=10_000)
    for _ in range(400):
        fusion.update(predictions_with_residual(0.0), TRUTH)
    for _ in range(5):
        fusion.update(predictions_with_residual(0.8), TRUTH)
    assert fusion.residual_ == pytest.approx(0.4)


def test_first_groups_are_averaged_not_dominated_by_the_very_first() -> None:
    fusion = InverseVarianceFusion(half_life=64)
    fusion.update(predictions_with_residual(0.9), TRUTH)
    assert fusion.residual_ == pytest.approx(0.9)
    for _ in range(9):
        fusion.update(predictions_with_residual(0.0), TRUTH)
    assert fusion.residual_ == pytest.approx(0.09, abs=0.01)


def test_perfect_warm_up_divides_by_nothing() -> None:
    fusion = InverseVarianceFusion(warmup=3)
    for _ in range(3):
        fusion.update(TRUTH, TRUTH)
    assert fusion.calibration_residual_ == 0.0
    assert fusion.rho == 1.0
    fusion.update(predictions_with_residual(0.1), TRUTH)
    assert fusion.rho == 4.0


@pytest.mark.parametrize("calibrated", [[0.1, None, 0.2, 0.3], [0.1, float("nan"), 0.2, 0.3], [0.1, 0.2]])
def test_unknown_or_missing_scores_are_refused_and_nothing_is_stored(calibrated: list[float]) -> None:
    fusion = InverseVarianceFusion()
    with pytest.raises(ValueError, match="finite and of equal length"):
        fusion.update(calibrated, TRUTH)
    assert fusion.n_groups_ == 0


def test_restored_fusion_goes_on_to_the_last_bit() -> None:
    rng = np.random.default_rng(0)
    one, other = InverseVarianceFusion(half_life=7, warmup=5), InverseVarianceFusion(half_life=7, warmup=5)
    for n_groups in (3, 9):
        for _ in range(n_groups):
            one.update(rng.random(6), rng.random(6))
        other.load_state_dict(json.loads(json.dumps(one.state_dict())))
        assert other.rho == one.rho
        assert other.state_dict() == one.state_dict()
    calibrated, executed = rng.random(6), rng.random(6)
    assert one.update(calibrated, executed) == other.update(calibrated, executed)
    assert one.rho == other.rho


@pytest.mark.parametrize("arguments", [{"clip": (4, 1)}, {"clip": (0, 4)}, {"half_life": 0}, {"warmup": 0}])
def test_nonsense_settings_are_refused(arguments: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=next(iter(arguments))):
        InverseVarianceFusion(**arguments)  # type: ignore[arg-type]
