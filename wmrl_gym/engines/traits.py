"""What a short trial cannot see of a language model, read from its configuration: windows, limits, late effects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from transformers.cache_utils import DynamicCache, DynamicLayer

from wmrl_gym.engines.preallocated_cache import base_model


def attends_to_everything(model: Any) -> bool:
    """Whether every layer attends to all that went before: no window, no recurrent state.

    Only then does a cache tolerate padding between two segments, and may its rows be selected and repeated at will.
    """
    config = _text_config(model)
    layers = DynamicCache(config=config).layers
    kinds = {*(getattr(config, "layer_types", None) or ()), *_flat(getattr(config, "attention_layers", None))}
    # A model without attention gets a cache without layers. GPT-Neo calls its kinds "global" and "local".
    known = kinds <= {"full_attention", "global"}
    return bool(layers) and known and all(type(layer) is DynamicLayer for layer in layers)


def bears_left_padding(model: Any) -> bool:
    """Whether nothing speaks against padding on the left.

    A convolution's bias turns padding into something, but is 0 as long as a model has learned nothing; Llama 4 tempers
    queries by their column, but only far from the beginning.
    """
    config = _text_config(model)
    biased = getattr(config, "conv_bias", False) and "conv" in (getattr(config, "layer_types", None) or ())
    return not biased and not getattr(config, "attn_temperature_tuning", False)


def positions_are_limited(model: Any) -> bool:
    """Whether no row may be run on beyond its context.

    It fails where positions are looked up in a table. Where rotations change with the longest row ("longrope",
    "dynamic"), those of its neighbours would change with it.
    """
    inner = base_model(model)
    config, tokens = _text_config(model), inner.get_input_embeddings()
    limit = getattr(config, "max_position_embeddings", None)
    tables = (m for m in inner.modules() if isinstance(m, torch.nn.Embedding) and m is not tokens)
    in_a_table = limit is not None and any(limit <= table.num_embeddings <= limit + 2 for table in tables)
    return in_a_table or hasattr(config, "max_seq_len") or bool(_rope_types(config) & {"longrope", "dynamic"})


def context_length(model: Any) -> int | None:
    """Tokens that the model takes at most; None if it sets no limit.

    A "longrope" model goes over to other rotations beyond the length it was first trained for, which changes what was
    said before; such a model ends there.
    """
    config = _text_config(model)
    known = [getattr(config, name, None) for name in ("max_position_embeddings", "max_seq_len")]
    if "longrope" in _rope_types(config):
        known += [rope.get("original_max_position_embeddings") for rope in _ropes(config)]
        known.append(getattr(config, "original_max_position_embeddings", None))
    return min((int(length) for length in known if length), default=None)


def _ropes(config: Any) -> list[Mapping[str, Any]]:
    """The settings of rotary positions: one for all layers, or one for each kind of layer."""
    rope = getattr(config, "rope_parameters", None) or getattr(config, "rope_scaling", None)
    if not isinstance(rope, Mapping):
        return []
    return [rope, *(kind for kind in rope.values() if isinstance(kind, Mapping))]


def _rope_types(config: Any) -> set[str]:
    return {str(rope.get(name)) for rope in _ropes(config) for name in ("rope_type", "type")}


def _text_config(model: Any) -> Any:
    config = base_model(model).config
    return config.get_text_config() if hasattr(config, "get_text_config") else config


def _flat(kinds: Any) -> set[str]:
    if isinstance(kinds, str):
        return {kinds}
    return {kind for item in kinds or () for kind in _flat(item)}
