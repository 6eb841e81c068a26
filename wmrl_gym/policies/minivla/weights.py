"""Filling a model with weights under the names of today or of earlier versions."""

from __future__ import annotations

from pathlib import Path

import torch

from wmrl_gym.policies.minivla.model import MiniVLAModel
from wmrl_gym.policies.minivla.timm_weights import current_name


def load_weights(model: MiniVLAModel, weights: dict[str, torch.Tensor], source: Path) -> None:
    """Fill a model, and be sure that every parameter got its values.

    Raises:
        ValueError: if names or shapes differ.
    """
    own = model.state_dict()
    names = {current_name(name): name for name in own}
    given = {current_name(name): values for name, values in weights.items()}
    if model.causal_lm.config.tie_word_embeddings:
        given["language.lm_head.weight"] = given.get("language.model.embed_tokens.weight", torch.empty(0))
    shapes = {name: tuple(values.shape) for name, values in given.items()}
    expected = {name: tuple(own[names[name]].shape) for name in names}
    wrong = sorted(name for name in expected.keys() | shapes.keys() if expected.get(name) != shapes.get(name))
    if wrong:
        raise ValueError(
            f"{source} does not fit the model in {len(wrong)} tensors, for example {wrong[0]}: "
            f"the file has {shapes.get(wrong[0])}, the model {expected.get(wrong[0])}"
        )
    model.load_state_dict({names[name]: values for name, values in given.items()})
