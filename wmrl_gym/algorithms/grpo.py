"""The GRPO loss: PPO's clipped surrogate on group-relative advantages, with a KL penalty and an entropy bonus."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import torch

Aggregation = Literal["sequence", "token"]
ImportanceLevel = Literal["token", "sequence"]


@dataclass(frozen=True)
class GRPOSettings:
    """Settings of the loss; the defaults are the paper's."""

    clip_low: float = 0.2
    clip_high: float = 0.2
    """Above ``clip_low`` ("clip-higher") leaves unlikely tokens more room to grow."""
    kl_coefficient: float = 0.04
    """Of the KL penalty to the frozen reference; 0 needs no reference."""
    entropy_coefficient: float = 0.002
    aggregation: Aggregation = "sequence"
    """"sequence" averages tokens within each sequence, then sequences; "token" averages all tokens alike."""
    importance_level: ImportanceLevel = "token"
    """"sequence" uses one importance ratio per sequence, the geometric mean of its tokens' (GSPO)."""

    def __post_init__(self) -> None:
        """Refuse settings that mean nothing."""
        if self.aggregation not in get_args(Aggregation):
            raise ValueError(f"loss.aggregation is {self.aggregation!r}: choose one of {get_args(Aggregation)}")
        if self.importance_level not in get_args(ImportanceLevel):
            raise ValueError(f"loss.importance_level is {self.importance_level!r}: choose one of token, sequence")
        if not (0 < self.clip_low < 1 and self.clip_high > 0):
            raise ValueError(
                f"loss.clip_low ({self.clip_low}) must lie in (0, 1), clip_high ({self.clip_high}) above 0"
            )
        if self.kl_coefficient < 0:
            raise ValueError(f"loss.kl_coefficient is {self.kl_coefficient}: give 0 or more")


def grpo_loss(
    log_probs: torch.Tensor,
    old_log_probs: torch.Tensor,
    advantages: torch.Tensor,
    mask: torch.Tensor,
    settings: GRPOSettings,
    *,
    reference_log_probs: torch.Tensor | None = None,
    entropy: torch.Tensor | None = None,
    n_sequences: int | None = None,
    n_tokens: int | None = None,
) -> tuple[torch.Tensor, dict[str, float]]:
    """Loss to minimise, of a batch or of a part of one.

    Group weights belong into the advantages: the surrogate is positively homogeneous in them, so the weighting is exact
    through clipping, and neither the KL nor the entropy term is weighted.

    Args:
        log_probs: of the produced tokens under the current weights, shape (N, T).
        old_log_probs: under the behaviour policy, shape (N, T).
        advantages: of each sequence, shape (N,).
        mask: 1 on produced tokens, 0 elsewhere, shape (N, T).
        settings: of the loss.
        reference_log_probs: under the frozen reference, shape (N, T); needed if ``kl_coefficient`` is not 0.
        entropy: of the policy at each token, shape (N, T); None adds no bonus.
        n_sequences: sequences of the whole batch, if this is a part of it; the parts' losses then add up to the whole's.
        n_tokens: produced tokens of the whole batch, likewise.

    Returns:
        The loss, and the means of this part: policy_loss, kl, entropy, clip_fraction, importance_ratio.

    Raises:
        ValueError: if a KL penalty is asked for without reference.
    """
    log_ratio = log_probs - old_log_probs
    if settings.importance_level == "sequence":
        mean_log_ratio = (log_ratio * mask).sum(-1) / mask.sum(-1).clamp(min=1)
        log_ratio = mean_log_ratio[:, None].expand_as(log_probs)
    ratio = log_ratio.exp()
    clipped = ratio.clamp(1 - settings.clip_low, 1 + settings.clip_high)
    surrogate = torch.minimum(ratio * advantages[:, None], clipped * advantages[:, None])
    per_token = -surrogate
    kl = torch.zeros_like(per_token)
    if settings.kl_coefficient:
        if reference_log_probs is None:
            raise ValueError("kl_coefficient is not 0, but there are no reference_log_probs: give them, or set it to 0")
        # Schulman's k3 estimator of KL(policy || reference): unbiased, never negative, small variance.
        difference = reference_log_probs - log_probs
        kl = difference.exp() - difference - 1
        per_token = per_token + settings.kl_coefficient * kl
    if entropy is not None and settings.entropy_coefficient:
        per_token = per_token - settings.entropy_coefficient * entropy

    def aggregate(values: torch.Tensor) -> torch.Tensor:
        if settings.aggregation == "token":
            return (values * mask).sum() / (mask.sum() if n_tokens is None else n_tokens)
        per_sequence = (values * mask).sum(-1) / mask.sum(-1).clamp(min=1)
        return per_sequence.sum() / (len(mask) if n_sequences is None else n_sequences)

    loss = aggregate(per_token)
    outside = ((ratio < 1 - settings.clip_low) & (advantages[:, None] < 0)) | (
        (ratio > 1 + settings.clip_high) & (advantages[:, None] > 0)
    )
    metrics = {
        "policy_loss": _masked_mean(-surrogate, mask),
        "kl": _masked_mean(kl, mask),
        "clip_fraction": _masked_mean(outside.to(mask), mask),
        "importance_ratio": _masked_mean(ratio, mask),
    }
    if entropy is not None:
        metrics["entropy"] = _masked_mean(entropy, mask)
    return loss, metrics


def _masked_mean(values: torch.Tensor, mask: torch.Tensor) -> float:
    return float((values.detach() * mask).sum() / mask.sum().clamp(min=1))
