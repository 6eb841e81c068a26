"""A key-value cache that writes in place, for models whose every layer attends to all that went before."""

from __future__ import annotations

import inspect
from typing import Any

import torch
from transformers.cache_utils import DynamicCache, DynamicLayer


class PreallocatedLayer(DynamicLayer):
    """A key-value cache layer that writes into a buffer of fixed capacity instead of concatenating at every token."""

    def __init__(self, capacity: int) -> None:
        super().__init__()
        self.capacity = capacity
        self.length = 0

    def lazy_initialization(self, key_states: torch.Tensor, value_states: torch.Tensor) -> None:
        """Allocate for the batch size, heads and width of the first states."""
        super().lazy_initialization(key_states, value_states)
        self._allocate(key_states, value_states)

    def _allocate(self, keys: torch.Tensor, values: torch.Tensor) -> None:
        self.key_buffer = keys.new_empty((*keys.shape[:2], self.capacity, keys.shape[3]))
        self.value_buffer = values.new_empty((*values.shape[:2], self.capacity, values.shape[3]))

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Append states, shape (batch, heads, new, width), and return all of them so far."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        end = self.length + key_states.shape[2]
        self.key_buffer[:, :, self.length : end] = key_states
        self.value_buffer[:, :, self.length : end] = value_states
        self.length = end
        self.keys, self.values = self.key_buffer[:, :, :end], self.value_buffer[:, :, :end]
        return self.keys, self.values

    def batch_select_indices(self, indices: torch.Tensor) -> None:
        """Keep (or repeat) rows of the batch."""
        if self.keys is None or self.values is None:
            return
        keys, values = self.keys[indices], self.values[indices]
        self._allocate(keys, values)
        self.key_buffer[:, :, : self.length] = keys
        self.value_buffer[:, :, : self.length] = values
        self.keys, self.values = self.key_buffer[:, :, : self.length], self.value_buffer[:, :, : self.length]


def preallocated_cache(model: Any, capacity: int) -> DynamicCache:
    """The model's own cache, with its ordinary layers replaced by preallocated ones of `capacity` tokens."""
    cache = DynamicCache(config=base_model(model).config)
    cache.layers = [PreallocatedLayer(capacity) if type(layer) is DynamicLayer else layer for layer in cache.layers]
    return cache


def cache_argument(model: Any) -> str:
    """Name of the forward argument that takes the key-value cache: it changed within transformers 5."""
    return "cache" if "cache" in forward_arguments(model) else "past_key_values"


def forward_arguments(model: Any) -> frozenset[str]:
    """Names of the arguments that the model's forward pass takes."""
    return frozenset(inspect.signature(base_model(model).forward).parameters)


def base_model(model: Any) -> Any:
    """The model inside a PEFT wrapper, its adapters included: they sit in its layers."""
    return model.get_base_model() if hasattr(model, "get_base_model") else model
