"""Rollouts through vLLM. The real ones need an environment of their own: docs/engines.md tells how to run them."""

from __future__ import annotations

import importlib.util
import itertools
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from tests.policies.conftest import tiny_model
from wmrl_gym.algorithms.grpo import GRPOSettings
from wmrl_gym.algorithms.policy_update import PolicyUpdate
from wmrl_gym.core import Decision, Trajectory, Turn
from wmrl_gym.engines.engine import Message, Prompt, Sampling
from wmrl_gym.engines.vllm_engine import VLLMEngine
from wmrl_gym.policies.causal_lm import CausalLMPolicy
from wmrl_gym.policies.causal_lm_loading import add_lora, load_causal_lm
from wmrl_gym.policies.vllm_rollout import VLLMPolicy, load_vllm_policy

missing = importlib.util.find_spec("vllm") is None
SETTINGS: dict[str, Any] = {"system_prompt": "You write letters.", "context_length": 400}
ASKED = ["write about ducks", "write about geese", "write about ducks", "x = 1; " * 20]


def test_construction_loads_no_vllm(tokenizer: Any) -> None:
    before = set(sys.modules)  # other tests may have loaded it
    policy = VLLMPolicy(tiny_model(tokenizer), tokenizer, 8, engine=VLLMEngine("/nowhere"), **SETTINGS)
    assert policy.pushes == 0 and "vllm" not in set(sys.modules) - before
    decisions = CausalLMPolicy(tiny_model(tokenizer), tokenizer, 8).act(["a"], histories=[[]], seeds=[(0,)])
    assert policy.log_probs(decisions)[0].requires_grad, "learning needs no engine"


@pytest.mark.skipif(not missing, reason="vLLM is installed")
def test_without_vllm_the_error_names_the_way_out_before_anything_is_loaded(tokenizer: Any) -> None:
    with pytest.raises(ImportError, match=r"docs/engines\.md.*policy=causal_lm"):
        load_vllm_policy("/nowhere")
    policy = VLLMPolicy(tiny_model(tokenizer), tokenizer, 8, engine=VLLMEngine("/nowhere"))
    with pytest.raises(ImportError, match=r"docs/engines\.md"):
        policy.act(["a"], histories=[[]], seeds=[(0,)])


@pytest.mark.parametrize(("mode", "lora", "temperature", "message"), [
    ("raw_logprobs", None, 0.7, "logprobs_mode='processed_logprobs'"),
    ("raw_logits", None, 1.0, "logprobs_mode='processed_logprobs'"),
    ("processed_logprobs", None, 0.7, "enable_lora=True, max_lora_rank=8"),
])  # fmt: skip
def test_an_engine_that_does_not_fit_is_refused(
    tokenizer: Any, mode: str, lora: Any, temperature: float, message: str
) -> None:
    model_config = SimpleNamespace(logprobs_mode=mode, max_model_len=400)
    config = SimpleNamespace(model_config=model_config, lora_config=lora)
    llm = SimpleNamespace(llm_engine=SimpleNamespace(vllm_config=config))
    model = add_lora(tiny_model(tokenizer), 3)
    policy = VLLMPolicy(model, tokenizer, 8, engine=VLLMEngine("m", llm=llm))
    with pytest.raises(ValueError, match=message):
        policy.act(["a"], histories=[[]], seeds=[(0,)], temperature=temperature)


@pytest.mark.parametrize("home", [False, True])
def test_an_adapter_is_trained_further_above_the_model_that_vllm_loads(
    tokenizer: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, home: bool
) -> None:
    base, folder = tmp_path / "base", tmp_path / "adapter"
    tiny_model(tokenizer).save_pretrained(base)
    tokenizer.save_pretrained(base)
    load_causal_lm(base, 8, lora_rank=3).save_pretrained(folder)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: name)  # nothing of vLLM is needed to make the policy
    policy = load_vllm_policy("~/adapter" if home else folder, 8)
    assert policy.engine.path == str(base)
    assert policy.engine.settings["enable_lora"] and policy.engine.settings["max_lora_rank"] == 8
    whole = load_vllm_policy("~/base" if home else base, 8)
    assert whole.engine.path == str(base) and "enable_lora" not in whole.engine.settings
    # Below an adapter the weights may be in half precision.
    load_vllm_policy.check_arguments("~/adapter" if home else folder, dtype="bfloat16", training=True)


def test_a_prompt_too_long_for_vllm_alone_is_told_with_its_limit(tokenizer: Any) -> None:
    config = SimpleNamespace(model_config=SimpleNamespace(max_model_len=16))
    llm = SimpleNamespace(llm_engine=SimpleNamespace(vllm_config=config))
    policy = VLLMPolicy(tiny_model(tokenizer), tokenizer, 8, engine=VLLMEngine("m", llm=llm), context_length=400)
    decision = policy.act(["x" * 100], histories=[[]], seeds=[(0,)])[0]
    assert decision.gives_up is not None and decision.gives_up.endswith("in a context of 16")


