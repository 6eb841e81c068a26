from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wmrl_gym.algorithms.advantages import group_advantages

rewards = st.lists(st.none() | st.floats(-10, 10), min_size=2, max_size=8)


@given(rewards, st.booleans())
def test_advantages_of_a_group_sum_to_zero_and_keep_the_order_of_rewards(row: list[float | None], std: bool) -> None:
    advantages = group_advantages(row, normalise_by_std=std)
    pairs = [(r, a) for r, a in zip(row, advantages, strict=True) if r is not None and a is not None]
    assert sum(a for _, a in pairs) == pytest.approx(0, abs=1e-6)
    for (r1, a1), (r2, a2) in itertools.pairwise(pairs):
        assert (a1 - a2) * (r1 - r2) >= 0


@given(rewards)
def test_unscored_trajectory_changes_no_advantage(row: list[float | None]) -> None:
    scored = [r for r in row if r is not None]
    advantages = group_advantages(row)
    assert [a for r, a in zip(row, advantages, strict=True) if r is None] == [None] * (len(row) - len(scored))
    assert [a for r, a in zip(row, advantages, strict=True) if r is not None] == group_advantages(scored)


def test_a_group_with_one_scored_member_has_no_advantages() -> None:
    assert group_advantages([None, 0.7, None]) == [None, None, None]


def test_dividing_by_the_standard_deviation_undoes_an_affine_calibration_and_centring_alone_does_not() -> None:
    row = [0.1, 0.5, 0.2, 0.9]
    stretched = [3 * r + 1 for r in row]
    normalised = [group_advantages(x, normalise_by_std=True) for x in (row, stretched)]
    np.testing.assert_allclose(normalised[0], normalised[1], rtol=1e-3)  # up to the offset of 1e-4
    np.testing.assert_allclose(group_advantages(stretched), 3 * np.array(group_advantages(row)))
