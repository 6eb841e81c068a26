"""The causal language model policy: what is sampled, what is learned from, and that both agree."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import torch

from tests.policies.conftest import tiny_model
from wmrl_gym.core import Decision
from wmrl_gym.engines.packing import pack, whole_sequence
from wmrl_gym.policies.causal_lm import CausalLMPolicy
from wmrl_gym.policies.causal_lm_loading import add_lora, load_causal_lm

OBSERVATIONS = ["short", "a much longer observation about columns", "short", "x"]


def two_turns(policy: CausalLMPolicy, seed: int = 0, temperature: float = 1.0) -> tuple[list[Decision], list[Decision]]:
    count = len(OBSERVATIONS)
    first = policy.act(
        OBSERVATIONS,
        histories=[()] * count,
        seeds=[(seed, i, 0) for i in range(count)],
        temperature=temperature,
    )
    second = policy.act(
        [f"feedback {i}" for i in range(count)],
        histories=[(decision,) for decision in first],
        seeds=[(seed, i, 1) for i in range(count)],
        temperature=temperature,
    )
    return first, second


@pytest.mark.parametrize("temperature", [1.0, 0.6])
def test_log_probs_equal_behaviour_log_probs_at_unchanged_weights(policy: CausalLMPolicy, temperature: float) -> None:
    first, second = two_turns(policy, temperature=temperature)
    decisions = [first[0], second[1], second[0], first[1], second[2], first[2]]  # any order, one chain incomplete
    log_probs, _, mask = policy.log_probs(decisions, temperature=temperature)
    for row, decision in enumerate(decisions):
        count = len(decision.token_ids)
        assert mask[row].sum() == count and mask[row, :count].all()
        np.testing.assert_allclose(log_probs[row, :count].detach(), decision.log_probs, atol=1e-4)
        assert (log_probs[row, count:] == 0).all()


def test_log_probs_equal_a_plain_forward_pass_over_each_decision_alone(policy: CausalLMPolicy) -> None:
    first, second = two_turns(policy)
    log_probs, entropy, _ = policy.log_probs([*first, *second])
    for row, decision in enumerate([*first, *second]):
        ids = torch.from_numpy(whole_sequence(decision))[None]
        with torch.no_grad():
            table = policy.model(input_ids=ids).logits[0, len(decision.prompt_ids) - 1 : -1].log_softmax(-1)
        count = len(decision.token_ids)
        expected = table.gather(-1, torch.from_numpy(decision.token_ids)[:, None])[:, 0]
        torch.testing.assert_close(log_probs[row, :count].detach(), expected, atol=1e-4, rtol=0)
        torch.testing.assert_close(entropy[row, :count].detach(), -(table.exp() * table).sum(-1), atol=1e-4, rtol=0)


def test_gradient_equals_that_of_unpacked_forward_passes(policy: CausalLMPolicy) -> None:
    first, second = two_turns(policy)
    decisions = [*first, *second]
    log_probs, _, _ = policy.log_probs(decisions)
    log_probs.sum().backward()
    packed = [parameter.grad.clone() for parameter in policy.parameters()]
    policy.model.zero_grad()
    for decision in decisions:
        ids = torch.from_numpy(whole_sequence(decision))[None]
        table = policy.model(input_ids=ids).logits[0, len(decision.prompt_ids) - 1 : -1].log_softmax(-1)
        table.gather(-1, torch.from_numpy(decision.token_ids)[:, None]).sum().backward()
    for got, parameter in zip(packed, policy.parameters(), strict=True):
        torch.testing.assert_close(got, parameter.grad, atol=2e-3, rtol=1e-3)


def test_a_decision_depends_on_its_own_seed_and_not_on_the_batch(policy: CausalLMPolicy) -> None:
    together, _ = two_turns(policy, seed=3)
    for i in (2, 0, 3):
        alone = policy.act([OBSERVATIONS[i]], histories=[()], seeds=[(3, i, 0)])[0]
        np.testing.assert_array_equal(alone.token_ids, together[i].token_ids)
        np.testing.assert_allclose(alone.log_probs, together[i].log_probs, atol=1e-4)
    policy.batch_size = 3
    chunked, _ = two_turns(policy, seed=3)
    for one, other in zip(together, chunked, strict=True):
        np.testing.assert_array_equal(one.token_ids, other.token_ids)
    assert not np.array_equal(together[0].token_ids, together[2].token_ids)  # same prompt, other stream


def test_rows_that_end_early_leave_the_others_unchanged(tokenizer: Any) -> None:
    model = tiny_model(tokenizer)
    count = 24
    seeds = [(9, i) for i in range(count)]
    short = CausalLMPolicy(model, tokenizer, max_new_tokens=40)
    # Every fifth token ends a turn here, so that the batch is compacted again and again.
    object.__setattr__(short.conversation, "stop_ids", tuple(range(0, len(tokenizer), 5)))
    batch = short.act(["go"] * count, histories=[()] * count, seeds=seeds)
    lengths = [len(decision.token_ids) for decision in batch]
    assert len(set(lengths)) > 4
    for decision, seed in zip(batch, seeds, strict=True):
        alone = short.act(["go"], histories=[()], seeds=[seed])[0]
        np.testing.assert_array_equal(decision.token_ids, alone.token_ids)


def test_sampled_frequencies_follow_the_model(policy: CausalLMPolicy) -> None:
    policy.max_new_tokens = 1
    count = 4000
    decisions = policy.act(["abc"] * count, histories=[()] * count, seeds=[(1, i) for i in range(count)])
    with torch.no_grad():
        ids = torch.from_numpy(decisions[0].prompt_ids)[None]
        probabilities = policy.model(input_ids=ids).logits[0, -1].softmax(-1).numpy()
    frequencies = np.bincount([decision.token_ids[0] for decision in decisions], minlength=len(probabilities)) / count
    assert np.abs(frequencies - probabilities).max() < 4 * 0.5 / np.sqrt(count)


def test_temperature_zero_takes_the_likeliest_token(policy: CausalLMPolicy) -> None:
    decision = policy.act(["abc"], histories=[()], seeds=[(0,)], temperature=0.0)[0]
    with torch.no_grad():
        logits = policy.model(input_ids=torch.from_numpy(whole_sequence(decision))[None]).logits[0]
    expected = logits[len(decision.prompt_ids) - 1 : -1].argmax(-1).numpy()
    np.testing.assert_array_equal(decision.token_ids, expected)


@pytest.mark.parametrize("chat", [True, False])
def test_a_later_prompt_extends_the_earlier_one_token_by_token(tokenizer: Any, chat: bool) -> None:
    policy = CausalLMPolicy(tiny_model(tokenizer), tokenizer, max_new_tokens=8, chat=chat)
    first, second = two_turns(policy)
    for before, after in zip(first, second, strict=True):
        whole = whole_sequence(before)
        np.testing.assert_array_equal(after.prompt_ids[: len(whole)], whole)
        rest = tokenizer.decode(after.prompt_ids[len(whole) :].tolist())
        assert "feedback" in rest
        if chat:
            assert rest.endswith("<|im_start|>assistant\n")
    packed = pack([*second, *first])
    assert sorted(len(sequence.members) for sequence in packed) == [2] * len(OBSERVATIONS)


def test_chat_prompt_of_two_turns_is_what_the_template_renders(policy: CausalLMPolicy, tokenizer: Any) -> None:
    end = tokenizer.eos_token_id
    for tail, finished in (([end], True), ([], False)):
        answer = np.asarray([*tokenizer("fine", add_special_tokens=False)["input_ids"], *tail], np.int64)
        opening = policy.prompt_ids("hello", ())
        before = Decision("hello", "fine", opening, answer, np.zeros(len(answer), np.float32), finished)
        messages = [
            {"role": "user", "content": "hello"},
            {"role": "assistant", "content": "fine"},
            {"role": "user", "content": "more"},
        ]
        expected = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        assert tokenizer.decode(policy.prompt_ids("more", (before,)).tolist()) == expected


def test_identical_trajectories_are_packed_apart(policy: CausalLMPolicy) -> None:
    first, second = two_turns(policy)
    packed = pack([first[0], first[0], second[0], second[0]])
    assert [sequence.members for sequence in packed] in ([(0, 2), (1, 3)], [(0, 3), (1, 2)])


def test_frozen_copy_keeps_its_weights(policy: CausalLMPolicy) -> None:
    frozen = policy.frozen_copy()
    first, _ = two_turns(policy)
    before = frozen.log_probs(first)[0].detach().clone()
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter.add_(0.1)
    torch.testing.assert_close(frozen.log_probs(first)[0], before)
    assert not list(frozen.parameters())
    assert (policy.log_probs(first)[0] - before).abs().max() > 1e-2


def test_state_and_checkpoint_round_trip(policy: CausalLMPolicy, tokenizer: Any, tmp_path: Any) -> None:
    first, _ = two_turns(policy)
    policy.save_pretrained(tmp_path)
    loaded = load_causal_lm(tmp_path, 24, local_files_only=True)
    torch.testing.assert_close(loaded.log_probs(first)[0], policy.log_probs(first)[0])
    other = CausalLMPolicy(tiny_model(tokenizer, seed=5), tokenizer, 24)
    other.load_state_dict(policy.state_dict())
    torch.testing.assert_close(other.log_probs(first)[0], policy.log_probs(first)[0])


def test_lora_trains_only_the_adapter_and_restores_it(policy: CausalLMPolicy, tmp_path: Any) -> None:
    pytest.importorskip("peft")
    policy.save_pretrained(tmp_path)
    adapted = load_causal_lm(tmp_path, 24, lora_rank=2, local_files_only=True)
    first, _ = two_turns(policy)
    log_probs, _, _ = adapted.log_probs(first)
    torch.testing.assert_close(log_probs, policy.log_probs(first)[0], atol=1e-5, rtol=0)  # a new adapter is a no-op
    optimizer = torch.optim.SGD(adapted.parameters(), lr=1.0)
    log_probs.sum().backward()
    optimizer.step()
    changed = adapted.log_probs(first)[0].detach()
    assert (changed - log_probs).abs().max() > 1e-3
    assert all("lora" in name for name in adapted.state_dict())
    restored = load_causal_lm(tmp_path, 24, lora_rank=2, local_files_only=True)
    restored.load_state_dict(adapted.state_dict())
    torch.testing.assert_close(restored.log_probs(first)[0].detach(), changed)
    decision = adapted.act(["abc"], histories=[()], seeds=[(0,)])[0]
    np.testing.assert_allclose(adapted.log_probs([decision])[0][0].detach(), decision.log_probs, atol=1e-4)


def test_weights_that_are_not_the_adapters_are_refused(tokenizer: Any) -> None:
    """Peft takes any names and overlooks those that it does not know: the policy would go on untrained."""
    pytest.importorskip("peft")
    whole = CausalLMPolicy(tiny_model(tokenizer), tokenizer, 8)
    adapted = CausalLMPolicy(add_lora(tiny_model(tokenizer), 2), tokenizer, 8)
    one = dict(list(adapted.state_dict().items())[:1])
    for state in (whole.state_dict(), {}, one):
        with pytest.raises(ValueError, match="not the weights of the policy's adapter"):
            adapted.load_state_dict(state)
    adapted.load_state_dict(adapted.state_dict())


def test_a_policy_that_may_say_nothing_is_refused(tokenizer: Any) -> None:
    with pytest.raises(ValueError, match="max_new_tokens is 0"):
        CausalLMPolicy(tiny_model(tokenizer), tokenizer, 0)


def test_a_prompt_without_room_ends_its_own_episode_and_shortens_no_neighbour(policy: CausalLMPolicy) -> None:
    alone = policy.act(["short"], histories=[()], seeds=[(0,)])[0]
    observations = ["word " * 600, "short", "word " * 98]
    long, short, nearly = policy.act(observations, histories=[()] * 3, seeds=[(1,), (0,), (2,)])
    assert long.gives_up is not None and "leaves no room" in long.gives_up and not len(long.token_ids)
    assert short.gives_up is None and short.token_ids.tolist() == alone.token_ids.tolist()
    assert policy.context_length is not None
    assert 0 < len(nearly.token_ids) <= policy.context_length - len(nearly.prompt_ids) < policy.max_new_tokens


def test_missing_chat_template_is_named(tokenizer: Any) -> None:
    import copy

    bare = copy.deepcopy(tokenizer)
    bare.chat_template = None
    with pytest.raises(ValueError, match="chat=False"):
        CausalLMPolicy(tiny_model(tokenizer), bare)


def test_importing_policies_loads_no_torch() -> None:
    code = "import sys, wmrl_gym.policies; assert not {'torch', 'transformers', 'pandas'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
