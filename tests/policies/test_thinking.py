"""A thought may last only so long; then it is closed, and what closed it is not learned."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from tests.engines.chat_families import family
from tests.policies.families import tiny
from wmrl_gym.engines.conversation import Conversation
from wmrl_gym.engines.stream_sampler import StreamSampler, thought_budget
from wmrl_gym.policies.causal_lm import CausalLMPolicy


def thinker(name: str, tokens: int | None) -> CausalLMPolicy:
    tokenizer = family(name)
    end = tokenizer.convert_tokens_to_ids("<|im_end|>")
    model = tiny("qwen2", len(tokenizer), (end,))
    return CausalLMPolicy(model, tokenizer, 40, max_thinking_tokens=tokens)


def act(policy: CausalLMPolicy, count: int = 12) -> list[Any]:
    return policy.act(["think of a number"] * count, histories=[()] * count, seeds=[(i,) for i in range(count)])


def test_a_thought_that_lasts_too_long_is_closed_and_the_answer_goes_on() -> None:
    policy, free = thinker("thinking", 6), thinker("thinking", None)
    closed = 0
    for decision, unhindered in zip(act(policy), act(free), strict=True):
        ids = decision.token_ids.tolist()
        closing = policy.tokenizer("\n</think>\n\n", add_special_tokens=False)["input_ids"]
        if decision.forced is None:
            assert ids == unhindered.token_ids.tolist()
            continue
        closed += 1
        assert ids[:6] == unhindered.token_ids.tolist()[:6]
        assert ids[6 : 6 + len(closing)] == closing
        assert decision.forced.tolist() == [6 <= i < 6 + len(closing) for i in range(len(ids))]
        assert decision.action.startswith("<think>") and decision.action.count("</think>") >= 1
        assert unhindered.forced is None
    assert closed > 6
    decisions = [d for d in act(policy) if d.forced is not None]
    log_probs, _, mask = policy.log_probs(decisions)
    for row, decision in enumerate(decisions):
        assert mask[row].sum() == len(decision.token_ids) - decision.forced.sum()
        # Also the forced tokens' log-probabilities are those of the model, only not learned from.
        assert abs(float(log_probs[row, 7]) - float(decision.log_probs[7])) < 1e-3


def test_an_answer_that_does_not_think_is_left_alone() -> None:
    """This template opens no thought, and a random model hardly ever writes the tag itself."""
    decisions, free = act(thinker("hybrid", 3)), act(thinker("hybrid", None))
    alike = [a.token_ids.tolist() == b.token_ids.tolist() for a, b in zip(decisions, free, strict=True)]
    tag = family("hybrid").convert_tokens_to_ids("<think>")
    assert all(same or tag in b.token_ids[:3].tolist() for same, b in zip(alike, free, strict=True)) and any(alike)


def merging_tokenizer() -> Any:
    """Byte pairs learned from thoughts: ``.</`` is one token, and no tag is a token of its own."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=300, special_tokens=["<eos>"], initial_alphabet=alphabet)
    tokenizer.train_from_iterator(["<think>\nwe see.</think>\n\nanswer"] * 50, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<eos>")


@pytest.mark.parametrize(("text", "is_open"), [("<think>\nwe see.</think>\n\nfine", False), ("<think>\nwe see.", True)])
def test_a_thought_that_ended_is_left_alone_where_its_tags_are_joined_with_other_letters(
    text: str, is_open: bool
) -> None:
    conversation = Conversation(merging_tokenizer(), chat=False)
    written = conversation.encode(text).tolist()
    closing = conversation.encode("</think>").tolist()
    parts = [written[i : i + len(closing)] for i in range(len(written))]
    assert closing not in parts  # the tokens alone would not tell
    budget = thought_budget(conversation, len(written))
    sampler = StreamSampler([(0,)], [len(written) + 20], 1.0, [0], budget)
    for token in [*written, *[written[0]] * 20]:
        logits = torch.full((1, len(conversation.tokenizer)), -1e9)
        logits[0, token] = 0
        sampler(logits, np.array([0]))
    assert (sampler.results()[0].forced is not None) == is_open


def test_a_budget_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="max_thinking_tokens"):
        thinker("thinking", 0)
