"""Figures of hand-made pairs whose values can be worked out on paper."""

from __future__ import annotations

import numpy as np
import pytest

from tests.corpus.made import record
from tests.reporting.fidelity.made import predicted
from wmrl_gym.reporting.fidelity.agreement import FIGURES, LEAST_FOR_INTERVAL, episode_draws, estimates
from wmrl_gym.reporting.fidelity.pairs import Pairs, constant_predictions


def figure(name: str, pairs: Pairs) -> float | None:
    return FIGURES[name](pairs)


def test_accuracy_is_over_what_it_does_not_abstain_on_and_the_strict_one_over_everything() -> None:
    truths = [record("valid"), record("runtime_error"), record("runtime_error"), record("invalid_submission")]
    guesses = [predicted("valid"), predicted("valid"), predicted("runtime_error"), predicted("unknown", None)]
    pairs = Pairs.of(truths, guesses)
    assert figure("status_accuracy", pairs) == pytest.approx(2 / 3)
    assert figure("status_accuracy_unknown_wrong", pairs) == pytest.approx(2 / 4)
    assert figure("abstention_rate", pairs) == pytest.approx(1 / 4)
    assert figure("reward_mae", pairs) == pytest.approx(0.7 / 3)
    assert figure("reward_bias", pairs) == pytest.approx(0.7 / 3)


def test_solutions_without_truth_are_left_out() -> None:
    pairs = Pairs.of([record("unknown", None), record("valid")], [predicted("valid"), predicted("valid")])
    assert len(pairs) == 1 and figure("status_accuracy", pairs) == 1.0


def test_truth_among_two_is_unknown_where_no_second_status_is_named() -> None:
    truths = [record("runtime_error"), record("runtime_error"), record("timeout")]
    silent = Pairs.of(truths, [predicted("valid")] * 3)
    assert figure("status_accuracy_at_2", silent) is None
    ranked = predicted("valid", ranking=("valid", "runtime_error", "timeout"))
    assert figure("status_accuracy_at_2", Pairs.of(truths, [ranked] * 3)) == pytest.approx(2 / 3)
    # One that names no second status does not count as a miss.
    assert figure("status_accuracy_at_2", Pairs.of(truths, [ranked, ranked, predicted("valid")])) == 1.0


def test_exception_class_is_judged_where_one_is_raised() -> None:
    truths = [record("runtime_error"), record("runtime_error", exception="ValueError"), record("valid")]
    guesses = [
        predicted("runtime_error", exception="KeyError"),
        predicted("runtime_error", exception="TypeError", second_exception="ValueError"),
        predicted("runtime_error", exception="KeyError"),
    ]
    pairs = Pairs.of(truths, guesses)
    assert figure("exception_accuracy", pairs) == pytest.approx(1 / 2)
    assert figure("exception_accuracy_at_2", pairs) == 1.0
    # Predicting that it runs is wrong about the exception.
    assert figure("exception_accuracy", Pairs.of(truths[:1], [predicted("valid")])) == 0.0
    assert figure("exception_accuracy_at_2", Pairs.of(truths[:1], [predicted("valid")])) is None


def test_ties_count_half_in_the_auc_and_share_ranks_in_spearman() -> None:
    truths = [record("valid", 0.9), record("valid", 0.6), record("runtime_error")]
    tied = Pairs.of(truths, [predicted(score=0.7), predicted(score=0.5), predicted(score=0.5)])
    assert figure("validity_auc", tied) == pytest.approx((1 + 0.5) / 2)
    # Ranks 3, 1.5, 1.5 against 3, 2, 1: covariance 1.5, variances 1.5 and 2.
    assert figure("spearman", tied) == pytest.approx(1.5 / np.sqrt(1.5 * 2.0))
    assert figure("spearman_valid", tied) == pytest.approx(1.0)


def test_one_class_has_no_auc_and_equal_scores_have_no_rank_correlation() -> None:
    only_valid = Pairs.of([record("valid", 0.9), record("valid", 0.6)], [predicted(score=0.8), predicted(score=0.4)])
    assert figure("validity_auc", only_valid) is None
    constant = Pairs.of([record("valid", 0.9), record("timeout")], [predicted(score=0.5), predicted(score=0.5)])
    assert figure("spearman", constant) is None and figure("validity_auc", constant) == 0.5
    abstaining = Pairs.of([record("valid")], [predicted("unknown", None)])
    known = {name: figure(name, abstaining) for name in FIGURES}
    assert known.pop("abstention_rate") == 1.0 and known.pop("status_accuracy_unknown_wrong") == 0.0
    assert set(known.values()) == {None}


def test_no_constant_guess_beats_the_one_that_is_shown_beside() -> None:
    rng = np.random.default_rng(0)
    truths = [record("valid", score) for score in rng.random(21)] + [record("runtime_error")] * 9
    best = Pairs.of(truths, constant_predictions(truths))
    assert figure("status_accuracy", best) == pytest.approx(0.7)
    error = figure("reward_mae", best)
    assert error is not None
    for score in np.linspace(0, 1, 101):
        other = figure("reward_mae", Pairs.of(truths, [predicted(score=float(score))] * 30))
        assert other is not None and error <= other + 1e-12


def test_interval_holds_the_estimate_and_narrows_with_more_solutions() -> None:
    def width(copies: int) -> float:
        truths = [record(s, episode=i) for i, s in enumerate(["valid", "runtime_error", "valid", "timeout"] * copies)]
        found = estimates(Pairs.of(truths, [predicted("valid")] * len(truths)), resamples=300, level=0.9, seed=0)
        accuracy = found["status_accuracy"]
        assert accuracy.value == 0.5 and accuracy.low is not None and accuracy.high is not None
        assert accuracy.low < 0.5 < accuracy.high
        return accuracy.high - accuracy.low

    assert width(100) < 0.6 * width(20)


def test_few_solutions_and_figures_that_rarely_exist_have_no_interval() -> None:
    truths = [record("valid", episode=i) for i in range(LEAST_FOR_INTERVAL - 1)]
    few = estimates(Pairs.of(truths, [predicted()] * len(truths)), resamples=50, level=0.95, seed=0)
    assert few["status_accuracy"].value == 1.0 and few["status_accuracy"].low is None
    truths = [record("valid", episode=i) for i in range(100)]
    none = estimates(Pairs.of(truths, [predicted()] * 100), resamples=50, level=0.95, seed=0)
    assert none["validity_auc"].value is None and none["validity_auc"].high is None


def test_an_answer_and_its_revision_are_drawn_together() -> None:
    truths = [record(episode=i // 2, turn=i % 2) for i in range(20)]
    for rows in episode_draws(Pairs.of(truths, [predicted()] * 20), 30, 0):
        assert len(rows) == 20
        assert sorted(rows[rows % 2 == 0] + 1) == sorted(rows[rows % 2 == 1])
