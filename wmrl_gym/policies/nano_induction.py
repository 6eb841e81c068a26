"""Initial weights that can copy: an induction circuit planted in an otherwise random Llama.

To write a column's name, an agent must find where the name began in its prompt and go on from there. Two attention
heads in a row do that: one looks one token back, the next looks for a place whose previous token is the current one
(Olsson et al. 2022, "In-context learning and induction heads"). Discovering the pair from random weights costs more
tokens than the whole cold start of the nano agent; planted, it is there from the first step, and training shapes it.
"""

from __future__ import annotations

from typing import Any

import torch

CONSTANT = 0.5
"""Value of the embedding's coordinate 0, the same for every token: what the look-back head attends by."""
LOOK_BACK, MATCH = 0, 1
"""Layers of the two heads; each is the first head of its layer."""
FAST, SLOW = 8, 11
"""Rotary frequencies below FAST tell neighbours apart; those from SLOW on hardly turn within a prompt."""
QUIET = 0.05
"""Scale of the output projections of all blocks."""


@torch.no_grad()
def plant_induction(model: Any, seed: int = 0) -> None:
    """Set the weights of the two heads, in place.

    Args:
        model: a `LlamaForCausalLM` with random weights, at least two layers, and tied embeddings.
        seed: of the random projections through which tokens are compared.
    """
    config = model.config
    width, head = config.hidden_size, config.hidden_size // config.num_attention_heads
    generator = torch.Generator().manual_seed(seed)
    compared, carried, copied = (_orthonormal(head, width, generator) for _ in range(3))
    for layer in model.model.layers:  # what blocks write starts near zero, so that it does not drown the circuit
        layer.self_attn.o_proj.weight *= QUIET
        layer.mlp.down_proj.weight *= QUIET
    embeddings = model.model.embed_tokens.weight
    embeddings[:, 0] = CONSTANT
    # After normalisation the constant coordinate has about this value.
    norm = (CONSTANT**2 + (width - 1) * config.initializer_range**2) ** 0.5
    constant = CONSTANT * width**0.5 / norm

    back = model.model.layers[LOOK_BACK].self_attn
    angles = model.model.rotary_emb.inv_freq[:FAST]
    half = head // 2
    query, key = torch.zeros(head), torch.zeros(head)
    # <rotate(query, t), rotate(key, s)> = sum of cos((t - s - 1) angle): largest one token back.
    query[:FAST], query[half : half + FAST], key[:FAST] = torch.cos(angles), -torch.sin(angles), 1.0
    back.q_proj.weight[:head] = 0
    back.k_proj.weight[:head] = 0
    back.q_proj.weight[:head, 0] = 8.0 / constant * query
    back.k_proj.weight[:head, 0] = 8.0 / constant * key
    back.v_proj.weight[:head] = compared
    back.o_proj.weight[:, :head] = 0.16 * carried.T

    match = model.model.layers[MATCH].self_attn
    slow = torch.zeros(head, 1)
    slow[SLOW:half], slow[half + SLOW :] = 1.0, 1.0
    match.q_proj.weight[:head] = 2.0 * slow * compared
    match.k_proj.weight[:head] = 1.5 * slow * carried
    match.v_proj.weight[:head] = copied
    match.o_proj.weight[:, :head] = 0.3 * copied.T


def _orthonormal(rows: int, columns: int, generator: torch.Generator) -> torch.Tensor:
    """Random orthonormal rows that do not see coordinate 0, shape (rows, columns)."""
    basis, _ = torch.linalg.qr(torch.randn(columns - 1, rows, generator=generator))
    return torch.cat([torch.zeros(rows, 1), basis.T], dim=1)
