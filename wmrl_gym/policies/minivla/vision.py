"""Two vision backbones side by side: DINOv2 with registers and SigLIP, their patch features joined channel by channel.

Prismatic takes the patches after the *second-to-last* block, before any final norm (prismatic/models/backbones/vision/
dinosiglip_vit.py). So the last block of both is never made here, and their final norms are left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn
from transformers import Dinov2WithRegistersConfig, Dinov2WithRegistersModel, SiglipVisionConfig, SiglipVisionModel

IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


class FusedVision(nn.Module):
    """Features of image patches from both backbones.

    Args:
        dino: settings of `Dinov2WithRegistersConfig`.
        siglip: settings of `SiglipVisionConfig`. ``num_hidden_layers`` of both counts the blocks that are made, so it
            is one less than the pretrained model's. ``image_size`` and ``patch_size`` are whole numbers.

    Raises:
        ValueError: if the two do not cut an image into the same patches.
    """

    def __init__(self, dino: Mapping[str, Any], siglip: Mapping[str, Any]) -> None:
        super().__init__()
        dino_config = Dinov2WithRegistersConfig(**dino)
        # timm 0.9's SigLIP, with which MiniVLA was trained, has the exact GELU; Hugging Face's default is the tanh one.
        siglip_config = SiglipVisionConfig(**{"hidden_act": "gelu", "vision_use_head": False, **siglip})
        if (dino_config.image_size, dino_config.patch_size) != (siglip_config.image_size, siglip_config.patch_size):
            raise ValueError(
                "DINOv2 and SigLIP must have the same image_size and patch_size to be joined patch by patch"
            )
        self.image_size = int(dino["image_size"])
        self.patches = (self.image_size // int(dino["patch_size"])) ** 2
        self.width = dino_config.hidden_size + siglip_config.hidden_size
        self.dino = Dinov2WithRegistersModel(dino_config)
        self.siglip = SiglipVisionModel(siglip_config)
        # Inside `.vision_model` in transformers 4, on the model itself in transformers 5.
        self.dino.add_module("layernorm", nn.Identity())
        getattr(self.siglip, "vision_model", self.siglip).add_module("post_layernorm", nn.Identity())

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Patch features.

        Args:
            images: shape (B, 3, S, S), uint8.

        Returns:
            Shape (B, patches, width): DINOv2's channels first.
        """
        pixels = images.float() / 255
        dtype = next(self.parameters()).dtype
        mean, std = (pixels.new_tensor(values).view(3, 1, 1) for values in (IMAGENET_MEAN, IMAGENET_STD))
        for_dino = ((pixels - mean) / std).to(dtype)
        for_siglip = ((pixels - 0.5) / 0.5).to(dtype)
        dino = self.dino(pixel_values=for_dino).last_hidden_state[:, -self.patches :]
        siglip = self.siglip(pixel_values=for_siglip).last_hidden_state
        return torch.cat([dino, siglip], dim=-1)
