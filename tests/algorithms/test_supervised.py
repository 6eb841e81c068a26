"""The supervised cold start: what is learned from, and that it is learned."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.engines.chat_families import FAMILIES, family
from tests.policies.conftest import tiny_model
from wmrl_gym.algorithms.supervised import (
    SupervisedSettings,
    answer_loss,
    encode_conversation,
    fine_tune,
    learning_rate_at,
)
from wmrl_gym.core import Decision
from wmrl_gym.policies.causal_lm import CausalLMPolicy

TURNS = [("one", "first answer"), ("two", "second")]


def test_conversation_is_encoded_as_the_policy_sees_it_when_it_acts(policy: CausalLMPolicy) -> None:
    encoded = encode_conversation(policy, TURNS)
    end = policy.tokenizer.eos_token_id
    history: list[Decision] = []
    learned: list[int] = []
    for observation, answer in TURNS:
        prompt = policy.prompt_ids(observation, history)
        ids = np.asarray([*policy.tokenizer(answer, add_special_tokens=False)["input_ids"], end], np.int64)
        history.append(Decision(observation, answer, prompt, ids, np.zeros(len(ids), np.float32)))
        learned += ids.tolist()
    last = history[-1]
    np.testing.assert_array_equal(encoded.token_ids, np.concatenate([last.prompt_ids, last.token_ids]))
    np.testing.assert_array_equal(encoded.token_ids[encoded.learned], learned)


def test_loss_is_the_mean_over_answer_tokens_of_policy_log_probs(policy: CausalLMPolicy) -> None:
    batch = [encode_conversation(policy, TURNS), encode_conversation(policy, TURNS[:1])]
    loss, count = answer_loss(policy, batch)
    decisions = []
    for item in batch:
        first = int(np.flatnonzero(item.learned)[0])
        ids = item.token_ids[first:]
        decisions.append(Decision("", "", item.token_ids[:first], ids, np.zeros(len(ids), np.float32)))
    log_probs, _, _ = policy.log_probs(decisions)
    total = torch.zeros(())
    for row, item in enumerate(batch):
        tail = torch.from_numpy(item.learned[item.learned.argmax() :])
        total = total + log_probs[row, : len(tail)][tail].sum()
    torch.testing.assert_close(loss, -total / count, atol=1e-4, rtol=1e-4)


def test_answers_are_learned_and_the_same_seed_learns_the_same(policy: CausalLMPolicy) -> None:
    start = {name: value.clone() for name, value in policy.state_dict().items()}
    settings = SupervisedSettings(steps=40, batch_size=2, learning_rate=1e-2, warmup_steps=5)
    conversations = [TURNS, [("three", "third answer")]]
    history = fine_tune(policy, conversations, settings)
    assert len(history) == 40
    assert np.mean([step.loss for step in history[-5:]]) < 0.2 * history[0].loss
    policy.load_state_dict(start)
    again = fine_tune(policy, conversations, settings)
    assert [step.loss for step in again] == [step.loss for step in history]


def test_an_exhausted_iterator_ends_training_early(policy: CausalLMPolicy) -> None:
    history = fine_tune(policy, iter([TURNS] * 5), SupervisedSettings(steps=50, batch_size=2))
    assert len(history) == 3


def test_learning_rate_rises_to_the_peak_and_ends_at_its_final_share() -> None:
    settings = SupervisedSettings(steps=100, learning_rate=1.0, warmup_steps=10, final_share=0.1)
    rates = [learning_rate_at(step, settings) for step in range(101)]
    assert max(rates) == pytest.approx(1.0) and rates[9] == pytest.approx(1.0)
    assert rates[100] == pytest.approx(0.1)
    assert rates[10:] == sorted(rates[10:], reverse=True)


def test_nonsense_settings_are_refused() -> None:
    with pytest.raises(ValueError, match="batch_size"):
        SupervisedSettings(batch_size=0)


@pytest.mark.parametrize("name", ["headers", "turns", "thinking"])
def test_every_answer_is_taught_to_end_as_the_template_ends_it(name: str) -> None:
    """Also where the tokenizer's own end, which has a lower id, is another token."""
    tokenizer = family(name)
    policy = CausalLMPolicy(tiny_model(tokenizer), tokenizer, 8)
    encoded = encode_conversation(policy, TURNS)
    text = tokenizer.decode(encoded.token_ids[encoded.learned].tolist())
    closed = "</think>\n\n" if name == "thinking" else ""
    end = FAMILIES[name][4]
    assert text == "".join(f"{closed}{answer}{end}" for _, answer in TURNS)
    assert tokenizer.decode(encoded.token_ids.tolist()).count(end) == 2 * len(TURNS)
