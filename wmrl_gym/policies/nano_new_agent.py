"""The nano agent before it has learned anything, and the endless corpus it learns from."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import numpy as np

from wmrl_gym.corpus.generator.conversations import draw_conversation
from wmrl_gym.corpus.generator.facts import TaskFacts
from wmrl_gym.engines.conversation import ConversationTurns
from wmrl_gym.policies.causal_lm import CausalLMPolicy
from wmrl_gym.policies.nano import MAX_NEW_TOKENS, new_nano_model
from wmrl_gym.policies.nano_tokenizing import train_tokenizer

TOKENIZER_CONVERSATIONS = 8000


def corpus(tasks: Sequence[TaskFacts], seed: int) -> Iterator[ConversationTurns]:
    """An endless stream of conversations."""
    rng = np.random.default_rng(seed)
    while True:
        yield [(turn.observation, turn.response) for turn in draw_conversation(tasks, rng)]


def new_nano_agent(tasks: Sequence[TaskFacts], seed: int = 0) -> CausalLMPolicy:
    """A tokenizer learned from the corpus and an untrained model."""
    tokenizer = train_tokenizer(itertools.islice(corpus(tasks, seed), TOKENIZER_CONVERSATIONS))
    return CausalLMPolicy(new_nano_model(tokenizer, seed), tokenizer, MAX_NEW_TOKENS)
