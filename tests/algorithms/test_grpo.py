from __future__ import annotations

from typing import Any

import pytest
import torch

from wmrl_gym.algorithms.grpo import GRPOSettings, grpo_loss

N, T = 6, 5


@pytest.fixture
def batch() -> dict[str, torch.Tensor]:
    torch.manual_seed(0)
    mask = torch.ones(N, T)
    mask[0, 2:] = mask[3, 4:] = 0
    log_probs = (-torch.rand(N, T) * 3).requires_grad_()
    old = log_probs.detach() + 0.3 * torch.randn(N, T)
    reference = log_probs.detach() + 0.2 * torch.randn(N, T)
    return {
        "log_probs": log_probs,
        "old": old,
        "reference": reference,
        "advantages": torch.randn(N),
        "mask": mask,
        "entropy": torch.rand(N, T),
    }


def loss_of(batch: dict[str, torch.Tensor], settings: GRPOSettings, rows: slice = slice(None), **counts: int) -> Any:
    return grpo_loss(
        batch["log_probs"][rows],
        batch["old"][rows],
        batch["advantages"][rows],
        batch["mask"][rows],
        settings,
        reference_log_probs=batch["reference"][rows],
        entropy=batch["entropy"][rows],
        **counts,
    )[0]


@pytest.mark.parametrize("aggregation", ["sequence", "token"])
def test_parts_of_a_batch_add_up_to_the_whole(batch: dict[str, torch.Tensor], aggregation: Any) -> None:
    settings = GRPOSettings(aggregation=aggregation)
    whole = loss_of(batch, settings)
    counts = {"n_sequences": N, "n_tokens": int(batch["mask"].sum())}
    parts = sum(loss_of(batch, settings, rows, **counts) for rows in (slice(0, 2), slice(2, 6)))
    torch.testing.assert_close(parts, whole)


def test_a_group_weight_on_the_advantage_is_exact_through_clipping(batch: dict[str, torch.Tensor]) -> None:
    settings = GRPOSettings(kl_coefficient=0.0, entropy_coefficient=0.0)
    plain = loss_of(batch, settings)
    batch["advantages"] = 3.0 * batch["advantages"]
    torch.testing.assert_close(loss_of(batch, settings), 3.0 * plain)


def test_padding_has_no_influence(batch: dict[str, torch.Tensor]) -> None:
    before = loss_of(batch, GRPOSettings())
    for name in ("old", "reference", "entropy"):
        batch[name] = torch.where(batch["mask"].bool(), batch[name], torch.tensor(7.0))
    torch.testing.assert_close(loss_of(batch, GRPOSettings()), before)


def test_kl_without_reference_is_refused(batch: dict[str, torch.Tensor]) -> None:
    with pytest.raises(ValueError, match="reference_log_probs"):
        grpo_loss(batch["log_probs"], batch["old"], batch["advantages"], batch["mask"], GRPOSettings())


@pytest.mark.parametrize(("loss_type", "aggregation"), [("grpo", "sequence"), ("bnpo", "token")])
@pytest.mark.parametrize("level", ["token", "sequence"])
def test_loss_and_gradient_equal_trl(loss_type: str, aggregation: Any, level: Any, tmp_path: Any) -> None:
    """The very method of TRL's trainer, on a tiny Llama."""
    trl = pytest.importorskip("trl")
    from datasets import Dataset
    from tokenizers import Tokenizer, models
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    vocabulary = {f"t{i}": i for i in range(32)}
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer(models.WordLevel(vocabulary, unk_token="t0")), eos_token="t1", pad_token="t0"
    )
    torch.manual_seed(1)
    config = LlamaConfig(
        vocab_size=32,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        initializer_range=0.5,
        eos_token_id=1,
        pad_token_id=0,
    )
    LlamaForCausalLM(config).save_pretrained(tmp_path / "model")  # the trainer asks a folder for its configuration
    model = LlamaForCausalLM.from_pretrained(tmp_path / "model")
    arguments = trl.GRPOConfig(
        output_dir=str(tmp_path),
        beta=0.1,
        loss_type=loss_type,
        importance_sampling_level=level,
        num_generations=2,
        per_device_train_batch_size=2,
        use_bias_correction_kl=False,
        use_cpu=True,
        bf16=False,
        report_to=[],
        max_completion_length=T,
    )
    trainer = trl.GRPOTrainer(
        model=model,
        args=arguments,
        reward_funcs=lambda completions, **_: [0.0] * len(completions),
        train_dataset=Dataset.from_dict({"prompt": ["t2", "t3"]}),
        processing_class=tokenizer,
    )
    model = trainer.model.eval()
    prompt, completion = torch.randint(2, 32, (N, 3)), torch.randint(2, 32, (N, T))
    mask = torch.ones(N, T, dtype=torch.long)
    mask[0, 2:] = mask[3, 4:] = 0
    tokens, attended = torch.cat([prompt, completion], 1), torch.cat([torch.ones_like(prompt), mask], 1)
    log_probs = trainer._get_per_token_logps_and_entropies(model, tokens, attended, T, compute_entropy=True)[0]
    old = log_probs.detach() + 0.3 * torch.randn(N, T)
    reference = log_probs.detach() + 0.2 * torch.randn(N, T)
    advantages = torch.randn(N)

    inputs = {
        "prompt_ids": prompt,
        "prompt_mask": torch.ones_like(prompt),
        "completion_ids": completion,
        "completion_mask": mask,
        "advantages": advantages,
        "old_per_token_logps": old,
        "ref_per_token_logps": reference,
        "num_items_in_batch": mask.sum(),
    }
    trainer.current_gradient_accumulation_steps = 1
    theirs = trainer._compute_loss(model, inputs)
    their_gradient = torch.autograd.grad(theirs, list(model.parameters()), retain_graph=False)

    settings = GRPOSettings(
        kl_coefficient=0.1, entropy_coefficient=0.0, aggregation=aggregation, importance_level=level
    )
    ours, _ = grpo_loss(log_probs, old, advantages, mask.float(), settings, reference_log_probs=reference)
    our_gradient = torch.autograd.grad(ours, list(model.parameters()))
    torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-5)
    for mine, other in zip(our_gradient, their_gradient, strict=True):
        torch.testing.assert_close(mine, other, atol=1e-5, rtol=1e-5)
    assert max(float(gradient.abs().max()) for gradient in our_gradient) > 1e-3
