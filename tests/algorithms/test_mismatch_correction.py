"""Truncated importance sampling between the engine that generates and the trainer that learns."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from wmrl_gym.algorithms.grpo import GRPOSettings, grpo_loss, mismatch_weights
from wmrl_gym.algorithms.policy_update import PolicyUpdate
from wmrl_gym.core import Decision, Trajectory, Turn

from .test_grpo_loss import AGGREGATIONS, batch, loss_and_gradient
from .test_loss_equals_trl import batch as trl_batch
from .test_loss_equals_trl import gradient_of, own_log_probs, trainer_of_trl
from .tiny_lm import byte_tokenizer, tiny_llama, tiny_policy

PLAIN = {"kl_coefficient": 0.0, "entropy_coefficient": 0.0}
NAMES = ("mismatch_difference", "mismatch_ratio", "mismatch_truncated")


@pytest.mark.parametrize("level", ["token", "sequence"])
@pytest.mark.parametrize("kind", AGGREGATIONS)
def test_no_mismatch_gives_the_same_loss_and_gradient(kind: dict[str, Any], level: Any) -> None:
    data = batch()
    plain = loss_and_gradient(GRPOSettings(importance_level=level, **kind), **data)
    capped = GRPOSettings(importance_level=level, mismatch_cap=2.0, **kind)
    corrected = loss_and_gradient(capped, **data, engine_log_probs=data["old_log_probs"])
    assert corrected[0] == plain[0] and torch.equal(corrected[1], plain[1])


def test_without_a_cap_the_engine_changes_nothing() -> None:
    data = batch()
    plain = loss_and_gradient(GRPOSettings(), **data)
    other = loss_and_gradient(GRPOSettings(), **data, engine_log_probs=data["old_log_probs"] - 3)
    assert other[0] == plain[0] and torch.equal(other[1], plain[1])
    assert not set(NAMES) & set(grpo_loss(settings=GRPOSettings(), **data)[1])


def test_a_mismatch_made_by_hand_gives_the_loss_computed_by_hand() -> None:
    """Two sequences, advantages 1 and -2; the second has one token and one of padding."""
    old = torch.log(torch.tensor([[0.5, 0.6], [0.3, 0.5]]))
    engine = torch.log(torch.tensor([[0.4, 0.1], [0.6, 0.001]]))  # ratios 1.25, 6 (capped at 2), 0.5 and padding
    log_probs = (old + torch.log(torch.tensor([[1.1, 0.9], [1.0, 1.0]]))).requires_grad_()
    mask = torch.tensor([[1.0, 1.0], [1.0, 0.0]])
    loss, metrics = grpo_loss(
        log_probs, old, torch.tensor([1.0, -2.0]), mask, GRPOSettings(mismatch_cap=2.0, **PLAIN),
        engine_log_probs=engine,
    )  # fmt: skip
    assert float(loss.detach()) == pytest.approx(-((1.25 * 1.1 + 2 * 0.9) / 2 + 0.5 * -2.0) / 2)
    loss.backward()
    assert log_probs.grad is not None
    # Nothing is clipped, so a token's gradient is minus weight times ratio times advantage over length and batch size.
    expected = torch.tensor([[-1.25 * 1.1 / 4, -2 * 0.9 / 4], [0.5 * 2 / 2, 0.0]])
    torch.testing.assert_close(log_probs.grad, expected)
    assert metrics["mismatch_truncated"] == pytest.approx(1 / 3)
    assert metrics["mismatch_ratio"] == pytest.approx((1.25 + 6 + 0.5) / 3)
    assert metrics["mismatch_difference"] == pytest.approx((math.log(1.25) + math.log(6) + math.log(2)) / 3)


def test_kl_and_entropy_are_not_weighted() -> None:
    data = batch()
    data["advantages"] = torch.zeros_like(data["advantages"])  # leaves the two alone
    settings = {"kl_coefficient": 0.5, "entropy_coefficient": 0.1}
    plain = loss_and_gradient(GRPOSettings(**settings), **data)
    engine = data["old_log_probs"] - 1
    corrected = loss_and_gradient(GRPOSettings(mismatch_cap=2.0, **settings), **data, engine_log_probs=engine)
    assert corrected[0] == plain[0] and torch.equal(corrected[1], plain[1])


@pytest.mark.parametrize("junk", [5.0, float("-inf"), float("nan")])
def test_padding_does_not_count_whatever_stands_there(junk: float) -> None:
    data = batch()
    engine = data["old_log_probs"] - 0.4
    dirty = torch.where(data["mask"].bool(), engine, junk)
    settings = GRPOSettings(mismatch_cap=1.2)
    clean, spoilt = (loss_and_gradient(settings, **data, engine_log_probs=e) for e in (engine, dirty))
    assert clean[0] == spoilt[0] and torch.equal(clean[1], spoilt[1])
    assert grpo_loss(settings=settings, **data, engine_log_probs=dirty)[1]["mismatch_truncated"] == 1


differences = st.lists(st.floats(-40, 40), min_size=1, max_size=12)


@given(differences, st.floats(1, 50), st.integers(0, 2**12 - 1))
def test_a_weight_is_the_ratio_and_never_exceeds_the_cap(values: list[float], cap: float, kept: int) -> None:
    trainer = torch.tensor([values], dtype=torch.float64)
    mask = torch.tensor([[float(kept >> i & 1) for i in range(len(values))]], dtype=torch.float64)
    weights, metrics = mismatch_weights(trainer, torch.zeros_like(trainer), mask, cap)
    assert bool((weights <= cap).all()) and bool((weights > 0).all()) and not weights.requires_grad
    expected = torch.where(mask.bool(), torch.minimum(trainer.exp(), torch.tensor(cap, dtype=torch.float64)), 1.0)
    torch.testing.assert_close(weights, expected)
    assert 0 <= metrics["mismatch_truncated"] <= 1


@pytest.mark.parametrize("cap", [0.0, 0.5, -1.0, float("inf"), float("nan")])
def test_caps_that_mean_nothing_are_refused(cap: float) -> None:
    with pytest.raises(ValueError, match=r"loss\.mismatch_cap"):
        GRPOSettings(mismatch_cap=cap)


def test_a_correction_needs_what_the_engine_computed() -> None:
    with pytest.raises(ValueError, match="engine_log_probs"):
        grpo_loss(settings=GRPOSettings(mismatch_cap=2.0), **batch())


def test_loss_and_gradient_equal_trl_with_its_correction(tmp_path: Path) -> None:
    tokenizer = byte_tokenizer()
    model = tiny_llama(tokenizer)
    trainer = trainer_of_trl(model, tokenizer, tmp_path, loss_type="grpo", beta=0.04, use_bias_correction_kl=False)
    trainer.use_vllm = trainer.vllm_importance_sampling_correction = True
    inputs = trl_batch(model)
    noise = torch.randn(inputs["old_per_token_logps"].shape, generator=torch.Generator().manual_seed(2))
    engine = inputs["old_per_token_logps"] + noise
    inputs["importance_sampling_ratio"] = torch.exp(inputs["old_per_token_logps"] - engine).clamp(max=2.0)
    model.train()
    theirs = trainer._compute_loss(model, inputs)
    their_gradient = gradient_of(model, theirs)
    log_probs, _ = own_log_probs(model, inputs)
    settings = GRPOSettings(clip_high=0.28, kl_coefficient=0.04, entropy_coefficient=0.0, mismatch_cap=2.0)
    ours, metrics = grpo_loss(
        log_probs, inputs["old_per_token_logps"], inputs["advantages"], inputs["completion_mask"].float(), settings,
        reference_log_probs=inputs["ref_per_token_logps"], engine_log_probs=engine,
    )  # fmt: skip
    torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=0)
    torch.testing.assert_close(gradient_of(model, ours), their_gradient, atol=1e-5, rtol=0)
    assert 0.1 < metrics["mismatch_truncated"] < 0.9


def episodes(policy: Any, shift: float = 0.0) -> list[tuple[Trajectory, float]]:
    """Four episodes of two turns and of different lengths, whose engine's log-probs are the trainer's less a shift."""
    rows: list[list[Decision]] = [[] for _ in range(4)]
    for turn in range(2):
        decisions = policy.act([f"say {i}" for i in range(4)], histories=rows, seeds=[(0, i, turn) for i in range(4)])
        for i, decision in enumerate(decisions):
            kept = decision.token_ids[: 3 + i + turn]
            rows[i].append(dataclasses.replace(
                decision, token_ids=kept, log_probs=(decision.log_probs[: len(kept)] - np.float32(shift))
            ))  # fmt: skip
    return [
        (Trajectory(tuple(Turn(d, None, None, None, 0.0) for d in row), None, None), float(advantage))
        for row, advantage in zip(rows, (1.0, -1.0, 0.5, -0.5), strict=True)
    ]


def updated(cap: float | None, shift: float, **settings: Any) -> tuple[dict[str, float | None], torch.Tensor]:
    """Metrics of one update by plain gradient descent, and how far it moved the weights."""
    policy = tiny_policy()
    learnable = episodes(policy, shift)
    start = torch.cat([p.detach().flatten().clone() for p in policy.parameters()])
    update = PolicyUpdate(
        policy, None, GRPOSettings(mismatch_cap=cap, **PLAIN), learning_rate=1e-5, max_grad_norm=1e9, **settings
    )
    update.optimizer = torch.optim.SGD(list(policy.parameters()), lr=1e-5)
    metrics = update.update(learnable, (0,))
    return metrics, torch.cat([p.detach().flatten() for p in policy.parameters()]) - start


def test_without_a_cap_the_metrics_are_unknown() -> None:
    assert [updated(None, 0.0)[0][name] for name in NAMES] == [None] * 3


@pytest.mark.parametrize("settings", [{}, {"microbatch": 3}, {"epochs": 2, "minibatch": 2, "microbatch": 1}])
def test_an_update_over_several_turns_is_scaled_by_a_constant_mismatch(settings: dict[str, Any]) -> None:
    """A shift by log 1.5 weighs every token with 1.5, so that descent goes 1.5 times as far, whatever the batches."""
    metrics, moved = updated(2.0, math.log(1.5), **settings)
    assert metrics["mismatch_ratio"] == pytest.approx(1.5, rel=1e-4)
    assert metrics["mismatch_difference"] == pytest.approx(math.log(1.5), rel=1e-4)
    assert metrics["mismatch_truncated"] == 0
    _, plain = updated(None, 0.0, **settings)
    # With several steps, the later ones start elsewhere; so short steps leave that far below the tolerance.
    torch.testing.assert_close(moved, 1.5 * plain, rtol=0, atol=0.05 * float(plain.abs().max()))
    assert float((moved - plain).abs().max()) > 0.3 * float(plain.abs().max())
    metrics, capped = updated(1.2, math.log(1.5), **settings)
    assert metrics["mismatch_truncated"] == 1
    torch.testing.assert_close(capped, 1.2 * plain, rtol=0, atol=0.05 * float(plain.abs().max()))


def test_old_log_probs_are_those_before_the_first_of_several_optimiser_steps() -> None:
    """On the second pass the importance ratio leaves 1, while the mismatch still measures engine against trainer."""
    policy = tiny_policy()
    learnable = episodes(policy)
    update = PolicyUpdate(policy, None, GRPOSettings(mismatch_cap=2.0, **PLAIN), learning_rate=3e-3, epochs=3)
    metrics = update.update(learnable, (0,))
    assert metrics["importance_ratio"] is not None and abs(metrics["importance_ratio"] - 1) > 1e-3
    assert metrics["mismatch_difference"] == pytest.approx(0, abs=1e-5)
