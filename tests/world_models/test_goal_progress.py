from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest

from wmrl_gym.core import Submission
from wmrl_gym.world_models.goal_progress import GoalProgressWorldModel, MonotoneBias
from wmrl_gym.world_models.progress_reduction import reduce_progress

from .episodes import episode


def played(*progress: float) -> Submission:
    return episode(np.linspace(0, 1, len(progress)), goal_progress=progress)


def scores(model: GoalProgressWorldModel, submissions: list[Submission]) -> list[float | None]:
    return [outcome.score for outcome in model.predict(submissions)]


EPISODES = [played(0.0, 0.0, last / 10) for last in range(11)]
TRUTH = [last / 10 for last in range(11)]


def test_without_bias_and_noise_it_tells_the_truth() -> None:
    assert scores(GoalProgressWorldModel(), EPISODES) == pytest.approx(TRUTH)


@pytest.mark.parametrize("bias", [MonotoneBias(power=0.3), MonotoneBias(2.0, 0.5, 0.3), MonotoneBias(offset=-1.0)])
def test_bias_keeps_the_order_and_changes_the_values(bias: MonotoneBias) -> None:
    biased = scores(GoalProgressWorldModel(bias), EPISODES)
    assert all(a < b for a, b in itertools.pairwise(biased))
    assert biased == pytest.approx([bias.offset + bias.gain * value**bias.power for value in TRUTH])
    lost = scores(GoalProgressWorldModel(bias, reducer="potential"), [played(1.0, 0.5), played(0.5, 0.5)])
    assert lost[0] < lost[1], "an episode that lost progress stands below one that stood still"


def test_noise_is_of_the_given_size_and_belongs_to_the_seed_and_the_submission() -> None:
    many = [dataclasses.replace(EPISODES[5], task_id=str(i)) for i in range(400)]
    noisy = GoalProgressWorldModel(noise=0.2, seed=1)
    errors = np.array(scores(noisy, many)) - 0.5
    assert abs(errors.mean()) < 0.03 and errors.std() == pytest.approx(0.2, rel=0.12)
    assert scores(noisy, many[::-1]) == scores(GoalProgressWorldModel(noise=0.2, seed=1), many)[::-1]
    assert scores(noisy, many) != scores(GoalProgressWorldModel(noise=0.2, seed=2), many)
    doubled = np.array(scores(GoalProgressWorldModel(noise=0.4, seed=1), many)) - 0.5
    assert doubled == pytest.approx(2 * errors)


def test_hidden_progress_is_unknown_and_says_what_to_set() -> None:
    hidden, known = GoalProgressWorldModel().predict([episode([0.0, 1.0]), played(0.0, 1.0)])
    assert hidden.score is None and hidden.status == "unknown" and "reveal_goal_progress=true" in hidden.feedback
    assert known.score == 1.0 and known.status == "predicted" and known.source == "world_model"


@pytest.mark.parametrize("progress", [(), (0.1, 1.5), (float("nan"),), "0.5", 0.5, (("a",),)])
def test_progress_that_is_none_is_unknown(progress: object) -> None:
    (outcome,) = GoalProgressWorldModel().predict([episode([0.0, 1.0], goal_progress=progress)])
    assert outcome.score is None and "fraction" in outcome.feedback


def test_success_needs_every_goal_at_the_last_frame() -> None:
    model = GoalProgressWorldModel(reducer="success")
    assert scores(model, [played(0.0, 1.0), played(1.0, 0.5), played(0.0, 0.99)]) == [1.0, 0.0, 0.0]


def test_windows_of_the_potential_never_overlap_and_a_single_frame_has_none() -> None:
    assert reduce_progress([0.0, 1.0], None, "potential") == 1.0
    assert reduce_progress([0.0, 0.2, 0.9, 0.8, 1.0], None, "potential") == pytest.approx(0.9 - 0.1)
    assert reduce_progress([0.7], None, "potential") == 0.0
    assert reduce_progress([], None, "final") is None and reduce_progress([0.5], None, "success") is None


def test_settings_that_lose_the_order_are_refused() -> None:
    for settings in ({"power": 0.0}, {"gain": -1.0}):
        with pytest.raises(ValueError, match="order"):
            MonotoneBias(**settings)
    with pytest.raises(ValueError, match="noise"):
        GoalProgressWorldModel(noise=-0.1)
