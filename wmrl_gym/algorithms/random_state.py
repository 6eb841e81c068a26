"""Global random generators, for policies that draw from them instead of from the streams they are given."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch


def random_state() -> dict[str, Any]:
    """State of Python's, NumPy's and torch's global generators, as tensors and plain data."""
    numpy_state = np.random.get_state(legacy=True)  # noqa: NPY002 - the global generator is what is saved
    assert isinstance(numpy_state, tuple)  # which legacy=True promises
    name, keys, *rest = numpy_state
    return {
        "python": random.getstate(),
        "numpy": (name, keys.tolist(), *rest),
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
    }


def set_random_state(state: Mapping[str, Any]) -> None:
    """Restore what `random_state` returned; CUDA's generators only where there are as many devices as then."""
    random.setstate(state["python"])
    name, keys, *rest = state["numpy"]
    np.random.set_state((name, np.array(keys, np.uint32), *rest))  # noqa: NPY002 - see above
    torch.set_rng_state(state["torch"])
    if torch.cuda.is_available() and len(state["cuda"]) == torch.cuda.device_count():
        torch.cuda.set_rng_state_all(state["cuda"])