def test_a_frozen_copy_needs_no_engine_and_keeps_its_weights(tokenizer: Any) -> None:
    policy = VLLMPolicy(tiny_model(tokenizer), tokenizer, 8, engine=VLLMEngine("/nowhere"), **SETTINGS)
    frozen = policy.frozen_copy()
    plain = CausalLMPolicy(tiny_model(tokenizer), tokenizer, 8, **SETTINGS)
    change(policy.model)
    ours, theirs = (p.act(ASKED, histories=[[]] * 4, seeds=[(i,) for i in range(4)]) for p in (frozen, plain))
    assert [d.token_ids.tolist() for d in ours] == [d.token_ids.tolist() for d in theirs]
    assert not any(parameter.requires_grad for parameter in frozen.model.parameters())


def change(model: Any, seed: int = 0) -> None:
    """Move everything that is trained, as an optimiser would, far enough that answers change."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.add_(torch.randn(parameter.shape, generator=generator) * 0.2)


def greedy(policy: CausalLMPolicy) -> list[Decision]:
    """Two turns of four episodes, as one list."""
    first = policy.act(ASKED, histories=[[]] * 4, seeds=[(i, 0) for i in range(4)], temperature=0)
    histories = [[decision] for decision in first]
    second = policy.act(["go on"] * 4, histories=histories, seeds=[(i, 1) for i in range(4)], temperature=0)
    return [*first, *second]


def tokens(decisions: Sequence[Decision]) -> list[list[int]]:
    return [decision.token_ids.tolist() for decision in decisions]


def assert_same(ours: Sequence[Decision], theirs: Sequence[Decision]) -> None:
    for one, other in zip(ours, theirs, strict=True):
        assert one.prompt_ids.tolist() == other.prompt_ids.tolist()
        assert one.token_ids.tolist() == other.token_ids.tolist() and one.token_ids.dtype == np.int64
        assert (one.action, one.finished) == (other.action, other.finished)
        np.testing.assert_allclose(one.log_probs, other.log_probs, atol=1e-3)


@pytest.fixture(scope="module")
def directory(tokenizer: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tiny")
    # Heads as wide as vLLM's attention kernels want them.
    tiny_model(tokenizer, head_dim=64).save_pretrained(path)
    tokenizer.save_pretrained(path)
    return path


@pytest.fixture(scope="module")
def engine(directory: Path) -> Iterator[VLLMEngine]:
    served = VLLMEngine(
        directory,
        dtype="float32",
        max_model_len=400,
        enforce_eager=True,
        block_size=32,  # the smallest that vLLM can do on a CPU
        kv_cache_memory_bytes=2**28,
        # vLLM's CPU build dies of seeds where it reads a prompt in pieces, so it must not.
        enable_chunked_prefill=False,
        max_num_batched_tokens=400,
        logprobs_mode="processed_logprobs",
        enable_lora=True,
        max_lora_rank=8,
    )
    yield served
    served.close()


@pytest.fixture
def model(tokenizer: Any) -> Any:
    return tiny_model(tokenizer, head_dim=64)


@pytest.mark.vllm
@pytest.mark.skipif(missing, reason="vLLM is not installed here; docs/engines.md tells how to run these")
class TestRealEngine:
    def test_greedy_decisions_are_those_of_the_plain_policy(
        self, engine: VLLMEngine, model: Any, tokenizer: Any
    ) -> None:
        ours = VLLMPolicy(model, tokenizer, 24, engine=engine, **SETTINGS)
        theirs = CausalLMPolicy(model, tokenizer, 24, **SETTINGS)
        assert_same(greedy(ours), greedy(theirs))
        assert ours.pushes == 1, "unchanged weights are not handed over again"

    def test_sampled_decisions_keep_to_their_seed_and_their_log_probs_are_the_trainer_s(
        self, engine: VLLMEngine, model: Any, tokenizer: Any
    ) -> None:
        policy = VLLMPolicy(model, tokenizer, 40, engine=engine, **SETTINGS)
        seeds = [(i % 3,) for i in range(24)]
        decisions = policy.act(["ducks"] * 24, histories=[[]] * 24, seeds=seeds, temperature=0.7)
        again = policy.act(["ducks"] * 5, histories=[[]] * 5, seeds=seeds[:5], temperature=0.7)
        assert tokens(again) == tokens(decisions[:5]) == tokens(decisions[3:8])
        assert len({tuple(row) for row in tokens(decisions)}) == 3
        different = policy.act(["ducks"] * 64, histories=[[]] * 64, seeds=[(1, i) for i in range(64)], temperature=0.7)
        log_probs, _, mask = policy.log_probs(different, temperature=0.7)
        behaviour = np.concatenate([decision.log_probs for decision in different])
        np.testing.assert_allclose(behaviour, log_probs[mask.bool()].detach().numpy(), atol=1e-3)
        # Ended ones hold the token that ended them; and some are cut, so that both kinds were seen.
        stop = policy.conversation.stop_ids
        assert all((int(decision.token_ids[-1]) in stop) == decision.finished for decision in different)
        assert {decision.finished for decision in different} == {True, False}
        assert all(len(decision.token_ids) == 40 for decision in different if not decision.finished)

    def test_long_prompts_with_seeds_are_answered_where_prompts_are_read_in_one_piece(
        self, engine: VLLMEngine, model: Any, tokenizer: Any
    ) -> None:
        policy = VLLMPolicy(model, tokenizer, 8, engine=engine)
        asked = [f"{i} " + "b" * 250 for i in range(6)]  # together four times as much as vLLM takes at once
        decisions = policy.act(asked, histories=[[]] * 6, seeds=[(i,) for i in range(6)])
        assert tokens(policy.act(asked[3:], histories=[[]] * 3, seeds=[(3,), (4,), (5,)])) == tokens(decisions[3:])

    def test_a_prompt_without_room_is_refused_and_the_next_is_answered(
        self, engine: VLLMEngine, model: Any, tokenizer: Any
    ) -> None:
        policy = VLLMPolicy(model, tokenizer, 8, engine=engine, context_length=512)
        refused = policy.act(["b" * 450], histories=[[]], seeds=[(0,)])[0]
        assert refused.gives_up is not None and refused.gives_up.endswith("in a context of 400")
        assert len(policy.act(["b"], histories=[[]], seeds=[(0,)])[0].token_ids)

    def test_an_adapter_goes_with_the_policy_after_each_update_and_with_nobody_else(
        self, engine: VLLMEngine, model: Any, tokenizer: Any
    ) -> None:
        pytest.importorskip("peft")
        judge = [Prompt((Message("user", f"is {text} good?"),)) for text in ASKED]
        sampling = Sampling(temperature=0, max_tokens=12)
        # Other tests' agents, which learned all weights, have been here: the engine itself is no judge any more.
        backbone = VLLMEngine(engine.path, llm=engine.llm)
        verdicts = [answer.text for answer in backbone.generate(judge, sampling)]
        adapted = add_lora(model, 5)
        policy, plain = VLLMPolicy(adapted, tokenizer, 24, engine=engine), CausalLMPolicy(adapted, tokenizer, 24)
        seen = [tokens(greedy(policy))]
        for update in range(3):
            change(adapted, update)
            assert_same(greedy(policy), greedy(plain))
            seen.append(tokens(greedy(policy)))
            assert [answer.text for answer in backbone.generate(judge, sampling)] == verdicts
        assert all(one != other for one, other in itertools.pairwise(seen))
        assert policy.pushes == 4

    def test_after_an_update_the_answers_are_those_of_the_new_weights(
        self, engine: VLLMEngine, model: Any, tokenizer: Any
    ) -> None:
        policy, plain = VLLMPolicy(model, tokenizer, 24, engine=engine), CausalLMPolicy(model, tokenizer, 24)
        start = {name: tensor.clone() for name, tensor in policy.state_dict().items()}
        settings = GRPOSettings(kl_coefficient=0.0, entropy_coefficient=0.0, mismatch_cap=2.0)
        update = PolicyUpdate(policy, None, settings, learning_rate=0.05, max_grad_norm=1.0)
        before = greedy(policy)
        for step in range(2):
            decisions = policy.act(["ducks"] * 6, histories=[[]] * 6, seeds=[(step, i) for i in range(6)])
            learnable = [
                (Trajectory((Turn(decision, None, None, None, 0.0),), None, None), advantage)
                for decision, advantage in zip(decisions, [1.0, -1.0] * 3, strict=True)
            ]
            metrics = update.update(learnable, (step,))
            assert metrics["mismatch_difference"] is not None and metrics["mismatch_difference"] < 1e-3
            assert metrics["mismatch_ratio"] == pytest.approx(1, abs=1e-3) and metrics["mismatch_truncated"] == 0
        after = greedy(policy)
        assert_same(after, greedy(plain))
        assert tokens(after) != tokens(before)
        assert policy.pushes == 3
        # What the prefix cache held of the old weights is gone, and a restored checkpoint counts as a change.
        policy.load_state_dict(start)
        assert_same(greedy(policy), before)
