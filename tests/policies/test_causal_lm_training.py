"""Log-probabilities with little memory, in half precision, beside a reference, below an adapter: always the same."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers.modeling_layers import GradientCheckpointingLayer

from tests.policies.conftest import tiny_model
from tests.policies.families import save, tiny
from tests.policies.test_causal_lm import two_turns
from wmrl_gym.engines import token_log_probs
from wmrl_gym.engines.architecture import Architecture
from wmrl_gym.engines.examination import UnsupportedArchitecture
from wmrl_gym.policies.causal_lm import CausalLMPolicy
from wmrl_gym.policies.causal_lm_loading import add_lora, load_causal_lm


def gradients(policy: CausalLMPolicy, decisions: Any) -> tuple[torch.Tensor, list[torch.Tensor]]:
    policy.model.zero_grad()
    log_probs, entropy, mask = policy.log_probs(decisions)
    ((log_probs + 0.1 * entropy) * mask).sum().backward()
    return log_probs.detach(), [p.grad.clone() for p in policy.parameters() if p.grad is not None]


def assert_same(one: Any, other: Any) -> None:
    torch.testing.assert_close(one[0], other[0], atol=1e-5, rtol=1e-5)
    for a, b in zip(one[1], other[1], strict=True):
        torch.testing.assert_close(a, b, atol=2e-3, rtol=1e-3)


def test_logits_are_computed_a_part_at_a_time_and_again(
    policy: CausalLMPolicy, monkeypatch: pytest.MonkeyPatch
) -> None:
    decisions = [*two_turns(policy)[0], *two_turns(policy)[1]]
    whole = gradients(policy, decisions)
    monkeypatch.setattr(token_log_probs, "LOGITS_AT_ONCE", 10 * policy.architecture.vocabulary)
    sizes: list[int] = []
    real = Architecture.logits

    def counted(self: Architecture, model: Any, features: torch.Tensor) -> torch.Tensor:
        sizes.append(len(features))
        return real(self, model, features)

    monkeypatch.setattr(Architecture, "logits", counted)
    assert_same(gradients(policy, decisions), whole)
    tokens = sum(len(decision.token_ids) for decision in decisions)
    assert max(sizes) == 10 and sum(sizes) == 2 * tokens  # forward, and once more in the backward pass


def test_a_group_runs_its_opening_prompt_once(policy: CausalLMPolicy, monkeypatch: pytest.MonkeyPatch) -> None:
    observation = "columns and rows " * 12
    decisions = policy.act([observation] * 4, histories=[()] * 4, seeds=[(i,) for i in range(4)])
    seen: list[int] = []
    policy.model.model.register_forward_pre_hook(
        lambda module, args, given: seen.append(given["input_ids"].numel()), with_kwargs=True
    )
    policy.log_probs(decisions)
    prompt, answers = len(decisions[0].prompt_ids), sum(len(d.token_ids) - 1 for d in decisions)
    assert seen == [prompt + answers]


@pytest.mark.parametrize("family", ["llama", "gpt2", "mistral", "qwen3_5"])
def test_gradient_checkpointing_changes_nothing_but_memory(family: str, tmp_path: Path) -> None:
    """GPT-2 has dropout, which training mode would switch on."""
    save(family, tmp_path, (0,))
    plain = load_causal_lm(tmp_path, 12, chat=False)
    again = load_causal_lm(tmp_path, 12, chat=False, gradient_checkpointing=True)
    decisions = two_turns(plain)[1]
    calls: list[int] = []
    layer = next(module for module in again.model.modules() if isinstance(module, GradientCheckpointingLayer))
    next(layer.children()).register_forward_hook(lambda *_: calls.append(1))
    assert_same(gradients(again, decisions), gradients(plain, decisions))
    assert len(calls) == 2, "the layer was not computed again"


def test_matrix_products_in_half_precision_leave_the_weights_alone(tokenizer: Any) -> None:
    model = tiny_model(tokenizer)
    coarse = CausalLMPolicy(copy.deepcopy(model), tokenizer, 24, compute_dtype="bfloat16")
    precise = CausalLMPolicy(model, tokenizer, 24)
    decisions = two_turns(coarse)[0]
    log_probs, _, mask = coarse.log_probs(decisions)
    (log_probs * mask).sum().backward()
    for parameter in coarse.parameters():
        assert parameter.dtype == torch.float32
        assert parameter.grad is None or parameter.grad.dtype == torch.float32
    difference = (log_probs - precise.log_probs(decisions)[0]).abs()[mask.bool()]
    assert 0 < difference.mean() < 0.1
    for row, decision in enumerate(decisions):
        error = log_probs[row, : len(decision.token_ids)].detach().numpy() - decision.log_probs
        assert np.abs(error).mean() < 0.1


def test_a_reference_beside_an_adapter_shares_what_is_frozen_and_keeps_what_was_learned(tokenizer: Any) -> None:
    policy = CausalLMPolicy(add_lora(tiny_model(tokenizer), 2), tokenizer, 12)
    decisions = two_turns(policy)[0]
    with torch.no_grad():
        for parameter in policy.parameters():  # as if it had been trained before
            parameter.add_(0.1 * torch.randn_like(parameter))
    start = policy.log_probs(decisions)[0].detach()
    reference = policy.frozen_copy()
    own = {p.data_ptr() for p in policy.model.parameters()}
    copied = [p for p in reference.model.parameters() if p.data_ptr() not in own]
    assert sum(p.numel() for p in copied) == sum(p.numel() for p in policy.parameters())
    assert not list(reference.parameters())
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter.zero_()
    torch.testing.assert_close(reference.log_probs(decisions)[0], start)
    assert (policy.log_probs(decisions)[0] - start).abs().max() > 1e-3


def test_first_weights_of_an_adapter_are_seeded_and_leave_other_random_numbers_alone(tmp_path: Path) -> None:
    save("llama", tmp_path)
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    one, same, other = (load_causal_lm(tmp_path, chat=False, lora_rank=2, seed=seed) for seed in (3, 3, 4))
    assert torch.equal(torch.rand(1), expected)
    states = [policy.state_dict() for policy in (one, same, other)]
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])
    assert not all(torch.equal(states[0][name], states[2][name]) for name in states[0])


def test_a_given_adapter_is_trained_further_and_no_other_is_laid_over_it(tmp_path: Path) -> None:
    base, adapter = tmp_path / "base", tmp_path / "adapter"
    save("llama", base)
    first = load_causal_lm(base, 12, chat=False, lora_rank=2)
    with torch.no_grad():
        for parameter in first.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    first.save_pretrained(adapter)
    again = load_causal_lm(adapter, 12, chat=False)
    decisions = two_turns(first)[0]
    torch.testing.assert_close(again.log_probs(decisions)[0], first.log_probs(decisions)[0])
    assert sum(p.numel() for p in again.parameters()) == sum(p.numel() for p in first.parameters()) > 0
    assert all(p.dtype == torch.float32 for p in again.parameters())
    with pytest.raises(ValueError, match="lora_rank"):
        load_causal_lm(adapter, 12, chat=False, lora_rank=2)


def test_a_frozen_model_in_half_precision_bears_an_adapter_that_learns_in_single(tmp_path: Path) -> None:
    save("qwen3", tmp_path)
    policy = load_causal_lm(tmp_path, 12, chat=False, dtype="bfloat16", lora_rank=2)
    assert {p.dtype for p in policy.parameters()} == {torch.float32}
    log_probs, _, mask = policy.log_probs(two_turns(policy)[0])
    (log_probs * mask).sum().backward()
    assert any(float(p.grad.abs().max()) > 0 for p in policy.parameters() if p.grad is not None)


@pytest.mark.parametrize("family", ["llama", "mistral"])
def test_what_the_models_folder_says_of_sampling_changes_no_probability(family: str, tmp_path: Path) -> None:
    from transformers import GenerationConfig

    save(family, tmp_path, (0,))
    given = GenerationConfig(repetition_penalty=2.0, temperature=0.1, top_k=2, do_sample=True, eos_token_id=0)
    plain = load_causal_lm(tmp_path, 12, chat=False)
    given.save_pretrained(tmp_path)
    changed = load_causal_lm(tmp_path, 12, chat=False)
    for one, other in zip(two_turns(plain)[0], two_turns(changed)[0], strict=True):
        assert one.token_ids.tolist() == other.token_ids.tolist()
    assert changed.model.generation_config.repetition_penalty == 2.0


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"device": "cuda:7"}, "device is 'cuda:7'"),
        ({"dtype": "floaty"}, "'floaty' is no floating-point type"),
        ({"compute_dtype": "int8"}, "'int8' is no floating-point type"),
    ],
)
def test_what_this_machine_does_not_have_is_named(settings: dict[str, Any], text: str, tmp_path: Path) -> None:
    save("llama", tmp_path)
    with pytest.raises(ValueError, match=text):
        load_causal_lm(tmp_path, chat=False, **settings)


@pytest.mark.parametrize("way", ["ddp", "fsdp2"])
def test_a_model_wrapped_for_several_processes_is_refused_with_the_way_to_go(
    way: str, tokenizer: Any, tmp_path: Path
) -> None:
    from torch.distributed.fsdp import fully_shard
    from torch.nn.parallel import DistributedDataParallel

    store = torch.distributed.FileStore(str(tmp_path / "store"), 1)
    torch.distributed.init_process_group("gloo", rank=0, world_size=1, store=store)
    try:
        mesh = torch.distributed.device_mesh.init_device_mesh("cpu", (1,))
        model = tiny_model(tokenizer)
        wrapped = DistributedDataParallel(model) if way == "ddp" else fully_shard(model, mesh=mesh)
        with pytest.raises(UnsupportedArchitecture, match="several processes"):
            CausalLMPolicy(wrapped, tokenizer, 12)
    finally:
        torch.distributed.destroy_process_group()


def test_a_model_whose_cache_is_wrong_is_refused_by_name() -> None:
    """As with remote code that forgets its positions once there is a cache."""
    from tests.algorithms.tiny_lm import byte_tokenizer

    tokenizer = byte_tokenizer()
    model = tiny("llama", len(tokenizer))
    real = model.forward

    def forward(*args: Any, **given: Any) -> Any:
        if given.get("input_ids") is not None and given["input_ids"].shape[1] == 1:
            given["position_ids"] = torch.zeros_like(given["input_ids"])
        return real(*args, **given)

    forward.__signature__ = __import__("inspect").signature(real)  # type: ignore[attr-defined]
    model.forward = forward
    with pytest.raises(UnsupportedArchitecture, match="LlamaForCausalLM cannot act here"):
        CausalLMPolicy(model, tokenizer, 12, chat=False)
