"""Behaviour cloning: a policy learns to answer observations as a demonstrator did. The other kind of cold start.

Nothing here knows what an observation or an action is. The examples pair them, and the loss, which belongs to the
policy, reads them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias, TypeVar

import numpy as np
import torch

from wmrl_gym.algorithms.supervised import SupervisedPolicy, SupervisedSettings, SupervisedStep, descend

PolicyType = TypeVar("PolicyType", bound=SupervisedPolicy)
Examples: TypeAlias = Sequence[tuple[Any, Any]]
"""(observation, action) pairs. An action is what the policy would have decided: one, or a chunk of several."""

CloningLoss: TypeAlias = Callable[[PolicyType, Sequence[Any], Any], tuple[torch.Tensor, int]]
"""From a policy, observations (length N) and actions (N of them stacked) to the mean negative log-likelihood per token,
with gradients, and the number of tokens."""


def clone(
    policy: PolicyType,
    examples: Examples,
    loss: CloningLoss[PolicyType],
    settings: SupervisedSettings,
    on_step: Callable[[SupervisedStep], None] | None = None,
) -> list[SupervisedStep]:
    """Train the policy in place on demonstrations, shuffled and repeated as often as the steps ask for.

    Args:
        policy: whose weights are trained.
        examples: what the demonstrator saw and did; read one by one, so they may lie on disk.
        loss: of the policy.
        settings: `SupervisedSettings`; ``batch_size`` counts examples, ``max_tokens`` has no meaning here.
        on_step: called after every step.

    Returns:
        A record of each step.

    Raises:
        ValueError: if there are no examples.
    """
    if not examples:
        raise ValueError("there are no demonstrations to learn from: no file has a row that was kept")

    def loss_of(batch: Sequence[tuple[Any, Any]]) -> tuple[torch.Tensor, int]:
        return loss(policy, [observation for observation, _ in batch], np.stack([action for _, action in batch]))

    return descend(policy, _batches(examples, settings), loss_of, settings, on_step)


def _batches(examples: Examples, settings: SupervisedSettings) -> Iterator[list[tuple[Any, Any]]]:
    order = _endless_order(len(examples), np.random.default_rng(settings.seed))
    for _ in range(settings.steps):
        yield [examples[next(order)] for _ in range(settings.batch_size)]


def _endless_order(count: int, rng: np.random.Generator) -> Iterator[int]:
    while True:
        yield from (int(index) for index in rng.permutation(count))
