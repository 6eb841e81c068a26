"""Weights of timm's vision transformers under the names `transformers` gives them.

timm keeps query, key and value in one matrix, calls LayerScale's factors gamma, and adds DINOv2's position embeddings
to the patches alone, where Hugging Face's DINOv2 adds one to the class token, too: that one is zero here. SigLIP's
attention-pooling head, the final norms and the last block are not used by MiniVLA and are left out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import torch

Weights = dict[str, torch.Tensor]

_DINO_BLOCK = {
    "norm1": "norm1",
    "attn.proj": "attention.o_proj",
    "ls1.gamma": "layer_scale1.lambda1",
    "norm2": "norm2",
    "mlp.fc1": "mlp.fc1",
    "mlp.fc2": "mlp.fc2",
    "ls2.gamma": "layer_scale2.lambda1",
}
_SIGLIP_BLOCK = {
    "norm1": "layer_norm1",
    "attn.proj": "self_attn.out_proj",
    "norm2": "layer_norm2",
    "mlp.fc1": "mlp.fc1",
    "mlp.fc2": "mlp.fc2",
}
_OLDER_NAMES = (
    ("vision.siglip.vision_model.", "vision.siglip."),
    (".attention.attention.query.", ".attention.q_proj."),
    (".attention.attention.key.", ".attention.k_proj."),
    (".attention.attention.value.", ".attention.v_proj."),
    (".attention.output.dense.", ".attention.o_proj."),
)


def current_name(name: str) -> str:
    """A parameter's name as transformers 5 has it, whichever of 4 and 5 gave it."""
    for older, newer in _OLDER_NAMES:
        name = name.replace(older, newer)
    return name


def dino_weights(timm: Mapping[str, torch.Tensor]) -> Weights:
    """DINOv2 with registers, all blocks but the last; names relative to `Dinov2WithRegistersModel`."""
    positions = timm["pos_embed"]
    weights = {
        "embeddings.cls_token": timm["cls_token"],
        "embeddings.register_tokens": timm["reg_token"],
        "embeddings.position_embeddings": torch.cat([torch.zeros_like(positions[:, :1]), positions], dim=1),
        "embeddings.mask_token": torch.zeros_like(positions[:, 0]),
        "embeddings.patch_embeddings.projection.weight": timm["patch_embed.proj.weight"],
        "embeddings.patch_embeddings.projection.bias": timm["patch_embed.proj.bias"],
    }
    return weights | _blocks(timm, "encoder.layer", "attention", _DINO_BLOCK)


def siglip_weights(timm: Mapping[str, torch.Tensor]) -> Weights:
    """SigLIP's vision tower, all blocks but the last; names relative to `SiglipVisionModel` of transformers 5."""
    weights = {
        "embeddings.patch_embedding.weight": timm["patch_embed.proj.weight"],
        "embeddings.patch_embedding.bias": timm["patch_embed.proj.bias"],
        "embeddings.position_embedding.weight": timm["pos_embed"][0],
    }
    return weights | _blocks(timm, "encoder.layers", "self_attn", _SIGLIP_BLOCK)


def _blocks(timm: Mapping[str, torch.Tensor], prefix: str, attention: str, names: Mapping[str, str]) -> Weights:
    weights: Weights = {}
    for block in range(depth(timm) - 1):
        for kind in ("weight", "bias"):
            parts = timm[f"blocks.{block}.attn.qkv.{kind}"].chunk(3)
            for part, values in zip(("q_proj", "k_proj", "v_proj"), parts, strict=True):
                weights[f"{prefix}.{block}.{attention}.{part}.{kind}"] = values
        for theirs, ours in names.items():
            kinds = ("",) if theirs.endswith("gamma") else (".weight", ".bias")
            for kind in kinds:
                weights[f"{prefix}.{block}.{ours}{kind}"] = timm[f"blocks.{block}.{theirs}{kind}"]
    return weights


def depth(timm: Mapping[str, torch.Tensor]) -> int:
    """Number of blocks."""
    return 1 + max(int(found[1]) for name in timm if (found := re.match(r"blocks\.(\d+)\.", name)))


def vision_settings(timm: Mapping[str, torch.Tensor], heads: int) -> dict[str, Any]:
    """Settings of the part of a backbone that is used, read off its weights.

    Args:
        timm: weights by timm's names.
        heads: attention heads; no shape tells.
    """
    width, _, patch_size, _ = timm["patch_embed.proj.weight"].shape
    positions = timm["pos_embed"].shape[1]
    side = round(positions**0.5)
    if side * side != positions:
        raise ValueError(f"{positions} position embeddings are not those of a square of patches")
    hidden = timm["blocks.0.mlp.fc1.weight"].shape[0]
    settings: dict[str, Any] = {
        "hidden_size": width,
        "num_hidden_layers": depth(timm) - 1,
        "num_attention_heads": heads,
        "image_size": side * patch_size,
        "patch_size": patch_size,
    }
    if "reg_token" in timm:
        return {**settings, "num_register_tokens": timm["reg_token"].shape[1], "mlp_ratio": hidden // width}
    return {**settings, "intermediate_size": hidden}
