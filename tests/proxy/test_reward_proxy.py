"""The reward proxy: order of operations, unknown scores, weights, what is restored."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import spearmanr
from sklearn.metrics import roc_auc_score

from tests.proxy.guessing import group
from wmrl_gym.core import Decision, Group, Outcome, Submission, Trajectory, Turn
from wmrl_gym.proxy import InverseVarianceFusion, IsotonicDebiaser, RandomAnchors, RewardProxy, group_residual
from wmrl_gym.proxy.agreement import area_under_curve, rank_correlation

SCORE = st.none() | st.floats(0, 1)


def small_proxy(min_pairs: int = 4, warmup: int = 1, **settings: object) -> RewardProxy:
    return RewardProxy(
        RandomAnchors(),
        IsotonicDebiaser(min_pairs=min_pairs, refit_every=4),
        InverseVarianceFusion(warmup=warmup),
        **settings,  # type: ignore[arg-type]
    )


def random_step(rng: np.random.Generator, n_anchors: int = 2, n_others: int = 3) -> list[Group]:
    groups = []
    for g in range(n_anchors + n_others):
        truth = rng.random(4)
        predicted = (truth / 2 + 0.1 * rng.random(4)).tolist()
        groups.append(group(str(g), predicted, truth.tolist() if g < n_anchors else None))
    return groups


def test_pairs_enter_the_map_before_the_residual_is_measured_and_rewards_are_formed() -> None:
    # The four pairs of this very step make the first fit: the map halves what was doubled, so nothing is left over.
    executed = [0.0, 0.2, 0.4, 0.8]
    predicted = [0.0, 0.1, 0.2, 0.4]
    proxy = small_proxy()
    scored = proxy.score(0, [group("a", predicted, executed), group("b", [0.1, 0.3])])
    assert proxy.fusion is not None
    assert proxy.fusion.residual_ == pytest.approx(0.0, abs=1e-12)
    assert scored.rewards[1] == pytest.approx([0.2, 0.6])
    late = RewardProxy(fusion=InverseVarianceFusion())
    late.score(0, [group("a", predicted, executed)])
    assert late.fusion is not None
    assert late.fusion.residual_ == pytest.approx(group_residual(predicted, executed))
    assert late.fusion.residual_ == pytest.approx(0.25)


def test_weights_use_the_residual_of_this_step() -> None:
    proxy = RewardProxy(fusion=InverseVarianceFusion(warmup=1))
    scored = proxy.score(0, [group("a", [0.0, 0.5], [0.0, 1.0]), group("b", [0.1, 0.3])])
    # The warm-up ends with this group, so rho is 2 at once: 2·2/3 and 2/3.
    assert scored.weights == pytest.approx([4 / 3, 2 / 3])


def test_ledger_keeps_forecasts_made_before_the_map_saw_their_pairs() -> None:
    proxy = small_proxy()
    proxy.score(0, [group("a", [0.0, 0.1, 0.2, 0.4], [0.0, 0.2, 0.4, 0.8])])
    proxy.score(1, [group("b", [0.1, 0.3], [0.9, 0.1])])
    assert [pair.calibrated for pair in proxy.ledger] == pytest.approx([0.0, 0.1, 0.2, 0.4, 0.2, 0.6])
    assert [pair.predicted for pair in proxy.ledger] == [0.0, 0.1, 0.2, 0.4, 0.1, 0.3]
    assert [pair.step for pair in proxy.ledger] == [0, 0, 0, 0, 1, 1]


@given(
    st.lists(
        st.tuples(st.booleans(), st.lists(st.tuples(SCORE, SCORE), min_size=1, max_size=5)), min_size=1, max_size=8
    ),
    st.lists(st.tuples(st.booleans(), st.lists(st.tuples(SCORE, SCORE), min_size=2, max_size=5)), max_size=4),
)
@settings(max_examples=150, deadline=None)
def test_whatever_is_unknown_weights_average_to_one_over_kept_groups_and_streams_stay_apart(
    first: list[tuple[bool, list[tuple[float | None, float | None]]]],
    second: list[tuple[bool, list[tuple[float | None, float | None]]]],
) -> None:
    proxy = small_proxy()
    for step, rows in enumerate((first, second)):
        groups = [
            Group(str(g), "t", anchor, 0.5, tuple(Trajectory((), p, e) for p, e in scores))
            for g, (anchor, scores) in enumerate(rows)
        ]
        scored = proxy.score(step, groups)
        for one, rewards, dropped in zip(groups, scored.rewards, scored.dropped, strict=True):
            source = [t.executed_score if one.is_anchor else t.predicted_score for t in one.trajectories]
            assert [reward is None for reward in rewards] == [score is None for score in source]
            assert dropped == (sum(score is not None for score in source) < 2)
            if one.is_anchor:
                assert rewards == source
        assert (scored.weights[scored.dropped] == 0).all()
        if not scored.dropped.all():
            assert scored.weights[~scored.dropped].mean() == pytest.approx(1.0)


def test_anchor_of_unknown_execution_never_falls_back_to_its_prediction() -> None:
    proxy = small_proxy()
    scored = proxy.score(0, [group("a", [0.1, 0.2, 0.3], [0.5, None, 0.7]), group("b", [0.1, 0.2, None])])
    assert scored.rewards == [[0.5, None, 0.7], [0.1, 0.2, None]]
    assert [pair.executed for pair in proxy.ledger] == [0.5, 0.7]
    assert scored.metrics["anchor_failures"] == 1
    assert scored.metrics["unknown_predictions"] == 1


def test_group_with_one_known_member_is_dropped_and_counted() -> None:
    scored = small_proxy().score(
        0, [group("a", [0.1, 0.2], [0.5, None]), group("b", [0.1, 0.4]), group("c", [0.3, 0.4])]
    )
    assert scored.dropped.tolist() == [True, False, False]
    assert scored.weights.tolist() == [0.0, 1.0, 1.0]
    assert scored.metrics["dropped_groups"] == 1


def test_step_in_which_nothing_is_known_weighs_nothing() -> None:
    scored = small_proxy().score(0, [group("a", [None, None], [None, None]), group("b", [None, 0.2])])
    assert scored.dropped.all()
    assert scored.weights.tolist() == [0.0, 0.0]
    assert small_proxy().score(0, []).weights.shape == (0,)


def test_all_executed_needs_no_world_model() -> None:
    proxy = RewardProxy(RandomAnchors(1.0), IsotonicDebiaser(min_pairs=2), InverseVarianceFusion())
    scored = proxy.score(0, [group("a", [None, None], [0.5, 0.7]), group("b", [None, None], [0.1, 0.2])])
    assert scored.rewards == [[0.5, 0.7], [0.1, 0.2]]
    assert scored.weights.tolist() == [1.0, 1.0]
    assert scored.metrics["pairs"] == 0
    assert scored.metrics["auc"] is None
    assert scored.metrics["anchor_fraction"] == 1.0


def test_ablations_leave_their_part_out() -> None:
    groups = random_step(np.random.default_rng(0))
    no_debiasing = RewardProxy(fusion=InverseVarianceFusion(warmup=1)).score(0, groups)
    assert no_debiasing.rewards[-1] == [t.predicted_score for t in groups[-1].trajectories]
    assert no_debiasing.weights[0] > no_debiasing.weights[-1]
    no_fusion = RewardProxy(debiaser=IsotonicDebiaser(min_pairs=4)).score(0, groups)
    assert no_fusion.rewards[-1] != [t.predicted_score for t in groups[-1].trajectories]
    assert no_fusion.weights.tolist() == [1.0] * 5


@pytest.mark.parametrize("wrong", [float("nan"), float("inf")])
@pytest.mark.parametrize("anchor", [True, False])
def test_score_that_is_no_number_is_refused_by_name_and_nothing_is_stored(wrong: float, anchor: bool) -> None:
    proxy = small_proxy()
    proxy.score(0, random_step(np.random.default_rng(0)))
    before = json.dumps(proxy.state_dict())
    bad = group("bad", [0.5, wrong], [0.5, 0.6] if anchor else None)
    with pytest.raises(ValueError, match="predicted_score of trajectory 1 in group 'bad'"):
        proxy.score(1, [*random_step(np.random.default_rng(1)), bad])
    assert json.dumps(proxy.state_dict()) == before


def test_restored_proxy_goes_on_to_the_last_bit() -> None:
    rng = np.random.default_rng(0)
    one = small_proxy(min_pairs=20, warmup=6)
    for step in range(9):
        one.score(step, random_step(rng))
    saved = json.dumps(one.state_dict())
    other = small_proxy(min_pairs=20, warmup=6)
    other.load_state_dict(json.loads(saved))
    assert json.dumps(other.state_dict()) == saved
    assert other.metrics() == one.metrics()
    assert other.ledger == one.ledger
    for step in range(9, 15):
        groups = random_step(rng)
        a, b = one.score(step, groups), other.score(step, groups)
        assert (a.rewards, a.weights.tolist(), a.metrics) == (b.rewards, b.weights.tolist(), b.metrics)
    assert one.metrics()["rho"] != 1.0
    assert json.dumps(other.state_dict()) == json.dumps(one.state_dict()) != saved


def test_state_of_another_build_is_refused_and_changes_nothing() -> None:
    proxy = small_proxy()
    proxy.score(0, random_step(np.random.default_rng(0)))
    plain = RewardProxy()
    before = plain.state_dict()
    with pytest.raises(ValueError, match="differ in 'debiaser'"):
        plain.load_state_dict(proxy.state_dict())
    with pytest.raises(ValueError, match="format 99"):
        plain.load_state_dict({**before, "version": 99})
    assert plain.state_dict() == before


def test_ledger_records_what_execution_said_and_cost(tmp_path: Path) -> None:
    decision = Decision("", "", np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.float32))
    turns = tuple(
        Turn(decision, Submission("t", 1), None, Outcome(score, status, seconds=seconds), score)
        for score, status, seconds in ((0.1, "runtime_error", 2.0), (0.75, "valid", 3.5))
    )
    trajectories = (Trajectory(turns, 0.5, 0.75), Trajectory(turns[:1], 0.5, 0.1))
    proxy = RewardProxy()
    proxy.score(7, [Group("0:t", "t", True, 0.15, trajectories)])
    proxy.write_ledger(tmp_path / "ledger.jsonl")
    first, second = (json.loads(line) for line in (tmp_path / "ledger.jsonl").read_text().splitlines())
    assert first == {
        "step": 7,
        "group_key": "0:t",
        "predicted": 0.5,
        "calibrated": 0.5,
        "executed": 0.75,
        "propensity": 0.15,
        "status": "valid",
        "seconds": 5.5,
    }
    assert (second["status"], second["seconds"]) == ("runtime_error", 2.0)
    columns = proxy.ledger_columns()
    assert columns["seconds"].tolist() == [5.5, 2.0]
    assert columns["status"].tolist() == ["valid", "runtime_error"]
    assert columns["step"].dtype == np.int64


def test_the_state_does_not_grow_beyond_the_window() -> None:
    rng = np.random.default_rng(0)
    proxy = RewardProxy(RandomAnchors(0.25), metric_window=20, ledger_window=32)
    sizes, pairs = [], []
    for step in range(40):
        pairs += proxy.score(step, random_step(rng, n_anchors=1, n_others=3)).pairs
        sizes.append(len(json.dumps(proxy.state_dict())))
    assert max(sizes[20:]) < 1.1 * sizes[20]
    assert proxy.metrics()["pairs"] == len(pairs) == 160
    assert list(proxy.ledger) == pairs[-32:]
    other = RewardProxy(RandomAnchors(0.25), metric_window=20, ledger_window=32)
    other.load_state_dict(json.loads(json.dumps(proxy.state_dict())))
    assert other.ledger == proxy.ledger and other.metrics() == proxy.metrics()


def test_metrics_tell_bias_before_and_after_and_the_realised_anchor_fraction() -> None:
    rng = np.random.default_rng(0)
    proxy = small_proxy(min_pairs=40)
    for step in range(60):
        proxy.score(step, random_step(rng, n_anchors=1, n_others=3))
    metrics = proxy.metrics()
    assert metrics["anchor_fraction"] == 0.25
    assert metrics["pairs"] == 240
    assert metrics["refits"] == 1 + (240 - 40) // 4
    assert metrics["bias_before"] == pytest.approx(-0.2, abs=0.03)
    assert abs(metrics["bias_after"] or 1.0) < 0.05
    columns = proxy.ledger_columns()
    assert metrics["rank_correlation"] == pytest.approx(spearmanr(columns["predicted"], columns["executed"]).statistic)
    assert metrics["auc"] == pytest.approx(roc_auc_score(columns["executed"] >= 0.5, columns["predicted"]))


def test_success_may_mean_better_than_the_median() -> None:
    proxy = RewardProxy(success_score=None)
    assert proxy.metrics()["auc"] is None
    proxy.score(0, [group("a", [0.1, 0.3, 0.2, 0.4], [0.01, 0.02, 0.03, 0.04])])
    assert proxy.metrics()["auc"] == pytest.approx(0.75)
    assert RewardProxy().metrics()["auc"] is None


def test_metrics_look_at_the_newest_pairs() -> None:
    proxy = RewardProxy(metric_window=2)
    proxy.score(0, [group("a", [0.9, 0.8], [0.0, 0.0]), group("b", [0.5, 0.6], [0.4, 0.5])])
    assert proxy.metrics()["bias_before"] == pytest.approx(0.1)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=2, max_size=30))
def test_rank_correlation_and_auc_agree_with_scipy_and_scikit_learn_on_ties(pairs: list[tuple[int, int]]) -> None:
    x, y = np.array(pairs, float).T
    if np.ptp(x) == 0 or np.ptp(y) == 0:
        assert rank_correlation(x, y) is None
    else:
        assert rank_correlation(x, y) == pytest.approx(spearmanr(x, y).statistic)
    good = y > 2
    expected = roc_auc_score(good, x) if 0 < good.sum() < len(good) else None
    assert area_under_curve(x, good) == (None if expected is None else pytest.approx(expected))


def test_plain_arrays_score_as_groups_do() -> None:
    groups = random_step(np.random.default_rng(3))
    keys = [one.key for one in groups]
    by_groups, by_arrays = small_proxy(), small_proxy()
    expected = by_groups.score(0, groups)
    scored = by_arrays.score_arrays(
        0,
        keys,
        [one.is_anchor for one in groups],
        [[t.predicted_score for t in one.trajectories] for one in groups],
        [[t.executed_score for t in one.trajectories] for one in groups],
        [0.1] * 5,
    )
    assert scored.rewards == expected.rewards
    assert scored.weights.tolist() == expected.weights.tolist()
    assert by_arrays.ledger == by_groups.ledger
    assert by_arrays.score_arrays(1, ["a"], [True], [[0.1, 0.2]], [[0.1, 0.3]]).rewards == [[0.1, 0.3]]
    assert by_arrays.ledger[-1].propensity == pytest.approx(1.0)  # one group, and at least one anchor a step
