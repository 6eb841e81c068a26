"""The GRPO loss: PPO's clipped surrogate on group-relative advantages, with a KL penalty and an entropy bonus.

An engine that generates for the trainer computes slightly other probabilities than the trainer itself (other kernels,
another precision), so that tokens come from another policy than the one the gradient is taken of. `mismatch_cap` turns
on truncated importance sampling (Ionides 2008, "Truncated Importance Sampling") against that, as Yao et al. proposed it
for rollout engines ("Your Efficient RL Framework Secretly Brings You Off-Policy RL Training", 2025): the surrogate of a
token is multiplied by min(p_trainer / p_engine, cap), both at the weights that generated it. The cap keeps the variance
finite, at the price of a bias that falls on the few tokens beyond it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

import torch

Aggregation = Literal["sequence", "token", "constant"]
ImportanceLevel = Literal["token", "sequence"]


@dataclass(frozen=True)
class GRPOSettings:
    """Settings of the loss; the defaults are the paper's."""

    clip_low: float = 0.2
    """How far below 1 the importance ratio still counts."""
    clip_high: float = 0.2
    """Above ``clip_low`` ("clip-higher") leaves unlikely tokens more room to grow."""
    kl_coefficient: float = 0.04
    """Of the KL penalty to the frozen reference; 0 needs no reference."""
    unbiased_kl_gradient: bool = False
    """Multiply the KL term by the importance ratio: its gradient is then that of the reverse KL (arXiv 2512.02556).
    Without, as in the original GRPO, it is the gradient of k3 on the tokens as they were sampled."""
    entropy_coefficient: float = 0.002
    """Of the entropy bonus; 0 gives none."""
    aggregation: Aggregation = "sequence"
    """"sequence" averages tokens within each sequence, then sequences (GRPO); "token" averages all tokens alike (DAPO);
    "constant" divides each sequence's sum by ``constant_length``, then averages sequences (Dr. GRPO)."""
    constant_length: int | None = None
    """Tokens by which "constant" divides, usually the most that a sequence can produce."""
    importance_level: ImportanceLevel = "token"
    """"sequence" uses one importance ratio per sequence, the geometric mean of its tokens' (GSPO)."""
    mask_truncated: bool = False
    """Learn nothing from answers that were cut off at their length limit, as DAPO's overlong filtering does: their
    score says little of the tokens that are there. Such an answer's tokens count nowhere in the loss."""
    mismatch_cap: float | None = None
    """Largest weight of a token in the correction for an engine's other probabilities; 2 is usual. None corrects
    nothing, and takes the engine's log-probabilities for the trainer's own."""

    def __post_init__(self) -> None:
        """Refuse settings that mean nothing."""
        for name, choices in (("aggregation", get_args(Aggregation)), ("importance_level", get_args(ImportanceLevel))):
            if getattr(self, name) not in choices:
                raise ValueError(f"loss.{name} is {getattr(self, name)!r}: choose one of {', '.join(choices)}")
        length = self.constant_length
        if (self.aggregation == "constant") != (length is not None) or (length is not None and length < 1):
            raise ValueError(
                f"loss.aggregation is {self.aggregation!r} and loss.constant_length {length}: give a length of 1 or "
                "more with 'constant', and none otherwise"
            )
        if not (0 < self.clip_low < 1 and self.clip_high > 0):
            raise ValueError(
                f"loss.clip_low ({self.clip_low}) must lie in (0, 1), clip_high ({self.clip_high}) above 0"
            )
        if self.kl_coefficient < 0:
            raise ValueError(f"loss.kl_coefficient is {self.kl_coefficient}: give 0 or more")
        if self.mismatch_cap is not None and not 1 <= self.mismatch_cap < math.inf:
            raise ValueError(
                f"loss.mismatch_cap is {self.mismatch_cap}: give a finite number of 1 or more (below 1 it would also "
                "shrink tokens without mismatch), or null for no correction"
            )


