from __future__ import annotations

from typing import Any

import pytest
import torch

from wmrl_gym.algorithms.grpo import GRPOSettings, grpo_loss

PLAIN = {"kl_coefficient": 0.0, "entropy_coefficient": 0.0}
AGGREGATIONS: list[dict[str, Any]] = [
    {"aggregation": "sequence"},
    {"aggregation": "token"},
    {"aggregation": "constant", "constant_length": 9},
]


def batch(n: int = 6, width: int = 5, seed: int = 0) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)

    def draw(scale: float) -> torch.Tensor:
        return torch.randn(n, width, generator=generator, dtype=torch.float64) * scale

    log_probs = -1 + draw(0.3)
    lengths = torch.tensor([1 + i % width for i in range(n)])
    return {
        "log_probs": log_probs.requires_grad_(),
        "old_log_probs": (log_probs + draw(0.3)).detach(),
        "reference_log_probs": (log_probs + draw(0.5)).detach(),
        "entropy": draw(1.0).abs(),
        "advantages": torch.randn(n, generator=generator, dtype=torch.float64),
        "mask": (torch.arange(width) < lengths[:, None]).double(),
    }


def loss_and_gradient(settings: GRPOSettings, **data: Any) -> tuple[float, torch.Tensor]:
    loss, _ = grpo_loss(settings=settings, **data)
    (gradient,) = torch.autograd.grad(loss, data["log_probs"])
    return float(loss.detach()), gradient


@pytest.mark.parametrize("kind", AGGREGATIONS)
def test_losses_and_gradients_of_parts_add_up_to_those_of_the_whole(kind: dict[str, Any]) -> None:
    data, settings = batch(), GRPOSettings(**kind)
    whole, gradient = loss_and_gradient(settings, **data)
    totals = {"n_sequences": len(data["mask"]), "n_tokens": int(data["mask"].sum())}
    parts = [grpo_loss(settings=settings, **totals, **{k: v[rows] for k, v in data.items()})[0]
             for rows in (slice(0, 2), slice(2, 6))]  # fmt: skip
    total = torch.stack(parts).sum()
    torch.testing.assert_close(float(total.detach()), whole)
    torch.testing.assert_close(torch.autograd.grad(total, data["log_probs"])[0], gradient)


@pytest.mark.parametrize("level", ["token", "sequence"])
def test_weighting_groups_by_their_advantages_is_the_fused_gradient_through_clipping(level: Any) -> None:
    """g = (rho g_E + g_WM) / (rho |G_E| + |G_WM|), one anchor group of two sequences and two other groups."""
    data, rho = batch(), 3.0
    settings = GRPOSettings(importance_level=level, **PLAIN)

    def stream(rows: slice) -> torch.Tensor:
        advantages = torch.zeros_like(data["advantages"])
        advantages[rows] = data["advantages"][rows]
        return loss_and_gradient(settings, **{**data, "advantages": advantages})[1] * 3  # sum over groups, not mean

    fused = (rho * stream(slice(0, 2)) + stream(slice(2, 6))) / (rho * 1 + 2)
    weights = torch.tensor([rho, rho, 1, 1, 1, 1], dtype=torch.float64) * 3 / (rho + 2)
    weighted = loss_and_gradient(settings, **{**data, "advantages": weights * data["advantages"]})[1]
    torch.testing.assert_close(weighted, fused)
    assert grpo_loss(settings=settings, **data)[1]["clip_fraction"] > 0


def test_kl_and_entropy_are_not_weighted() -> None:
    data, settings = batch(), GRPOSettings(kl_coefficient=0.5, entropy_coefficient=0.1)
    without = GRPOSettings(**PLAIN)
    regularisers = [
        loss_and_gradient(settings, **weighted)[1] - loss_and_gradient(without, **weighted)[1]
        for weighted in ({**data, "advantages": w * data["advantages"]} for w in (1.0, 4.0))
    ]
    torch.testing.assert_close(*regularisers)


def test_on_policy_gradient_is_reinforce() -> None:
    data = batch()
    data["old_log_probs"] = data["log_probs"].detach()
    gradient = loss_and_gradient(GRPOSettings(aggregation="token", **PLAIN), **data)[1]
    expected = -data["advantages"][:, None] * data["mask"] / data["mask"].sum()
    torch.testing.assert_close(gradient, expected)


@pytest.mark.parametrize(("advantage", "log_ratio", "learns"), [(1, 0.3, 0), (1, -0.3, 1), (-1, 0.3, 1), (-1, -0.3, 0)])
def test_clipping_stops_only_moves_that_went_too_far_in_the_right_direction(
    advantage: float, log_ratio: float, learns: int
) -> None:
    log_probs = torch.zeros(1, 1, requires_grad=True)
    old, mask = torch.tensor([[-log_ratio]]), torch.ones(1, 1)
    settings = GRPOSettings(**PLAIN)
    loss, metrics = grpo_loss(log_probs, old, torch.tensor([advantage]), mask, settings)
    loss.backward()
    assert log_probs.grad is not None
    assert bool(log_probs.grad.abs().sum() > 0) == bool(learns) and metrics["clip_fraction"] == 1 - learns


def test_padding_does_not_count() -> None:
    data, settings = batch(), GRPOSettings()
    padded = ("log_probs", "old_log_probs", "reference_log_probs", "entropy")
    changed = {**data, **{name: torch.where(data["mask"].bool(), data[name], data[name] + 5) for name in padded}}
    changed["log_probs"] = changed["log_probs"].detach().requires_grad_()
    for a, b in zip(loss_and_gradient(settings, **data), loss_and_gradient(settings, **changed), strict=True):
        torch.testing.assert_close(a, b)


def test_k3_estimates_the_divergence_without_bias_and_is_never_negative() -> None:
    policy, reference = (torch.softmax(torch.tensor(x, dtype=torch.float64), 0) for x in ([0.0, 1, 2], [1.0, 0, 1]))
    chosen = torch.multinomial(policy, 40_000, replacement=True, generator=torch.Generator().manual_seed(0))[:, None]
    settings = GRPOSettings(kl_coefficient=1.0, entropy_coefficient=0.0)
    log_probs = policy.log()[chosen]
    ones, zeros = torch.ones_like(log_probs), torch.zeros(len(chosen), dtype=torch.float64)
    loss, metrics = grpo_loss(log_probs, log_probs, zeros, ones, settings, reference_log_probs=reference.log()[chosen])
    divergence = float((policy * (policy / reference).log()).sum())
    assert float(loss) == metrics["kl"] == pytest.approx(divergence, rel=0.02)
    one, _ = grpo_loss(log_probs[:1], log_probs[:1], zeros[:1], ones[:1], settings,
                       reference_log_probs=reference.log()[chosen][:1])  # fmt: skip
    assert float(one) >= 0


def test_missing_reference_and_meaningless_settings_are_refused() -> None:
    data = batch()
    del data["reference_log_probs"]
    with pytest.raises(ValueError, match="reference_log_probs"):
        grpo_loss(settings=GRPOSettings(), **data)
    assert "kl" not in grpo_loss(settings=GRPOSettings(**PLAIN), **data)[1]
    bad: list[dict[str, Any]] = [
        {"aggregation": "mean"}, {"importance_level": "word"}, {"clip_low": 1.0}, {"kl_coefficient": -1},
        {"aggregation": "constant"}, {"aggregation": "constant", "constant_length": 0}, {"constant_length": 3},
    ]  # fmt: skip
    for settings in bad:
        with pytest.raises(ValueError, match=r"loss\."):
            GRPOSettings(**settings)
