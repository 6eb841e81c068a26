"""The experiments go through the library, and find what the theory says they must."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.theory.debiasing import anchor_pairs, floor_of_map
from benchmarks.theory.floor import final_gaps, world_model_alone
from benchmarks.theory.fusion import Streams, predict, repeat
from benchmarks.theory.measuring import Estimate, exponent, mean, trace_variance
from benchmarks.theory.problem import standard_problem
from benchmarks.theory.quadrature import floor, map_error_constant
from benchmarks.theory.report import Section, Settings, Table, write_page
from benchmarks.theory.run import main
from benchmarks.theory.scorers import Scorer, no_bias, offset, tilt
from benchmarks.theory.sensitivity import measured_excess, noise_for
from benchmarks.theory.training import sampling_gap, train
from wmrl_gym.proxy import IsotonicDebiaser, RandomAnchors, RewardProxy

PROBLEM = standard_problem()
SHORT = Settings(seeds=2, steps=200)


def test_training_on_a_tilted_world_model_ends_at_its_predicted_floor():
    scorer = Scorer(tilt(0.64))
    assert final_gaps(PROBLEM, scorer, SHORT).mean() == pytest.approx(floor(PROBLEM, scorer.mean), rel=0.3)


def test_offset_changes_no_update():
    with_offset, without = (
        train(PROBLEM, Scorer(bias), world_model_alone(), 0, [20]).thetas for bias in (offset(0.64), no_bias)
    )
    assert with_offset == pytest.approx(without, abs=1e-9)


def test_same_seed_gives_the_same_run_and_another_seed_another():
    def final(seed):
        proxy = RewardProxy(RandomAnchors(0.2, seed=seed), IsotonicDebiaser(min_pairs=40), metric_window=8)
        return train(PROBLEM, Scorer(tilt(0.3), noise=0.2), proxy, seed, [30]).thetas

    assert np.array_equal(final(0), final(0))
    assert not np.array_equal(final(0), final(1))


def test_anchors_and_debiasing_lift_the_policy_off_its_floor():
    scorer = Scorer(tilt(0.64))
    proxy = RewardProxy(RandomAnchors(0.1, seed=0), IsotonicDebiaser(), metric_window=8)
    trace = train(PROBLEM, scorer, proxy, 0, [400])
    assert trace.metrics[-1]["refits"] > 5
    assert PROBLEM.gap(trace.thetas[-1]) < floor(PROBLEM, scorer.mean) / 10


def test_map_of_many_pairs_leaves_about_the_predicted_floor():
    scorer, pairs = Scorer(tilt(0.32)), 2000
    floors = [
        floor_of_map(
            PROBLEM,
            scorer,
            IsotonicDebiaser().fit(*anchor_pairs(PROBLEM, scorer, PROBLEM.optimum, np.random.default_rng(seed), pairs)),
        )
        for seed in range(12)
    ]
    assert np.mean(floors) == pytest.approx(map_error_constant(PROBLEM, PROBLEM.optimum) / pairs, rel=0.8)
    assert np.mean(floors) < floor(PROBLEM, scorer.mean) / 20


def test_fused_variance_is_the_harmonic_form_and_below_either_stream():
    scorer = Scorer(no_bias, noise=1.0)
    streams, sample = predict(PROBLEM, scorer), repeat(PROBLEM, scorer, 1000)
    fused = trace_variance(sample.fused(streams.rho)).value
    assert fused == pytest.approx(streams.harmonic, rel=0.12)
    assert fused < min(trace_variance(sample.stream(anchors)).value for anchors in (True, False))


def test_repeated_gradients_have_exactly_the_anchors_asked_for():
    assert (repeat(PROBLEM, Scorer(no_bias), 20, n_anchors=3).is_anchor.sum(axis=1) == 3).all()


def test_measured_excess_variance_follows_the_exact_form():
    scorer = Scorer(no_bias, noise_for(PROBLEM, 3.0))
    streams = predict(PROBLEM, scorer)
    assert streams.rho == pytest.approx(3.0)
    sample = repeat(PROBLEM, scorer, 1000)
    assert measured_excess(sample, 3.0, 1.0).value == pytest.approx(streams.excess(6.0), abs=0.04)


@given(st.floats(0.01, 10), st.floats(0.01, 10), st.floats(0.05, 20))
def test_exact_excess_is_that_of_two_weighed_streams(executed, world_model, rho):
    streams = Streams(executed, world_model)
    share = rho * 2 / (rho * 2 + 6)  # two anchors of eight groups
    variance = share**2 * executed + (1 - share) ** 2 * world_model
    assert variance / streams.harmonic - 1 == pytest.approx(streams.excess(rho), abs=1e-6, rel=1e-6)


@given(st.floats(0.01, 0.99))
def test_excess_is_a_quarter_of_epsilon_squared_at_most_to_second_order(anchor_share):
    streams = Streams(executed=1 - anchor_share, world_model=anchor_share)
    error = 1e-3
    assert streams.excess(streams.rho * (1 + error)) <= 1.01 * error**2 / 4


def test_exponent_is_found_with_an_interval_that_holds_it():
    x, rng = np.array([1.0, 2.0, 4.0, 8.0]), np.random.default_rng(0)
    found = exponent(x, 3 * x**2 * rng.lognormal(0, 0.2, (20, 4)))
    assert found.low < 2 < found.high
    assert found.high - found.low < 0.5


def test_mean_of_one_seed_claims_no_more_than_its_value():
    assert mean(np.array([2.0])) == Estimate(2.0, 2.0, 2.0)


def test_sampling_noise_falls_like_one_over_the_steps():
    variance = np.array([0.02, 0.01])
    assert sampling_gap(PROBLEM, variance, 100) == pytest.approx(10 * sampling_gap(PROBLEM, variance, 1000))


def test_unknown_is_a_dash_and_never_zero():
    page = Section("Title", [Table(["a", "b"], [[None, 0.0]])], ["plot.svg"]).markdown()
    assert "| – | 0 |" in page
    assert "![Title](plot.svg)" in page


def test_command_draws_one_experiment_and_leaves_the_page_alone(tmp_path, capsys):
    assert main(["--quick", "--only", "sensitivity", "--output", str(tmp_path)]) == 0
    assert "![4. Sensitivity to errors in ρ](theory_sensitivity.svg)" in capsys.readouterr().out
    plot = (tmp_path / "theory_sensitivity.svg").read_text(encoding="utf-8")
    assert "Errors in ρ cost little" in plot
    assert len(plot) < 150_000
    assert not (tmp_path / "theory.md").exists()


def test_page_names_the_command_that_writes_it(tmp_path):
    write_page(tmp_path / "theory.md", "python run.py --seeds 3", Settings(seeds=3), [Section("Title", ["Text."])])
    page = (tmp_path / "theory.md").read_text(encoding="utf-8")
    assert "`python run.py --seeds 3` (3 seeds" in page
    assert "## Title\n\nText.\n" in page


def test_command_refuses_a_single_seed(capsys):
    with pytest.raises(SystemExit):
        main(["--seeds", "1"])
    assert "at least 2" in capsys.readouterr().err
