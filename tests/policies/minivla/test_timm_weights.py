"""Features timm gave for the same weights and picture (benchmarks/minivla_timm_equality.py wrote the file)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from wmrl_gym.policies.minivla.timm_weights import current_name, dino_weights, siglip_weights, vision_settings
from wmrl_gym.policies.minivla.vision import FusedVision

HEADS = 16


@pytest.fixture(scope="module")
def timm() -> dict[str, Any]:
    stored = np.load(Path(__file__).parent / "data" / "timm_features.npz")
    weights: dict[str, dict[str, torch.Tensor]] = {"dino": {}, "siglip": {}}
    for name in stored.files:
        part, _, rest = name.partition(".")
        if rest:
            weights[part][rest] = torch.from_numpy(stored[name].astype(np.float32))
    image = torch.from_numpy(stored["image"].transpose(2, 0, 1).copy())
    return {**weights, "image": image, "features": torch.from_numpy(stored["features"])}


def build(timm: dict[str, Any], **changed: Any) -> FusedVision:
    vision = FusedVision(
        {**vision_settings(timm["dino"], HEADS), **changed.pop("dino", {})},
        {**vision_settings(timm["siglip"], HEADS), **changed},
    ).eval()
    vision.dino.load_state_dict(dino_weights(timm["dino"]))
    vision.siglip.load_state_dict(siglip_weights(timm["siglip"]))
    return vision


@torch.no_grad()
def difference(vision: FusedVision, timm: dict[str, Any]) -> float:
    return float((vision(timm["image"][None])[0] - timm["features"]).abs().max())


def test_features_equal_timms(timm: dict[str, Any]) -> None:
    vision = build(timm)
    assert vision.patches == 9
    assert vision.image_size == 42
    assert difference(vision, timm) < 5e-5


def test_the_comparison_sees_what_could_go_wrong(timm: dict[str, Any]) -> None:
    assert difference(build(timm, hidden_act="gelu_pytorch_tanh"), timm) > 3e-4, "SigLIP with the other GELU"
    assert difference(build(timm, dino={"num_attention_heads": 8}), timm) > 1e-2, "another number of heads"
    vision = build(timm)
    with torch.no_grad():
        for scale in (layer.layer_scale1.lambda1 for layer in vision.dino.encoder.layer):
            scale.fill_(1.0)
    assert difference(vision, timm) > 1e-2, "LayerScale not loaded"
    vision = build(timm)
    with torch.no_grad():
        vision.dino.embeddings.position_embeddings.copy_(vision.dino.embeddings.position_embeddings.roll(1, 1))
    assert difference(vision, timm) > 1e-2, "positions moved by one"


def test_names_of_transformers_4_become_those_of_5() -> None:
    older = {
        "vision.dino.encoder.layer.0.attention.attention.query.weight": (
            "vision.dino.encoder.layer.0.attention.q_proj.weight"
        ),
        "vision.dino.encoder.layer.1.attention.output.dense.bias": "vision.dino.encoder.layer.1.attention.o_proj.bias",
        "vision.siglip.vision_model.encoder.layers.0.mlp.fc1.weight": "vision.siglip.encoder.layers.0.mlp.fc1.weight",
    }
    for name, newer in older.items():
        assert current_name(name) == newer
        assert current_name(newer) == newer


def test_positions_that_are_no_square_are_refused(timm: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="8 position embeddings"):
        vision_settings({**timm["dino"], "pos_embed": timm["dino"]["pos_embed"][:, :8]}, HEADS)
