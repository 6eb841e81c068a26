"""JSON schemas as grammars that a model's next token must obey."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

_LAYOUT: Any = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
"""One layout only, that of `json.dumps`: a small model that may write white space writes nothing else."""


class JSONGrammars:
    """Compiles schemas for one tokenizer, each once.

    Args:
        tokenizer: a fast Hugging Face tokenizer.
        vocabulary: width of the model's logits, at least the tokenizer's size.
        stop_ids: tokens that end an answer.

    Raises:
        ImportError: if `llguidance` is missing.
    """

    def __init__(self, tokenizer: Any, vocabulary: int, stop_ids: Sequence[int]) -> None:
        try:
            from llguidance.hf import from_tokenizer
        except ImportError as error:
            raise ImportError(
                "answers with a JSON schema need the package 'llguidance': pip install 'wmrl-gym[llm]'"
            ) from error
        self._tokenizer = from_tokenizer(tokenizer, n_vocab=max(vocabulary, len(tokenizer)), eos_token=list(stop_ids))
        self._compiled: dict[str, Any] = {}

    def start(self, schema: Mapping[str, Any]) -> GrammarState:
        """The state before the first token of an answer.

        Raises:
            ValueError: if the schema is wrong, or says something that cannot be enforced.
        """
        from llguidance import LLMatcher

        key = json.dumps(schema, default=dict)  # the order of properties is the order in which they are written
        if key not in self._compiled:
            matcher = LLMatcher(
                self._tokenizer, LLMatcher.grammar_from_json_schema(key, overrides=_LAYOUT), log_level=0
            )
            if matcher.is_error():
                raise ValueError(f"the JSON schema cannot be enforced: {matcher.get_error().splitlines()[0]}")
            self._compiled[key] = matcher
        return GrammarState(self._compiled[key].deep_copy())


class GrammarState:
    """How far one answer has come in its grammar."""

    def __init__(self, matcher: Any) -> None:
        self._matcher = matcher

    def copy(self) -> GrammarState:
        """An independent state at the same place."""
        return GrammarState(self._matcher.deep_copy())

    def allowed(self, vocabulary: int) -> NDArray[np.bool_]:
        """Which tokens may come next, shape (vocabulary,)."""
        bits = np.frombuffer(self._matcher.compute_bitmask(), np.uint8)
        table = np.unpackbits(bits, bitorder="little").astype(bool)
        if len(table) >= vocabulary:
            return table[:vocabulary]
        return np.pad(table, (0, vocabulary - len(table)))

    def advance(self, token: int) -> bool:
        """Take the chosen token; True if the answer is complete and nothing may follow.

        Raises:
            RuntimeError: if the grammar does not know the token, which the mask should have ruled out.
        """
        if not self._matcher.consume_token(token):
            raise RuntimeError(f"token {token} breaks the grammar: {self._matcher.get_error()}")
        return bool(self._matcher.is_stopped())
