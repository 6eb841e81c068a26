"""Chunks as codes: the decoder's arithmetic by hand, the layout on disk, and a policy that plays whole chunks."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from wmrl_gym.policies.minivla import MiniVLAPolicy, action_token_loss, tiny_minivla
from wmrl_gym.policies.minivla.action_vq import ActionVQ, VQActions
from wmrl_gym.policies.minivla.loading import load_minivla


@pytest.fixture
def quantiser() -> ActionVQ:
    torch.manual_seed(0)
    return ActionVQ(horizon=8, latent_size=16, codes=128, rounds=7, action_scale=0.5)


def test_libero_s_quantiser_writes_eight_actions_as_seven_codes_of_128(quantiser: ActionVQ) -> None:
    codec = VQActions(151921, quantiser)
    assert (codec.tokens_per_decision, codec.actions_per_decision, codec.token_count) == (7, 8, 128)
    assert codec.first_token == 151921 - 128
    assert codec.tokens_taken(0) == 0
    assert codec.tokens_taken(1) == codec.tokens_taken(8) == 7


def test_code_zero_is_the_last_token_and_the_latent_is_the_sum_of_the_rounds_vectors(quantiser: ActionVQ) -> None:
    codec = VQActions(1000, quantiser)
    codes = [0, 1, 2, 3, 4, 5, 127]
    tokens = [999, 998, 997, 996, 995, 994, 872]
    latent = sum(quantiser.codebooks[q, code] for q, code in enumerate(codes)).numpy()
    weights = {name: values.numpy() for name, values in quantiser.decoder.state_dict().items()}
    hidden = np.maximum(weights["encoder.0.weight"] @ latent + weights["encoder.0.bias"], 0)
    hidden = np.maximum(weights["encoder.2.weight"] @ hidden + weights["encoder.2.bias"], 0)
    by_hand = (weights["fc.weight"] @ hidden + weights["fc.bias"]) * 0.5
    np.testing.assert_allclose(codec.decode(tokens), by_hand.reshape(8, 7), atol=1e-5)


def test_encoding_quantises_what_the_rounds_before_left_over(quantiser: ActionVQ) -> None:
    codec = VQActions(1000, quantiser)
    chunk = np.random.default_rng(0).uniform(-1, 1, (8, 7)).astype(np.float32)
    with torch.no_grad():
        left = quantiser.encoder(torch.from_numpy(chunk).reshape(1, -1) / 0.5)[0].numpy()
    for q, token in enumerate(codec.encode(chunk)):
        distances = np.linalg.norm(quantiser.codebooks[q].numpy() - left, axis=1)
        assert distances.argmin() == 999 - token
        left = left - quantiser.codebooks[q, 999 - token].numpy()
    with pytest.raises(ValueError, match=r"\(8, 7\)"):
        codec.encode(chunk[:1])


def write_vq_bet_folder(quantiser: ActionVQ, folder: Path, **config: Any) -> None:
    """As MiniVLA's pretrain_vq.py leaves it, unused buffers and the optimiser's state included."""
    (folder / "checkpoints").mkdir(parents=True)
    settings = {
        "input_dim_w": 7,
        "input_dim_h": 8,
        "n_latent_dims": 16,
        "vqvae_n_embed": 128,
        "vqvae_groups": 7,
        "eval": False,
        "device": "cuda",
        "load_dir": None,
        "encoder_loss_multiplier": 1.0,
        "act_scale": 0.5,
    }
    (folder / "config.json").write_text(json.dumps({**settings, **config}))
    embedding = {}
    for q, book in enumerate(quantiser.codebooks):
        embedding[f"layers.{q}._codebook.initted"] = torch.ones(1)
        embedding[f"layers.{q}._codebook.cluster_size"] = torch.ones(1, 128)
        embedding[f"layers.{q}._codebook.embed_avg"] = torch.zeros(1, 128, 16)
        embedding[f"layers.{q}._codebook.embed"] = book[None].clone()
    optimizer = torch.optim.Adam([*quantiser.encoder.parameters(), *quantiser.decoder.parameters()])
    state = {
        "encoder": quantiser.encoder.state_dict(),
        "decoder": quantiser.decoder.state_dict(),
        "optimizer": optimizer.state_dict(),
        "vq_embedding": embedding,
    }
    torch.save(state, folder / "checkpoints" / "model.pt")


def test_a_published_quantiser_is_loaded(quantiser: ActionVQ, tmp_path: Path) -> None:
    write_vq_bet_folder(quantiser, tmp_path / "vq")
    loaded = ActionVQ.load(tmp_path / "vq")
    codes = torch.randint(0, 128, (3, 7), generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(loaded.decode(codes), quantiser.decode(codes))
    chunk = torch.rand(3, 8, 7, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(loaded.encode(chunk), quantiser.encode(chunk))


def test_what_is_wrong_with_a_quantiser_s_folder_is_said(quantiser: ActionVQ, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="vq_path"):
        ActionVQ.load(tmp_path)
    write_vq_bet_folder(quantiser, tmp_path / "vq", input_dim_w=10)
    with pytest.raises(ValueError, match="10 numbers"):
        ActionVQ.load(tmp_path / "vq")


def test_a_policy_plays_whole_chunks_learns_and_is_saved(
    quantiser: ActionVQ, make_observations: Callable[..., list[Any]], tmp_path: Path
) -> None:
    tiny = tiny_minivla(image_size=28, width=64, layers=1)
    codec = VQActions(len(tiny.tokenizer), quantiser)
    policy = MiniVLAPolicy(tiny.model, tiny.tokenizer, codec, tiny.scale, train_vision=True)
    observations = make_observations(2)
    decisions = policy.act(observations, histories=[[], []], seeds=[(0,), (1,)])
    assert [decision.action.shape for decision in decisions] == [(8, 7)] * 2
    log_probs, entropy, _ = policy.log_probs(decisions)
    assert log_probs.shape == (2, 7)
    assert entropy.max().item() <= np.log(128) + 1e-5
    np.testing.assert_allclose(log_probs.detach(), np.stack([d.log_probs for d in decisions]), atol=2e-5)
    loss, tokens = action_token_loss(policy, observations, np.stack([d.action for d in decisions]))
    assert tokens == 14
    assert loss.item() == pytest.approx(np.log(128), abs=0.3)
    policy.save_pretrained(tmp_path / "saved")
    again = load_minivla(tmp_path / "saved").act(observations, histories=[[], []], seeds=[(0,), (1,)])
    for one, other in zip(decisions, again, strict=True):
        np.testing.assert_array_equal(one.token_ids, other.token_ids)
        np.testing.assert_allclose(one.action, other.action, atol=1e-6)
    with pytest.raises(ValueError, match="chunks of 8"):
        load_minivla(tmp_path / "saved", actions_per_decision=4)
