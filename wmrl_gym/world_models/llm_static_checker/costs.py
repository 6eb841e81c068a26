"""What asking a language model costs: tokens, seconds, and answers that were of no use; question by question."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from wmrl_gym.engines.engine import Answer


@dataclasses.dataclass
class Costs:
    """Running totals. Tokens are None until an engine has told any; remembered answers cost none."""

    answers: int = 0
    """Answers asked for."""
    unserved: int = 0
    """Of these, how many the engine did not give."""
    answers_from_cache: int = 0
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    generated_tokens: int | None = None
    uncounted_answers: int = 0
    """Answers whose tokens the engine did not tell: where this is not 0, the sums are too small."""
    seconds: float = 0.0
    cut_off: int = 0
    """Answers that reached the limit of tokens."""
    repaired: int = 0
    """Answers that were understood, although they were not what was asked for."""
    retries: int = 0
    """Answers asked for a second time."""
    abstentions: int = 0
    """Questions that were left without a usable answer."""

    def count(self, answer: Answer) -> None:
        """Add what one answer cost."""
        self.answers += 1
        self.seconds += answer.seconds
        self.unserved += answer.text is None
        self.cut_off += answer.text is not None and not answer.finished
        self.answers_from_cache += answer.from_cache
        if answer.from_cache or answer.text is None:
            return
        self.uncounted_answers += answer.generated_tokens is None
        for name in ("prompt_tokens", "cached_tokens", "generated_tokens"):
            setattr(self, name, _add(getattr(self, name), getattr(answer, name)))


def total(parts: Sequence[Costs]) -> Costs:
    """The sum."""
    result = Costs()
    for field in dataclasses.fields(Costs):
        for part in parts:
            setattr(result, field.name, _add(getattr(result, field.name), getattr(part, field.name)))
    return result


def since(now: Mapping[str, Any], before: Mapping[str, Any]) -> dict[str, float | None]:
    """Differences of two flat records of running totals; None where nothing is known now."""
    return {key: None if value is None else value - (before.get(key) or 0) for key, value in now.items()}


def _add(known: Any, more: Any) -> Any:
    if known is None or more is None:
        return more if known is None else known
    return known + more
