"""The network of MiniVLA: fused vision backbones, a projector of three layers, and a Qwen2 language model.

The layout is Prismatic's (Stanford-ILIAD/openvla-mini, prismatic/models/vlms/prismatic.py): the projected patches stand
between the first token of the prompt and the rest of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from transformers import Qwen2Config, Qwen2ForCausalLM

from wmrl_gym.engines.preallocated_cache import cache_argument
from wmrl_gym.policies.minivla.vision import FusedVision


@dataclass(frozen=True)
class MiniVLAConfig:
    """Settings of the three parts, as `FusedVision` and `Qwen2Config` take them."""

    dino: Mapping[str, Any]
    siglip: Mapping[str, Any]
    language: Mapping[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """Plain data for a configuration file."""
        return asdict(self)


@dataclass
class Context:
    """A batch of prompts with their images, embedded. Shorter prompts are padded behind the image."""

    embeddings: torch.Tensor
    """Shape (N, W, width of the language model)."""
    mask: torch.Tensor
    """Shape (N, W), 1 on what is there, 0 on padding."""
    positions: torch.Tensor
    """Shape (N, W)."""


class MiniVLAModel(nn.Module):
    """Vision, projector and language model, randomly initialised.

    Attributes:
        compute_dtype: type that matrix products are computed in, by autocasting; None for the weights' own. Weights in
            single precision computed with in bfloat16 is how the original trains.
    """

    def __init__(self, config: MiniVLAConfig) -> None:
        super().__init__()
        self.config = config
        self.compute_dtype: torch.dtype | None = None
        self.vision = FusedVision(config.dino, config.siglip)
        self.language: Any = Qwen2ForCausalLM(Qwen2Config(**config.language))
        width = int(self.language.config.hidden_size)
        self.projector = nn.Sequential(
            nn.Linear(self.vision.width, 4 * self.vision.width),
            nn.GELU(),
            nn.Linear(4 * self.vision.width, width),
            nn.GELU(),
            nn.Linear(width, width),
        )

    @property
    def causal_lm(self) -> Any:
        """The language model itself, inside an adapter's wrapper if there is one."""
        return self.language.get_base_model() if hasattr(self.language, "get_base_model") else self.language

    def _precision(self) -> AbstractContextManager[Any]:
        if self.compute_dtype is None:
            return nullcontext()
        return torch.autocast(next(self.parameters()).device.type, dtype=self.compute_dtype)

    def look(self, images: torch.Tensor) -> torch.Tensor:
        """Features of pictures, shape (B, patches, vision width), of uint8 images of shape (B, 3, S, S)."""
        with self._precision():
            return self.vision(images)

    def context(self, features: torch.Tensor, prompts: Sequence[NDArray[np.int64]]) -> Context:
        """Embed prompts with their images.

        Args:
            features: of the vision backbones, shape (N, patches of all cameras, vision width).
            prompts: token ids, length N.
        """
        rest = max(len(prompt) for prompt in prompts) - 1
        ids = np.stack([np.pad(prompt[1:], (rest - len(prompt) + 1, 0)) for prompt in prompts])
        present = np.stack([np.arange(rest) >= rest - len(prompt) + 1 for prompt in prompts])
        device = features.device
        embed = self.causal_lm.get_input_embeddings()
        first = embed(torch.tensor([[int(prompt[0])] for prompt in prompts], device=device))
        with self._precision():
            image = self.projector(features)
        words = embed(torch.from_numpy(ids).to(device))
        mask = torch.ones(len(prompts), 1 + image.shape[1] + rest, dtype=torch.long, device=device)
        mask[:, 1 + image.shape[1] :] = torch.from_numpy(present).to(device)
        return Context(torch.cat([first, image, words], dim=1), mask, (mask.cumsum(1) - 1).clamp(min=0))

    def hidden(self, context: Context, cache: Any = None) -> torch.Tensor:
        """Last hidden states of the language model, shape (N, W, width); fills the cache if there is one."""
        keyword: dict[str, Any] = {} if cache is None else {cache_argument(self.causal_lm): cache}
        with self._precision():
            output = self.causal_lm.model(
                inputs_embeds=context.embeddings,
                attention_mask=context.mask,
                position_ids=context.positions,
                use_cache=cache is not None,
                **keyword,
            )
        return output.last_hidden_state

    def embed_tokens(self, token_ids: torch.Tensor) -> torch.Tensor:
        """Embeddings of tokens, shape (..., width)."""
        return self.causal_lm.get_input_embeddings()(token_ids)

    def token_logits(self, hidden: torch.Tensor, first_token: int, token_count: int) -> torch.Tensor:
        """Logits of a contiguous range of tokens alone, shape (..., token_count), in single precision."""
        weight = self.causal_lm.get_output_embeddings().weight[first_token : first_token + token_count]
        return hidden.float() @ weight.float().T
