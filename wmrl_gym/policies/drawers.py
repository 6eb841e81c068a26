"""The drawer agent: a MiniVLA of 1.2 million parameters that half knows how to close two drawers, shipped as data.

It was cloned from a few scripted demonstrations on the initial states that training sees (make it again with
``python benchmarks/make_libero_tiny.py``). It is where every arm of the small LIBERO experiment begins.
"""

from __future__ import annotations

import copy
from pathlib import Path

import torch

from wmrl_gym.policies.minivla.loading import load_minivla
from wmrl_gym.policies.minivla.policy import MiniVLAPolicy
from wmrl_gym.policies.minivla.tiny import tiny_minivla

DRAWER_AGENT_DIRECTORY = Path(__file__).parent / "drawer_agent"
CHUNK = 8
IMAGE_SIZE = 56
"""Of the square the model sees."""


def load_drawer_agent(
    directory: str | Path | None = None, *, train_vision: bool = False, device: torch.device | str = "cpu"
) -> MiniVLAPolicy:
    """The shipped agent, or one of the same kind from another directory. Needs no network and no LIBERO.

    Args:
        directory: None for the shipped one.
        train_vision: whether the vision backbones go on learning, too; frozen, they look at every picture once.
        device: where the model is moved to.

    Raises:
        FileNotFoundError: if there is no checkpoint.
    """
    folder = DRAWER_AGENT_DIRECTORY if directory is None else Path(directory)
    if not (folder / "model.safetensors").is_file():
        raise FileNotFoundError(
            f"no drawer agent in {folder}\n"
            "  It ships with the package. To make it again: python benchmarks/make_libero_tiny.py"
        )
    return load_minivla(folder, train_vision=train_vision, device=device, local_files_only=True)


def new_drawer_agent(seed: int = 0) -> MiniVLAPolicy:
    """One that has learned nothing yet: width 128, two layers, and vision backbones that learn."""
    return tiny_minivla(
        seed, actions_per_decision=CHUNK, image_size=IMAGE_SIZE, width=128, layers=2, crop_area=None, train_vision=True
    )


def save_drawer_agent(policy: MiniVLAPolicy, directory: str | Path) -> None:
    """Write a checkpoint in half precision: half the size, and close enough to go on from."""
    half = copy.copy(policy)
    half.model = copy.deepcopy(policy.model).half()
    half.save_pretrained(directory)