def grpo_loss(
    log_probs: torch.Tensor,
    old_log_probs: torch.Tensor,
    advantages: torch.Tensor,
    mask: torch.Tensor,
    settings: GRPOSettings,
    *,
    reference_log_probs: torch.Tensor | None = None,
    engine_log_probs: torch.Tensor | None = None,
    entropy: torch.Tensor | None = None,
    n_sequences: int | None = None,
    n_tokens: int | None = None,
) -> tuple[torch.Tensor, dict[str, float]]:
    """Loss to minimise, of a batch or of a part of one.

    Group weights belong into the advantages: the surrogate is positively homogeneous in them, so the weighting is exact
    through clipping, and neither the KL nor the entropy term is weighted. The same holds for the mismatch's weights,
    which multiply the surrogate alone.

    Args:
        log_probs: of the produced tokens under the current weights, shape (N, T).
        old_log_probs: before the update, shape (N, T): under the behaviour policy, or with a ``mismatch_cap`` as the
            trainer computes them.
        advantages: of each sequence, shape (N,).
        mask: 1 on produced tokens, 0 elsewhere, shape (N, T).
        settings: of the loss.
        reference_log_probs: under the frozen reference, shape (N, T); needed if ``kl_coefficient`` is not 0.
        engine_log_probs: as the engine that generated computed them, shape (N, T); needed with a ``mismatch_cap``,
            otherwise not used.
        entropy: of the policy at each token, shape (N, T); None adds no bonus.
        n_sequences: sequences of the whole batch, if this is a part of it; the parts' losses then add up to the
            whole's.
        n_tokens: produced tokens of the whole batch, likewise.

    Returns:
        The loss, and means over the produced tokens of this part: policy_loss, clip_fraction, importance_ratio, and kl
        and entropy where they were given; with a ``mismatch_cap`` also mismatch_difference (between the log-probs, in
        absolute value), mismatch_ratio (before the cap) and mismatch_truncated (the share of tokens beyond it).

    Raises:
        ValueError: if a KL penalty is asked for without reference, or a correction without the engine's log-probs.
    """
    if settings.kl_coefficient and reference_log_probs is None:
        raise ValueError("kl_coefficient is not 0, but there are no reference_log_probs: give them, or set it to 0")
    if settings.mismatch_cap is not None and engine_log_probs is None:
        raise ValueError("mismatch_cap is set, but there are no engine_log_probs: give them, or set it to None")
    log_ratio = log_probs - old_log_probs
    if settings.importance_level == "sequence":
        mean_log_ratio = (log_ratio * mask).sum(-1) / mask.sum(-1).clamp(min=1)
        log_ratio = mean_log_ratio[:, None].expand_as(log_probs)
    ratio = log_ratio.exp()
    clipped = ratio.clamp(1 - settings.clip_low, 1 + settings.clip_high)
    surrogate = torch.minimum(ratio * advantages[:, None], clipped * advantages[:, None])
    outside = ((ratio < 1 - settings.clip_low) & (advantages[:, None] < 0)) | (
        (ratio > 1 + settings.clip_high) & (advantages[:, None] > 0)
    )
    mismatch: dict[str, float] = {}
    if settings.mismatch_cap is not None and engine_log_probs is not None:
        weight, mismatch = mismatch_weights(old_log_probs, engine_log_probs, mask, settings.mismatch_cap)
        surrogate = weight * surrogate
    per_token = -surrogate
    metrics = {
        **mismatch,
        "policy_loss": _masked_mean(-surrogate, mask),
        "clip_fraction": _masked_mean(outside.to(mask), mask),
        "importance_ratio": _masked_mean(ratio, mask),
    }
    if reference_log_probs is not None:
        # Schulman's k3 estimator of KL(policy || reference): unbiased, never negative, small variance.
        difference = reference_log_probs - log_probs
        kl = difference.exp() - difference - 1
        per_token = per_token + settings.kl_coefficient * (kl * ratio if settings.unbiased_kl_gradient else kl)
        metrics["kl"] = _masked_mean(kl, mask)
    if entropy is not None:
        per_token = per_token - settings.entropy_coefficient * entropy
        metrics["entropy"] = _masked_mean(entropy, mask)
    return _aggregate(per_token, mask, settings, n_sequences, n_tokens), metrics


def mismatch_weights(
    trainer_log_probs: torch.Tensor, engine_log_probs: torch.Tensor, mask: torch.Tensor, cap: float
) -> tuple[torch.Tensor, dict[str, float]]:
    """Truncated importance weights min(p_trainer / p_engine, cap) of tokens that an engine sampled.

    Args:
        trainer_log_probs: of the produced tokens, at the weights that generated them, shape (N, T).
        engine_log_probs: the same as the engine computed them, shape (N, T).
        mask: 1 on produced tokens, 0 elsewhere, shape (N, T).
        cap: largest weight.

    Returns:
        The weights, without gradient, 1 where nothing was produced, shape (N, T); and the means described in
        `grpo_loss`.
    """
    # Padding is set to no mismatch: whatever stands there must not become an infinity that the mask turns into NaN.
    difference = torch.where(mask.bool(), trainer_log_probs - engine_log_probs, 0.0).detach()
    ratio = difference.exp()
    return ratio.clamp(max=cap), {
        "mismatch_difference": _masked_mean(difference.abs(), mask),
        "mismatch_ratio": _masked_mean(ratio, mask),
        "mismatch_truncated": _masked_mean((ratio > cap).to(mask), mask),
    }


def _aggregate(
    per_token: torch.Tensor, mask: torch.Tensor, settings: GRPOSettings, n_sequences: int | None, n_tokens: int | None
) -> torch.Tensor:
    per_sequence = (per_token * mask).sum(-1)
    if settings.aggregation == "token":
        return per_sequence.sum() / (mask.sum().clamp(min=1) if n_tokens is None else n_tokens)
    lengths = mask.sum(-1).clamp(min=1) if settings.constant_length is None else settings.constant_length
    return (per_sequence / lengths).sum() / (len(mask) if n_sequences is None else n_sequences)


def _masked_mean(values: torch.Tensor, mask: torch.Tensor) -> float:
    return float((values.detach() * mask).sum() / mask.sum().clamp(min=1))
