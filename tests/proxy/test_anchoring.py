"""Anchors: a pure function of seed, step and keys, with an honest propensity."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wmrl_gym.proxy import RandomAnchors

KEYS = [f"{g}:task" for g in range(8)]


@given(st.permutations(KEYS), st.integers(0, 1000), st.integers(0, 3))
def test_order_of_groups_changes_no_draw(keys: list[str], step: int, forced: int) -> None:
    anchors = RandomAnchors(0.2, min_per_step=forced, seed=3)
    straight = dict(zip(KEYS, anchors.draw(step, KEYS).is_anchor, strict=True))
    assert dict(zip(keys, anchors.draw(step, keys).is_anchor, strict=True)) == straight


def test_another_process_draws_the_same_anchors() -> None:
    code = (
        "from wmrl_gym.proxy import RandomAnchors;"
        f"print([RandomAnchors(0.3, seed=7).draw(s, {KEYS!r}).is_anchor.tolist() for s in range(5)])"
    )
    there = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    here = [RandomAnchors(0.3, seed=7).draw(s, KEYS).is_anchor.tolist() for s in range(5)]
    assert there.strip() == str(here)


def test_draws_depend_on_seed_step_and_key() -> None:
    def draws(seed: int, steps: range, suffix: str = "") -> list[list[bool]]:
        keys = [key + suffix for key in KEYS]
        return [RandomAnchors(0.5, seed=seed).draw(step, keys).is_anchor.tolist() for step in steps]

    first = draws(0, range(20))
    assert first != draws(1, range(20))
    assert first != draws(0, range(20, 40))
    assert first != draws(0, range(20), "b")


@pytest.mark.parametrize(("fraction", "forced", "n_groups"), [(0.1, 0, 8), (0.1, 1, 8), (0.1, 2, 8), (0.3, 3, 4)])
def test_propensity_is_the_frequency_of_being_an_anchor(fraction: float, forced: int, n_groups: int) -> None:
    anchors = RandomAnchors(fraction, min_per_step=forced)
    draws = [anchors.draw(step, KEYS[:n_groups]) for step in range(3000)]
    propensity_G = draws[0].propensity
    frequency_G = np.mean([draw.is_anchor for draw in draws], axis=0)
    error_G = np.sqrt(propensity_G * (1 - propensity_G) / len(draws))
    assert (np.abs(frequency_G - propensity_G) < 4.5 * error_G).all()
    assert all(draw.is_anchor.sum() >= forced for draw in draws)


def test_forced_anchors_are_those_next_in_hash_order() -> None:
    for step in range(50):
        few = RandomAnchors(1e-9, min_per_step=2).draw(step, KEYS).is_anchor
        more = RandomAnchors(1e-9, min_per_step=3).draw(step, KEYS).is_anchor
        assert few.sum() == 2
        assert more.sum() == 3
        assert (more >= few).all()


def test_fraction_one_is_all_and_zero_is_none_whatever_the_minimum() -> None:
    everything, nothing = RandomAnchors(1.0).draw(0, KEYS), RandomAnchors(0.0, min_per_step=3).draw(0, KEYS)
    assert everything.is_anchor.all()
    assert (everything.propensity == 1).all()
    assert not nothing.is_anchor.any()
    assert (nothing.propensity == 0).all()


def test_minimum_beyond_the_groups_takes_them_all() -> None:
    draw = RandomAnchors(0.1, min_per_step=5).draw(0, ["a", "b"])
    assert draw.is_anchor.all()
    assert draw.propensity == pytest.approx([1.0, 1.0])


def test_no_groups_no_anchors() -> None:
    assert RandomAnchors().draw(0, []).is_anchor.shape == (0,)


def test_single_episodes_are_drawn_at_the_plain_fraction() -> None:
    drawn = [RandomAnchors(0.25, min_per_step=1).draw_episode(i, "episode") for i in range(2000)]
    assert abs(np.mean([anchor for anchor, _ in drawn]) - 0.25) < 0.045
    assert {propensity for _, propensity in drawn} == {0.25}


def test_equal_keys_are_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"\['a'\] occur more than once in step 4"):
        RandomAnchors().draw(4, ["a", "b", "a"])


SETTINGS = [{"fraction": 1.5}, {"fraction": float("nan")}, {"min_per_step": -1}, {"max_in_flight": 0}]


@pytest.mark.parametrize("settings", SETTINGS)
def test_nonsense_settings_are_refused(settings: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(settings))):
        RandomAnchors(**settings)  # type: ignore[arg-type]
