"""The one protocol behind which every language model stands: prompts in, texts and their cost out.

An engine never raises for one bad prompt: what could not be answered comes back with ``text=None`` and the reason, so
that a batch of hundreds is not lost for one. Light to import: neither torch nor a network client is touched here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, runtime_checkable

Role = Literal["system", "user", "assistant"]

ShortfallReason = Literal["length", "refusal", "tool_calls", "thoughts", "context"]
"""Why a model that was asked did not give the whole text that was asked for: its limit of tokens, a refusal (its own or
a filter's), a call of tools nobody offered, thoughts and nothing after them, a conversation longer than its context."""


@dataclass(frozen=True)
class Message:
    """One message of a chat."""

    role: Role
    content: str


@dataclass(frozen=True)
class Prompt:
    """What is asked, and the shape that the answer must have.

    Prompts that begin alike should be neighbours in a batch and agree to the letter as far as they can: an engine may
    compute the common beginning once.
    """

    messages: tuple[Message, ...]
    schema: Mapping[str, Any] | None = None
    """JSON schema of the answer; None for free text."""


@dataclass(frozen=True)
class Sampling:
    """How answers are drawn; the defaults are those of the paper's world model."""

    temperature: float = 0.7
    """0 is greedy."""
    top_p: float = 0.8
    """Tokens are drawn from the likeliest that together have this probability; 1 is no limit."""
    top_k: int = 20
    """0 is no limit."""
    presence_penalty: float = 1.0
    """Taken from the logit of each token that the answer already has; 0 is none."""
    max_tokens: int = 400
    """Longest answer, in tokens; a longer one is cut off."""
    seed: int = 0
    """Equal prompts, settings and seeds give equal answers, as far as the engine can promise that."""

    def __post_init__(self) -> None:
        """Refuse numbers that cannot be sampled with."""
        if not (self.temperature >= 0 and 0 < self.top_p <= 1 and self.top_k >= 0 and self.max_tokens >= 1):
            raise ValueError(f"{self}: give temperature >= 0, 0 < top_p <= 1, top_k >= 0 and max_tokens >= 1")


@dataclass(frozen=True)
class Answer:
    """What came back for one prompt, and what it cost."""

    text: str | None
    """None if there is no answer at all (a dead server, a time-out)."""
    prompt_tokens: int | None = None
    """Tokens of the prompt, those read from a cache included; None if the engine does not say."""
    cached_tokens: int | None = None
    """Of these, how many had been computed before."""
    generated_tokens: int | None = None
    seconds: float = 0.0
    """Wall-clock seconds of the batch, divided evenly among its answers."""
    finished: bool = True
    """False if the answer was cut off at ``max_tokens``."""
    from_cache: bool = False
    """Whether the whole answer was remembered instead of generated."""
    error: str | None = None
    """Why there is no answer, or none that asking again could change."""
    reason: ShortfallReason | None = None
    """Why the model did not give the whole text, if the engine knows. There is an answer nevertheless: ``text`` is what
    there was of it, possibly ""."""


@runtime_checkable
class Engine(Protocol):
    """Serves a language model."""

    @property
    def model(self) -> str:
        """Name of the model that answers, for the record."""
        ...

    def generate(self, prompts: Sequence[Prompt], sampling: Sampling) -> list[Answer]:
        """One answer per prompt, in order. Does not raise for a prompt that cannot be answered."""
        ...

    def close(self) -> None:
        """Let go of what is held: memory, connections."""
        ...
