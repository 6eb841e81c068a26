"""The tiny language model of the policies' tests."""

from __future__ import annotations

from tests.policies.conftest import policy, tokenizer

__all__ = ["policy", "tokenizer"]
