"""Sampling of a decision's tokens, and their log-probabilities with gradients.

Both see the action tokens alone: the distribution is renormalised over the 256 bins (or the codes), at the sampling
temperature, in acting and learning alike. So no other token can be sampled, and none has to be unlearned.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from wmrl_gym.engines.decoding import choose
from wmrl_gym.engines.preallocated_cache import preallocated_cache
from wmrl_gym.policies.minivla.action_tokens import ActionCodec
from wmrl_gym.policies.minivla.model import Context, MiniVLAModel


@torch.inference_mode()
def sample_tokens(
    model: MiniVLAModel,
    context: Context,
    codec: ActionCodec,
    *,
    seeds: Sequence[tuple[int, ...]],
    temperature: float,
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Token ids and log-probabilities, both of shape (N, T), of one decision per row.

    A row inverts its cumulative distribution at uniforms of its own random stream, so that it depends on nothing else
    in the batch. Temperature 0 takes the likeliest token and records its log-probability at temperature 1.
    """
    count, length = len(context.mask), codec.tokens_per_decision
    uniforms = np.stack([np.random.default_rng(seed).random(length) for seed in seeds])
    cache = preallocated_cache(model.causal_lm, context.mask.shape[1] + length)
    hidden = model.hidden(context, cache)[:, -1]
    mask, positions = context.mask, context.positions[:, -1:]
    chosen_N: list[torch.Tensor] = []
    log_probs_N: list[torch.Tensor] = []
    for step in range(length):
        logits = model.token_logits(hidden, codec.first_token, codec.token_count)
        chosen, log_probs = choose(logits, uniforms[:, step], temperature)
        chosen_N.append(codec.first_token + chosen)
        log_probs_N.append(log_probs)
        if step + 1 < length:
            mask, positions = torch.cat([mask, mask.new_ones(count, 1)], dim=1), positions + 1
            embeddings = model.embed_tokens(chosen_N[-1][:, None])
            hidden = model.hidden(Context(embeddings, mask, positions), cache)[:, -1]
    return torch.stack(chosen_N, 1).cpu().numpy(), torch.stack(log_probs_N, 1).float().cpu().numpy()


def token_log_probs(
    model: MiniVLAModel, context: Context, codec: ActionCodec, token_ids: torch.Tensor, temperature: float = 1.0
) -> torch.Tensor:
    """Log-probabilities of all action tokens at every place of given decisions, with gradients.

    Args:
        model: the network.
        context: of the N decisions.
        codec: says which tokens stand for actions.
        token_ids: of the decisions, shape (N, T).
        temperature: they were sampled at.

    Returns:
        Shape (N, T, bins).
    """
    length = token_ids.shape[1]
    mask = torch.cat([context.mask, context.mask.new_ones(len(token_ids), length - 1)], dim=1)
    ahead = torch.arange(1, length, device=mask.device)
    whole = Context(
        torch.cat([context.embeddings, model.embed_tokens(token_ids[:, :-1])], dim=1),
        mask,
        torch.cat([context.positions, context.positions[:, -1:] + ahead], dim=1),
    )
    hidden = model.hidden(whole)[:, -length:]
    return torch.log_softmax(model.token_logits(hidden, codec.first_token, codec.token_count) / temperature, dim=-1)
