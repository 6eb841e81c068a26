"""Chunks of actions as a few codes: the residual vector quantiser MiniVLA takes from VQ-BeT.

The layout is that of jayLEE0301/vq_bet_official (vqvae/vqvae.py): an encoder and a decoder with two hidden layers of
128 units, and one codebook per round. Code k of round q names a vector; a chunk's latent is the sum of its vectors, and
each round quantises what the rounds before it left over. LIBERO's quantiser writes 8 actions of 7 numbers as 7 codes,
each one of 128.

The original's evaluation plays the first action of a chunk and asks again; here a chunk is played whole.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import nn

from wmrl_gym.policies.minivla.action_tokens import ACTION_SIZE

HIDDEN = 128


class _MLP(nn.Module):
    """Two hidden layers with ReLU and a linear one; named as in VQ-BeT, so that its weights load."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(inputs, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, HIDDEN), nn.ReLU())
        self.fc = nn.Linear(HIDDEN, outputs)

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        """Map the last axis."""
        return self.fc(self.encoder(values))


class ActionVQ(nn.Module):
    """Chunks of normalised actions to codes and back.

    Args:
        horizon: actions in a chunk.
        latent_size: width of the latent.
        codes: how many codes a round has.
        rounds: residual rounds, one code each.
        action_scale: actions are divided by it before the encoder and multiplied after the decoder.
    """

    def __init__(
        self, horizon: int = 8, latent_size: int = 512, codes: int = 128, rounds: int = 7, action_scale: float = 1.0
    ) -> None:
        super().__init__()
        self.horizon, self.rounds, self.codes, self.action_scale = horizon, rounds, codes, action_scale
        self.encoder = _MLP(horizon * ACTION_SIZE, latent_size)
        self.decoder = _MLP(latent_size, horizon * ACTION_SIZE)
        self.register_buffer("codebooks", torch.randn(rounds, codes, latent_size))
        self.codebooks: torch.Tensor

    @torch.no_grad()
    def encode(self, actions: torch.Tensor) -> torch.Tensor:
        """Codes, shape (B, rounds), of chunks, shape (B, horizon, 7): each round the vector nearest to what is left."""
        left = self.encoder(actions.flatten(1) / self.action_scale)
        chosen = []
        for book in self.codebooks:
            chosen.append(torch.cdist(left, book).argmin(-1))
            left = left - book[chosen[-1]]
        return torch.stack(chosen, 1)

    @torch.no_grad()
    def decode(self, codes: torch.Tensor) -> torch.Tensor:
        """Chunks, shape (B, horizon, 7), of codes, shape (B, rounds)."""
        rounds = torch.arange(self.rounds, device=codes.device)
        latent = self.codebooks[rounds, codes].sum(1)
        return (self.decoder(latent) * self.action_scale).reshape(len(codes), self.horizon, ACTION_SIZE)

    @classmethod
    def load(cls, directory: str | Path) -> ActionVQ:
        """Read a folder of VQ-BeT's layout as MiniVLA trains it: config.json and checkpoints/model.pt.

        Raises:
            FileNotFoundError: if one of the two is missing.
            ValueError: if the quantiser is for other actions than seven numbers.
        """
        folder = Path(directory)
        config_file, weights_file = folder / "config.json", folder / "checkpoints" / "model.pt"
        for file in (config_file, weights_file):
            if not file.is_file():
                raise FileNotFoundError(
                    f"no action quantiser in {folder}: {file} is missing\n"
                    "  MiniVLA's are published beside its checkpoints, for example "
                    "vq/pretrain_vq+mx-libero_90+fach-7+ng-7+nemb-128+nlatent-512; name the folder as vq_path."
                )
        config = json.loads(config_file.read_text())
        if config["input_dim_w"] != ACTION_SIZE:
            raise ValueError(f"{config_file}: actions of {config['input_dim_w']} numbers; a robot arm here has 7")
        quantiser = cls(
            config["input_dim_h"],
            config["n_latent_dims"],
            config["vqvae_n_embed"],
            config["vqvae_groups"],
            config.get("act_scale", 1.0),
        )
        quantiser._fill(torch.load(weights_file, map_location="cpu", weights_only=True))
        return quantiser.eval()

    def _fill(self, state: Mapping[str, Mapping[str, torch.Tensor]]) -> None:
        self.encoder.load_state_dict(state["encoder"])
        self.decoder.load_state_dict(state["decoder"])
        books = [state["vq_embedding"][f"layers.{q}._codebook.embed"][0] for q in range(self.rounds)]
        self.codebooks.copy_(torch.stack(books))

    def save(self, directory: str | Path) -> None:
        """Write the folder `load` reads."""
        folder = Path(directory)
        (folder / "checkpoints").mkdir(parents=True, exist_ok=True)
        config: dict[str, Any] = {
            "input_dim_w": ACTION_SIZE,
            "input_dim_h": self.horizon,
            "n_latent_dims": self.codebooks.shape[-1],
            "vqvae_n_embed": self.codes,
            "vqvae_groups": self.rounds,
            "act_scale": self.action_scale,
        }
        (folder / "config.json").write_text(json.dumps(config, indent=4) + "\n")
        books = {f"layers.{q}._codebook.embed": book[None].clone() for q, book in enumerate(self.codebooks)}
        state = {
            "encoder": self.encoder.state_dict(),
            "decoder": self.decoder.state_dict(),
            "vq_embedding": books,
        }
        torch.save(state, folder / "checkpoints" / "model.pt")


class VQActions:
    """A chunk of actions as one code token per residual round.

    Args:
        tokens_end: one more than the largest token id. Code k is token ``tokens_end - 1 - k``.
        quantiser: turns chunks into codes.
    """

    def __init__(self, tokens_end: int, quantiser: ActionVQ) -> None:
        self.tokens_end = tokens_end
        self.quantiser = quantiser.cpu().requires_grad_(False)
        self.first_token = tokens_end - quantiser.codes
        self.token_count = quantiser.codes
        self.tokens_per_decision = quantiser.rounds
        self.actions_per_decision = quantiser.horizon

    def encode(self, actions: ArrayLike) -> NDArray[np.int64]:
        """Token ids, shape (rounds,), of a normalised chunk, shape (horizon, 7)."""
        chunk = torch.as_tensor(np.asarray(actions), dtype=torch.float32)[None]
        if chunk.shape[1:] != (self.actions_per_decision, ACTION_SIZE):
            raise ValueError(
                f"actions have shape {tuple(chunk.shape[1:])}: this policy decides on chunks of "
                f"({self.actions_per_decision}, {ACTION_SIZE})"
            )
        return self.tokens_end - 1 - self.quantiser.encode(chunk)[0].numpy()

    def decode(self, token_ids: ArrayLike) -> NDArray[np.float64]:
        """A normalised chunk, shape (horizon, 7), of token ids, shape (rounds,)."""
        codes = np.clip(self.tokens_end - 1 - np.asarray(token_ids, np.int64), 0, self.token_count - 1)
        return self.quantiser.decode(torch.from_numpy(codes)[None])[0].double().numpy()

    def tokens_taken(self, actions_used: int) -> int:
        """All of them if anything was done: every code bears on every action of the chunk."""
        return self.tokens_per_decision if actions_used > 0 else 0
