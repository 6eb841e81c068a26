"""The loss and its gradient against those of TRL's GRPOTrainer, on one batch of a tiny random Llama."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from wmrl_gym.algorithms.grpo import GRPOSettings, grpo_loss

from .tiny_lm import byte_tokenizer, tiny_llama

PROMPT, COMPLETION, N = 7, 9, 6
LOSS_TYPES: dict[str, dict[str, Any]] = {
    "grpo": {"aggregation": "sequence"},
    "bnpo": {"aggregation": "token"},
    "dapo": {"aggregation": "token"},
    "dr_grpo": {"aggregation": "constant", "constant_length": 16},
}


def trainer_of_trl(model: Any, tokenizer: Any, directory: Path, **settings: Any) -> Any:
    trl = pytest.importorskip("trl")
    from datasets import Dataset

    arguments = trl.GRPOConfig(
        output_dir=str(directory), per_device_train_batch_size=N, num_generations=N, max_completion_length=16,
        report_to=[], use_cpu=True, bf16=False, epsilon=0.2, epsilon_high=0.28, **settings,
    )  # fmt: skip
    model.name_or_path = model.config._name_or_path = str(directory / "model")  # where TRL looks for the reference
    model.save_pretrained(directory / "model")
    trainer = trl.GRPOTrainer(
        model=model,
        reward_funcs=lambda completions, **_: [0.0] * len(completions),
        args=arguments,
        train_dataset=Dataset.from_dict({"prompt": ["a"] * N}),
        processing_class=tokenizer,
    )
    trainer.current_gradient_accumulation_steps = 1
    return trainer


def batch(model: Any) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    lengths = torch.tensor([9, 4, 1, 7, 9, 2])
    prompt_lengths = torch.tensor([7, 3, 5, 7, 2, 6])

    def noise(scale: float) -> torch.Tensor:
        return torch.randn(N, COMPLETION, generator=generator) * scale

    inputs = {
        "prompt_ids": torch.randint(1, 250, (N, PROMPT), generator=generator),
        "prompt_mask": (torch.arange(PROMPT) >= PROMPT - prompt_lengths[:, None]).long(),
        "completion_ids": torch.randint(1, 250, (N, COMPLETION), generator=generator),
        "completion_mask": (torch.arange(COMPLETION) < lengths[:, None]).long(),
        "advantages": torch.randn(N, generator=generator),
        "num_items_in_batch": lengths.sum(),
    }
    with torch.no_grad():
        log_probs, _ = own_log_probs(model, inputs)
    # Far enough from the present policy that some tokens of either sign are clipped.
    inputs["old_per_token_logps"] = log_probs + noise(0.3)
    inputs["ref_per_token_logps"] = log_probs + noise(0.5)
    return inputs


def own_log_probs(model: Any, inputs: dict[str, torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
    ids = torch.cat([inputs["prompt_ids"], inputs["completion_ids"]], 1)
    mask = torch.cat([inputs["prompt_mask"], inputs["completion_mask"]], 1)
    logits = model(input_ids=ids, attention_mask=mask).logits[:, PROMPT - 1 : -1]
    table = torch.log_softmax(logits, -1)
    return table.gather(-1, inputs["completion_ids"][..., None])[..., 0], -(table.exp() * table).sum(-1)


def gradient_of(model: Any, loss: torch.Tensor) -> torch.Tensor:
    model.zero_grad()
    loss.backward()
    return torch.cat([parameter.grad.flatten() for parameter in model.parameters()])


# TRL advises against sequence-level ratios with token-level losses, so these are compared for "grpo" alone.
CASES = [(loss_type, beta, "token") for loss_type in LOSS_TYPES for beta in (0.0, 0.04)] + [("grpo", 0.04, "sequence")]


@pytest.mark.parametrize("unbiased", [False, True])
@pytest.mark.parametrize(("loss_type", "beta", "level"), CASES)
def test_loss_and_gradient_equal_trl(loss_type: str, beta: float, level: Any, unbiased: bool, tmp_path: Path) -> None:
    tokenizer = byte_tokenizer()
    model = tiny_llama(tokenizer)
    trainer = trainer_of_trl(model, tokenizer, tmp_path, loss_type=loss_type, beta=beta,
                             importance_sampling_level=level, use_bias_correction_kl=unbiased)  # fmt: skip
    inputs = batch(model)
    model.train()
    theirs = trainer._compute_loss(model, inputs)
    their_gradient = gradient_of(model, theirs)
    log_probs, entropy = own_log_probs(model, inputs)
    settings = GRPOSettings(
        clip_low=0.2, clip_high=0.28, kl_coefficient=beta, entropy_coefficient=0.0, importance_level=level,
        unbiased_kl_gradient=unbiased, **LOSS_TYPES[loss_type],
    )  # fmt: skip
    ours, metrics = grpo_loss(
        log_probs, inputs["old_per_token_logps"], inputs["advantages"], inputs["completion_mask"].float(), settings,
        reference_log_probs=inputs["ref_per_token_logps"], entropy=entropy,
    )  # fmt: skip
    our_gradient = gradient_of(model, ours)
    torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=0)
    torch.testing.assert_close(our_gradient, their_gradient, atol=1e-5, rtol=0)
    assert their_gradient.abs().max() > 1e-2  # else the comparison would say nothing
    if level == "token":
        recorded = trainer._metrics["train"]
        assert metrics["clip_fraction"] == pytest.approx(recorded["clip_ratio/region_mean"][-1], abs=1e-5)
        assert metrics["clip_fraction"] > 0.05
        assert metrics["entropy"] == pytest.approx(recorded["entropy"][-1], abs=1e-5)
        if beta and not unbiased:  # TRL logs the term as it enters the loss, we log the divergence
            assert metrics["kl"] == pytest.approx(recorded["kl"][-1], abs=1e-5)


def test_entropy_bonus_equals_trl(tmp_path: Path) -> None:
    tokenizer = byte_tokenizer()
    model = tiny_llama(tokenizer)
    trainer = trainer_of_trl(model, tokenizer, tmp_path, loss_type="bnpo", beta=0.04, entropy_coef=0.1,
                             use_bias_correction_kl=False)  # fmt: skip
    inputs = batch(model)
    model.train()
    theirs = trainer._compute_loss(model, inputs)
    their_gradient = gradient_of(model, theirs)
    log_probs, entropy = own_log_probs(model, inputs)
    ours, _ = grpo_loss(
        log_probs, inputs["old_per_token_logps"], inputs["advantages"], inputs["completion_mask"].float(),
        GRPOSettings(clip_high=0.28, aggregation="token", entropy_coefficient=0.1),
        reference_log_probs=inputs["ref_per_token_logps"], entropy=entropy,
    )  # fmt: skip
    torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=0)
    torch.testing.assert_close(gradient_of(model, ours), their_gradient, atol=1e-5, rtol=0)
