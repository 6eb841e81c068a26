"""What may be done with a language model of some architecture."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from wmrl_gym.engines.decoding import Method
from wmrl_gym.engines.preallocated_cache import base_model

Head = Callable[[Any, torch.Tensor], torch.Tensor]
"""From a model and its last hidden states to logits."""


@dataclass(frozen=True)
class Architecture:
    """What is right for a model."""

    decoding: Method
    """How it generates."""
    branches: bool
    """Whether rows of a forward pass may branch behind a shared prompt, held apart by an attention mask."""
    pads_on_the_right: bool
    """Whether rows of a forward pass may be padded on the right."""
    head: Head | None
    """None if the model does not give its last hidden states apart from its logits."""
    vocabulary: int
    """Number of logits."""

    def features(self, model: Any, arguments: Mapping[str, Any]) -> torch.Tensor:
        """What `logits` reads: the last hidden states, or the logits themselves if there is no head apart."""
        if self.head is None:
            logits: torch.Tensor = model(**arguments, use_cache=False).logits
            return logits
        return last_hidden(model, arguments)

    def logits(self, model: Any, features: torch.Tensor) -> torch.Tensor:
        """Logits of some positions, shape (n, vocabulary), from their features."""
        return features if self.head is None else self.head(model, features)


def last_hidden(model: Any, arguments: Mapping[str, Any]) -> torch.Tensor:
    """What the last layer puts out, shape (rows, width, features).

    Raises:
        AttributeError: if the model keeps its backbone under no known name.
    """
    inner = base_model(model)
    backbone = getattr(inner, inner.base_model_prefix)
    states: torch.Tensor = backbone(**arguments, use_cache=False).last_hidden_state
    return states


def plain_head(model: Any, hidden: torch.Tensor) -> torch.Tensor:
    """The output embeddings, and nothing more."""
    logits: torch.Tensor = base_model(model).get_output_embeddings()(hidden)
    return logits


def _divided_head(model: Any, hidden: torch.Tensor) -> torch.Tensor:
    return plain_head(model, hidden) / base_model(model).config.logits_scaling


def _multiplied_head(model: Any, hidden: torch.Tensor) -> torch.Tensor:
    return plain_head(model, hidden) * base_model(model).config.logit_scale


def _capped_head(model: Any, hidden: torch.Tensor) -> torch.Tensor:
    cap = base_model(model).config.final_logit_softcapping
    return torch.tanh(plain_head(model, hidden) / cap) * cap


def _recurrent_gemma_head(model: Any, hidden: torch.Tensor) -> torch.Tensor:
    cap = base_model(model).config.logits_soft_cap
    return torch.tanh(plain_head(model, hidden) / cap) * cap


HEADS = (_capped_head, _recurrent_gemma_head, _divided_head, _multiplied_head, plain_head)
"""What models do with the output of their last layer. Plain comes last: small logits are as good as uncapped."""
