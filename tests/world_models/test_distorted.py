from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from wmrl_gym.configs import compose_config
from wmrl_gym.configs.schema import TrainConfig
from wmrl_gym.core import Outcome, Submission, WorldModel
from wmrl_gym.world_models.distorted import DistortedWorldModel
from wmrl_gym.world_models.static_analysis import StaticAnalysis


class Honest:
    """Predicts the number that was handed in; None is unknown."""

    def predict(self, submissions: Sequence[Submission]) -> list[Outcome]:
        return [Outcome(s.content[0], "valid", "told", "world_model", details={"own": 1}) for s in submissions]


def predicted(scores: Sequence[float | None], **distortion: Any) -> list[float | None]:
    submissions = [Submission("task", [score, index]) for index, score in enumerate(scores)]
    return [outcome.score for outcome in DistortedWorldModel(Honest(), **distortion).predict(submissions)]


def test_without_a_distortion_scores_stay() -> None:
    scores = [0.0, 0.1, 0.55, 1.0]
    assert predicted(scores) == pytest.approx(scores)


def test_power_gain_and_offset_keep_the_order_and_follow_the_formula() -> None:
    scores = [0.0, 0.1, 0.2, 0.55, 0.7, 1.0]
    distorted = [score or 0.0 for score in predicted(scores, power=0.3, gain=0.8, offset=0.1)]
    assert distorted == pytest.approx([0.1 + 0.8 * score**0.3 for score in scores])
    assert distorted == sorted(distorted) and len(set(distorted)) == len(scores)


def test_other_ranges_of_scores_are_distorted_within_them() -> None:
    assert predicted([-2.0, 0.0, 2.0], power=2.0, low=-2.0, high=2.0) == pytest.approx([-2.0, -1.0, 2.0])


def test_optimism_takes_its_share_of_failures_for_successes_and_leaves_successes_alone() -> None:
    distorted = predicted([0.1] * 2000 + [0.9] * 10, optimism=0.3)
    assert set(distorted[:2000]) == {0.1, 0.65}
    assert np.mean([score == 0.65 for score in distorted[:2000]]) == pytest.approx(0.3, abs=0.04)
    assert distorted[2000:] == [0.9] * 10


def test_noise_has_its_spread_and_stays_within_the_range() -> None:
    distorted = np.asarray(predicted([0.5] * 2000, noise=0.1), float)
    assert distorted.mean() == pytest.approx(0.5, abs=0.01) and distorted.std() == pytest.approx(0.1, rel=0.1)
    wild = np.asarray(predicted([0.5] * 200, noise=5.0), float)
    assert wild.min() == 0.0 and wild.max() == 1.0


def test_a_submission_is_distorted_alike_in_every_batch_and_otherwise_with_another_seed() -> None:
    submissions = [Submission("task", [0.3, index]) for index in range(20)]
    model = DistortedWorldModel(Honest(), noise=0.1, optimism=0.5)
    together = [outcome.score for outcome in model.predict(submissions)]
    alone = [model.predict([submission])[0].score for submission in reversed(submissions)][::-1]
    assert together == alone
    other = DistortedWorldModel(Honest(), noise=0.1, optimism=0.5, seed=1)
    assert together != [outcome.score for outcome in other.predict(submissions)]


def test_only_the_score_is_touched_and_unknown_stays_unknown() -> None:
    known, unknown = DistortedWorldModel(Honest(), power=0.5, noise=0.1).predict(
        [Submission("task", [0.25, 0]), Submission("task", [None, 1])]
    )
    assert (known.status, known.feedback, known.source) == ("valid", "told", "world_model")
    assert known.details == {"own": 1, "undistorted_score": 0.25}
    assert unknown.score is None and unknown.details == {"own": 1}


def test_what_the_wrapped_world_model_remembers_and_measures_is_handed_on() -> None:
    class Remembering(Honest):
        def __init__(self) -> None:
            self.state: dict[str, Any] = {"calls": 3}

        def metrics(self) -> dict[str, float | None]:
            return {"asked": 2.0}

        def state_dict(self) -> dict[str, Any]:
            return self.state

        def load_state_dict(self, state: dict[str, Any]) -> None:
            self.state = state

    model = DistortedWorldModel(Remembering())
    model.load_state_dict({"calls": 5})
    assert model.metrics() == {"asked": 2.0} and model.state_dict() == {"calls": 5}
    forgetful = DistortedWorldModel(Honest())
    forgetful.load_state_dict({})
    assert forgetful.metrics() == {} and forgetful.state_dict() == {}
    assert isinstance(forgetful, WorldModel)


@pytest.mark.parametrize("wrong", [{"power": 0}, {"gain": -1}, {"optimism": 1.5}, {"noise": -0.1}, {"low": 1.0}])
def test_numbers_that_make_no_sense_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError):
        DistortedWorldModel(Honest(), **wrong)  # type: ignore[arg-type]


def test_configured_one_wraps_static_analysis_and_follows_the_seed_of_the_run() -> None:
    overrides = ["experiment=quickstart", "world_model=distorted_static_analysis", "seed=4"]
    component = TrainConfig.from_mapping(compose_config("train", overrides)).world_model
    assert component is not None
    model = component.build()
    assert isinstance(model, DistortedWorldModel) and isinstance(model.world_model, StaticAnalysis)
    assert model.seed == 4 and model.power < 1 and model.optimism > 0
