"""One step of the proxy for another trainer: what `WMRLGRPO` would have learned, in plain numbers."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from wmrl_gym.algorithms.advantages import group_advantages
from wmrl_gym.integrations import GroupScoring
from wmrl_gym.proxy import InverseVarianceFusion, IsotonicDebiaser, RandomAnchors, RewardProxy

KEYS = [f"{g}:task" for g in range(6)]


def _scoring(**options: bool) -> GroupScoring:
    return GroupScoring(
        RewardProxy(RandomAnchors(0.4), IsotonicDebiaser(min_pairs=8, refit_every=4), InverseVarianceFusion(warmup=1)),
        **options,
    )


def _scores(step: int) -> tuple[list[list[float | None]], list[list[float | None]]]:
    random = np.random.default_rng(step)
    predicted = random.random((len(KEYS), 4))
    executed = np.clip(predicted**2 + random.normal(0, 0.1, predicted.shape), 0, 1)
    rows: tuple[list[list[float | None]], list[list[float | None]]] = (predicted.tolist(), executed.tolist())
    rows[1][step % len(KEYS)][0] = None  # an execution that failed
    return rows


def _play(scoring: GroupScoring, steps: range) -> list[list[list[float | None]]]:
    played = []
    for step in steps:
        draw = scoring.draw(KEYS)
        played.append(scoring.score(KEYS, draw.is_anchor, *_scores(step), draw.propensity).advantages)
    return played


@pytest.mark.parametrize("normalise_by_std", [False, True])
def test_advantages_are_weights_times_group_advantages(normalise_by_std: bool) -> None:
    scoring, proxy = _scoring(normalise_by_std=normalise_by_std), _scoring().proxy
    for step in range(6):
        draw = scoring.draw(KEYS)
        mine = scoring.score(KEYS, draw.is_anchor, *_scores(step), draw.propensity)
        scored = proxy.score_arrays(step, KEYS, draw.is_anchor, *_scores(step), draw.propensity)
        for row, rewards, weight in zip(mine.advantages, scored.rewards, scored.weights, strict=True):
            expected = group_advantages(rewards, normalise_by_std=normalise_by_std)
            assert row == [None if a is None else float(weight) * a for a in expected]
    assert mine.scored.metrics["rho"] > 1  # so the weights are not all alike


def test_a_group_of_which_one_member_is_known_teaches_nothing() -> None:
    scored = _scoring().score(["a", "b"], [True, False], [[0.1, 0.2], [0.3, 0.4]], [[0.5, None], [None, None]])
    assert scored.advantages[0] == [None, None]
    assert sum(scored.advantages[1]) == pytest.approx(0)


def test_a_resumed_one_goes_on_bit_for_bit(tmp_path) -> None:
    whole = _play(_scoring(), range(8))
    first = _scoring()
    _play(first, range(5))
    first.save(tmp_path / "deep" / "wmrl.json")
    second = _scoring()
    second.restore(tmp_path / "deep" / "wmrl.json")
    assert second.step == 5
    assert _play(second, range(5, 8)) == whole[5:]
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["wmrl.json"]


def test_a_score_that_is_no_number_changes_nothing() -> None:
    scoring = _scoring()
    with pytest.raises(ValueError, match="finite number"):
        scoring.score(["a"], [False], [[math.nan, 0.0]], [[None, None]])
    assert scoring.state_dict() == _scoring().state_dict()


@pytest.mark.parametrize(
    ("content", "message"),
    [("{", "damaged"), ("[]", "no state"), (json.dumps({"version": 0}), "format 0")],
)
def test_what_is_not_a_state_is_refused(tmp_path, content: str, message: str) -> None:
    path = tmp_path / "wmrl.json"
    path.write_text(content)
    with pytest.raises(ValueError, match=message):
        _scoring().restore(path)
