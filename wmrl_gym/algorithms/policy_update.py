"""From trajectories with advantages to new weights: minibatches, gradients, clipping, AdamW."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch.nn.utils.rnn import pad_sequence

from wmrl_gym.algorithms.grpo import GRPOSettings, grpo_loss
from wmrl_gym.algorithms.weight_change import WeightChange, require_precise
from wmrl_gym.core import ChunkPolicy, Decision, Freezable, Policy, TrainablePolicy, Trajectory

Learnable = Sequence[tuple[Trajectory, float]]
"""Trajectories, each with its advantage times its group's weight."""

METRICS = (
    "loss", "policy_loss", "kl", "entropy", "clip_fraction", "importance_ratio", "grad_norm", "weights_changed",
    "mismatch_difference", "mismatch_ratio", "mismatch_truncated",
)  # fmt: skip


def frozen_copy(policy: Any) -> Policy:
    """A copy whose weights never change: the policy's own if it is `Freezable`, else a deep copy."""
    if isinstance(policy, Freezable):
        return policy.frozen_copy()
    twin = copy.deepcopy(policy)
    for parameter in twin.parameters():
        parameter.requires_grad_(False)
    return twin  # type: ignore[no-any-return]


class PolicyUpdate:
    """Improves a policy on scored trajectories. A trajectory's turns are one sequence of the loss.

    Args:
        policy: is trained.
        reference: of the KL penalty; None if the loss has none.
        loss: settings of the loss.
        learning_rate: of AdamW.
        weight_decay: of AdamW.
        max_grad_norm: longer gradients are scaled down to it.
        temperature: at which the trajectories were sampled.
        epochs: passes over a step's trajectories.
        minibatch: trajectories per optimiser step, drawn at random; None for all of the step's in one.
        microbatch: trajectories whose gradients are computed at the same time; changes nothing but rounding.
        microbatch_tokens: most tokens whose gradients are computed at the same time, likewise; a longer trajectory
            stands alone. None for no limit.

    Raises:
        ValueError: if weights that are to learn are in half precision.
    """

    def __init__(
        self,
        policy: TrainablePolicy,
        reference: Policy | None,
        loss: GRPOSettings,
        *,
        learning_rate: float,
        weight_decay: float = 0.0,
        max_grad_norm: float = 1.0,
        temperature: float = 1.0,
        epochs: int = 1,
        minibatch: int | None = None,
        microbatch: int = 16,
        microbatch_tokens: int | None = None,
    ) -> None:
        parameters = list(policy.parameters())
        require_precise(parameters)
        self.policy, self.reference, self.loss = policy, reference, loss
        self.max_grad_norm, self.temperature = max_grad_norm, temperature
        self.epochs, self.minibatch = epochs, minibatch
        self.microbatch, self.microbatch_tokens = microbatch, microbatch_tokens
        self.optimizer = torch.optim.AdamW(parameters, lr=learning_rate, weight_decay=weight_decay)
        self._change = WeightChange(parameters)

    def update(
        self, learnable: Learnable, seed: Sequence[int], learning_rate: float | None = None
    ) -> dict[str, float | None]:
        """One optimiser step per minibatch; none if there is nothing to learn from.

        Args:
            learnable: what to learn from.
            seed: of the order of the minibatches.
            learning_rate: from now on; None leaves it as it is.

        Returns:
            Means over the optimiser steps, and "updates", their number. Unknown is None.

        Raises:
            FloatingPointError: if a gradient is not finite. The weights are then left as they were.
            UpdatesVanish: if updates are rounded away.
        """
        if learning_rate is not None:
            for parameters in self.optimizer.param_groups:
                parameters["lr"] = learning_rate
        before = self._log_probs_before(learnable)
        steps = [self._optimise(batch, before) for batch in self._minibatches(learnable, seed)]
        # Four bytes a weight that would lie there while the next episodes are played.
        self.optimizer.zero_grad(set_to_none=True)
        means = {name: _mean([step[name] for step in steps]) for name in (steps[0] if steps else ())}
        return {**dict.fromkeys(METRICS), **means, "updates": float(len(steps))}

    def _minibatches(self, learnable: Learnable, seed: Sequence[int]) -> Iterator[Learnable]:
        for epoch in range(self.epochs if learnable else 0):
            if self.minibatch is None:
                yield learnable
                continue
            order = np.random.default_rng([*seed, epoch]).permutation(len(learnable))
            for start in range(0, len(order), self.minibatch):
                # In the order given, so that trajectories of one group stay together and share their prompt.
                yield [learnable[i] for i in sorted(order[start : start + self.minibatch])]

    def _log_probs_before(self, learnable: Learnable) -> Mapping[int, torch.Tensor] | None:
        """With a mismatch cap, the trainer's log-probabilities of every decision (by its id) before any update.

        None if they are not needed: without a cap, and where a single optimiser step computes them anyway.
        """
        single = self.epochs == 1 and (self.minibatch is None or self.minibatch >= len(learnable))
        if self.loss.mismatch_cap is None or single:
            return None
        before: dict[int, torch.Tensor] = {}
        for part in self._parts(learnable):
            decisions = _decisions(part)
            with torch.no_grad():
                log_probs, _, mask = self._log_probs(decisions)
            for decision, row, keep in zip(decisions, log_probs, mask.bool(), strict=True):
                before[id(decision)] = row[keep]
        return before

    def _parts(self, batch: Learnable) -> Iterator[Learnable]:
        """What is computed at the same time."""
        start, tokens = 0, 0
        for end, (trajectory, _) in enumerate(batch):
            own = max((len(t.decision.prompt_ids) + len(t.decision.token_ids) for t in trajectory.turns), default=0)
            many = self.microbatch_tokens is not None and tokens + own > self.microbatch_tokens
            if end > start and (many or end - start == self.microbatch):
                yield batch[start:end]
                start, tokens = end, 0
            tokens += own
        if batch:
            yield batch[start:]

    def _optimise(self, batch: Learnable, before: Mapping[int, torch.Tensor] | None) -> dict[str, float | None]:
        self.optimizer.zero_grad(set_to_none=True)
        n_tokens = max(1, self._count_tokens(batch))
        totals: dict[str, float] = {}
        for part in self._parts(batch):
            loss, metrics = self._loss(part, before, n_sequences=len(batch), n_tokens=n_tokens)
            loss.backward()  # type: ignore[no-untyped-call]
            totals["loss"] = totals.get("loss", 0.0) + float(loss.detach())
            for name, value in metrics.items():
                totals[name] = totals.get(name, 0.0) + value * self._count_tokens(part) / n_tokens
        norm = torch.nn.utils.clip_grad_norm_(list(self.policy.parameters()), self.max_grad_norm)
        if not torch.isfinite(norm):
            raise FloatingPointError(
                f"the gradient is not finite (norm {float(norm)}); the weights were left as they were\n"
                "  Lower algorithm.learning_rate, or look for a policy whose log-probabilities overflow. The last "
                "checkpoint is intact."
            )
        self._change.remember()
        self.optimizer.step()
        return {**totals, "grad_norm": float(norm), "weights_changed": self._change.share()}

    def _log_probs(self, decisions: Sequence[Decision]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """The policy's, with the tokens that the loss leaves out masked."""
        log_probs, entropy, mask = self.policy.log_probs(decisions, temperature=self.temperature)
        if self.loss.mask_truncated:
            mask = mask * torch.tensor([float(d.finished) for d in decisions], device=mask.device)[:, None]
        return log_probs, entropy, mask

    def _loss(
        self, part: Learnable, before: Mapping[int, torch.Tensor] | None, *, n_sequences: int, n_tokens: int
    ) -> tuple[torch.Tensor, dict[str, float]]:
        """Loss of some trajectories as their share of the whole batch's."""
        decisions = _decisions(part)
        turns = [len(trajectory.turns) for trajectory, _ in part]
        log_probs, entropy, mask = self._log_probs(decisions)
        reference = None
        if self.reference is not None:
            with torch.no_grad():
                reference = self.reference.log_probs(decisions, temperature=self.temperature)[0]
        behaviour = pad_sequence([torch.from_numpy(d.log_probs) for d in decisions], batch_first=True).to(log_probs)

        def kept(values: torch.Tensor) -> list[torch.Tensor]:
            return [row[keep] for row, keep in zip(values, mask.bool(), strict=True)]

        def joined(rows: Sequence[torch.Tensor]) -> torch.Tensor:
            bounds = itertools.pairwise(np.cumsum([0, *turns]))
            return pad_sequence([torch.cat(list(rows[start:end])) for start, end in bounds], batch_first=True)

        def by_trajectory(values: torch.Tensor) -> torch.Tensor:
            return joined(kept(values))

        if self.loss.mismatch_cap is None:
            old = kept(behaviour)
        elif before is None:
            old = kept(log_probs.detach())
        else:
            old = [before[id(decision)] for decision in decisions]
        return grpo_loss(
            by_trajectory(log_probs),
            joined(old),
            torch.tensor([advantage for _, advantage in part], dtype=log_probs.dtype, device=log_probs.device),
            by_trajectory(mask),
            self.loss,
            reference_log_probs=None if reference is None else by_trajectory(reference),
            engine_log_probs=None if self.loss.mismatch_cap is None else by_trajectory(behaviour),
            entropy=by_trajectory(entropy),
            n_sequences=n_sequences,
            n_tokens=n_tokens,
        )

    def _count_tokens(self, learnable: Learnable) -> int:
        return sum(self._tokens_learned(decision) for decision in _decisions(learnable))

    def _tokens_learned(self, decision: Decision) -> int:
        """As many as the mask keeps."""
        if self.loss.mask_truncated and not decision.finished:
            return 0
        if isinstance(self.policy, ChunkPolicy):
            return self.policy.tokens_taken(decision)
        return len(decision.token_ids) - (0 if decision.forced is None else int(decision.forced.sum()))


def _decisions(learnable: Learnable) -> list[Decision]:
    return [turn.decision for trajectory, _ in learnable for turn in trajectory.turns]


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None
