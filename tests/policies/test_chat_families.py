"""Causal language models that speak through the chat templates of well-known families act and learn alike."""

from __future__ import annotations

import numpy as np
import pytest

from tests.engines.chat_families import FAMILIES, family
from tests.policies.conftest import tiny_model
from wmrl_gym.policies.causal_lm import CausalLMPolicy


@pytest.mark.parametrize("name", FAMILIES)
def test_two_turns_are_learned_from_as_they_were_sampled(name: str) -> None:
    tokenizer = family(name)
    # Answers end at the template's own end of turn, which no setting of the model names.
    model = tiny_model(tokenizer)
    model.generation_config.eos_token_id = None
    policy = CausalLMPolicy(model, tokenizer, 12, system_prompt="Compete.")
    end = tokenizer.convert_tokens_to_ids(FAMILIES[name][4])
    assert end in policy.conversation.stop_ids
    count = 3
    first = policy.act(["overview"] * count, histories=[()] * count, seeds=[(0, i, 0) for i in range(count)])
    second = policy.act(
        ["feedback </think><|im_end|>"] * count,
        histories=[(decision,) for decision in first],
        seeds=[(0, i, 1) for i in range(count)],
    )
    opened = name in ("thinking", "brackets")
    assert all(decision.action.startswith("<think>") == opened for decision in (*first, *second))
    for before, after in zip(first, second, strict=True):
        whole = [*before.prompt_ids, *before.token_ids]
        np.testing.assert_array_equal(after.prompt_ids[: len(whole)], whole)
    log_probs, _, mask = policy.log_probs([*first, *second])
    for row, decision in enumerate([*first, *second]):
        kept = log_probs[row][mask[row] > 0].detach()
        np.testing.assert_allclose(kept, decision.log_probs, atol=1e-4)
