"""What `estimate_memory` foretells is what is there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import LlamaConfig

from tests.policies.families import tiny
from wmrl_gym.policies import estimate_memory
from wmrl_gym.policies.causal_lm_loading import add_lora

ROOT = Path(__file__).resolve().parents[2]
SHORT: dict[str, Any] = {"microbatch": 2, "prompt_tokens": 32, "answer_tokens": 16, "batch_size": 2}


def test_weights_gradients_and_moments_are_those_of_the_optimiser() -> None:
    model = tiny("qwen3", 512)
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    optimizer = torch.optim.AdamW(model.parameters())
    optimizer.step()
    moments = [state[name] for state in optimizer.state.values() for name in ("exp_avg", "exp_avg_sq")]
    found = estimate_memory(model.config, **SHORT)
    assert found.parameters == sum(p.numel() for p in model.parameters()) == found.learning
    assert found.weights == found.gradients == sum(p.nbytes for p in model.parameters())
    assert found.moments == sum(m.nbytes for m in moments)
    assert found.reference == 0


def test_an_adapter_alone_learns_and_the_reference_is_another() -> None:
    pytest.importorskip("peft")
    model = add_lora(tiny("llama", 512), 4)
    learning = [p for p in model.parameters() if p.requires_grad]
    found = estimate_memory(tiny("llama", 512).config, lora_rank=4, dtype="bfloat16", reference=True, **SHORT)
    assert found.learning == sum(p.numel() for p in learning)
    assert found.gradients == found.reference == 4 * found.learning
    assert found.weights == 2 * (found.parameters - found.learning) + 4 * found.learning


def test_the_cache_is_keys_and_values_of_all_layers() -> None:
    config = tiny("llama", 512).config
    found = estimate_memory(config, **SHORT)
    width = config.num_key_value_heads * config.hidden_size // config.num_attention_heads
    expected = 2 * config.num_hidden_layers * width * SHORT["batch_size"] * 48 * 4
    assert expected <= found.cache <= 1.1 * expected


@pytest.mark.parametrize("settings", [{}, {"compute_dtype": "bfloat16"}])
def test_recomputing_layers_keeps_less(settings: dict[str, str]) -> None:
    config = tiny("qwen3", 512).config
    kept = [estimate_memory(config, gradient_checkpointing=on, **settings, **SHORT).kept for on in (False, True)]
    assert kept[1] < kept[0] / 2


def test_what_fits_leaves_something_over() -> None:
    found = estimate_memory(tiny("llama", 512).config, **SHORT)
    gib = found.total / 2**30
    assert not found.fits(gib) and found.fits(1.2 * gib)
    assert "the most" in str(found)


def test_lengths_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ValueError, match="episode_tokens=20"):
        estimate_memory(tiny("llama", 512).config, episode_tokens=20, **SHORT)


@pytest.mark.slow
@pytest.mark.parametrize("way", ["as it is", "gradient checkpointing"])
def test_a_measured_update_stays_within_twice_what_was_foretold(way: str) -> None:
    command = [sys.executable, "benchmarks/causal_lm_memory.py", "--cell", "nano", way]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT, env=environment)
    measured = json.loads(done.stdout.splitlines()[-1])["bytes"]
    config = LlamaConfig(
        vocab_size=2048,
        hidden_size=192,
        intermediate_size=512,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        tie_word_embeddings=True,
    )
    found = estimate_memory(
        config,
        gradient_checkpointing=way != "as it is",
        microbatch=4,
        prompt_tokens=256,
        answer_tokens=256,
        batch_size=1,
    )
    assert 0.5 < measured / (found.update - found.moments) < 2
