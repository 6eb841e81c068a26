"""Scripted demonstrators: where they push, and how they hesitate."""

import numpy as np
import pytest

from wmrl_gym.envs.libero.jobs import Privileged
from wmrl_gym.envs.libero.scripted_control import (
    HESITATION_PACE,
    HESITATION_STEPS,
    SCRIPTS,
    ScriptedController,
    script_for,
)
from wmrl_gym.policies.drawers import CHUNK

TASK = "KITCHEN_SCENE5_close_the_top_drawer_of_the_cabinet"
FAR = np.array([-1.0, -1.0, 1.0])


def seen(**sites):
    return Privileged(np.zeros(3), np.zeros(7), objects={}, radii={}, furniture={}, sites=sites)


def controller(**settings):
    return ScriptedController(SCRIPTS[TASK], seen(white_cabinet_1_top_region=np.zeros(3)), **settings)


def paces(hesitation, n_stretches=200):
    """Speed of each stretch's actions, far from every waypoint."""
    demonstrator = controller(hesitation=hesitation, rng=np.random.default_rng(3))
    actions = [demonstrator.act(FAR) for _ in range(n_stretches * HESITATION_STEPS)]
    return np.abs(actions)[:, :3].max(1).reshape(n_stretches, HESITATION_STEPS)


def test_a_demonstrator_without_hesitation_moves_at_full_speed():
    assert (paces(0.0) == 1.0).all()


def test_a_demonstrator_hesitates_for_whole_stretches_in_the_given_share():
    speeds = paces(0.35)
    assert (speeds == speeds[:, :1]).all()
    assert set(np.unique(speeds)) == {HESITATION_PACE, 1.0}
    assert np.mean(speeds[:, 0] == HESITATION_PACE) == pytest.approx(0.35, abs=0.1)


def test_a_stretch_is_what_the_drawer_agent_decides_at_once():
    assert HESITATION_STEPS == CHUNK


@pytest.mark.parametrize("hesitation", [-0.1, 35, float("nan")])
def test_a_hesitation_that_is_no_probability_is_refused(hesitation):
    with pytest.raises(ValueError, match="probability"):
        controller(hesitation=hesitation)


def test_without_hesitation_the_first_random_numbers_are_the_noise():
    noise = np.random.default_rng(5).standard_normal(3)
    action = controller(noise=0.1, rng=np.random.default_rng(5)).act(np.array([0.0, -0.15, 0.0]))
    np.testing.assert_allclose(action[:3], np.array([0.0, -0.5, 0.0]) + 0.1 * noise, rtol=1e-6)


def test_a_scene_without_the_region_is_named():
    with pytest.raises(ValueError, match="wooden_basket"):
        ScriptedController(SCRIPTS[TASK], seen(wooden_basket=np.zeros(3)))


def test_a_task_without_a_script_is_named():
    with pytest.raises(ValueError, match="fold the laundry"):
        script_for("fold the laundry")
