"""Settings of the static checker: how it asks, how it judges what comes back, and what it knows of the sandbox."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from wmrl_gym.envs.mle_dojo.feedback import FeedbackStyle
from wmrl_gym.envs.mle_dojo.ladder import RewardLadder

DefaultTo = Literal["pass", "fail", "calibrated"]


@dataclass(frozen=True)
class AskingSettings:
    """How the language model is asked.

    Raises:
        ValueError: for a setting out of its range.
    """

    samples: int = 1
    """Answers per question. Of several the majority counts, and the standard deviation of the scores that each sample
    alone would give is ``details["uncertainty"]``. Costs as many times the generated tokens."""
    max_dead_batches: int = 16
    """Calls in a row that the engine answers nothing at all of before `predict` raises."""
    strip_comments: bool = True
    """Keep comments and docstrings from the model. They mean nothing to the sandbox, and are where an agent would talk
    to its judge."""
    overview_chars: int = 4000
    """Longest overview; a longer one is cut in the middle."""
    code_chars: int = 8000
    """Longest code; a longer one is cut in the middle."""

    def __post_init__(self) -> None:
        for name, least in (("samples", 1), ("max_dead_batches", 1), ("overview_chars", 500), ("code_chars", 500)):
            if getattr(self, name) < least:
                raise ValueError(f"{name} is {getattr(self, name)}: give at least {least}")


@dataclass(frozen=True)
class JudgingSettings:
    """What becomes of the answers.

    Raises:
        ValueError: for a setting out of its range.
    """

    confidence_gate: float = 0.5
    """A verdict "fail" with less confidence does not fire. The paper has such a gate and never published its
    threshold; at one half, a fault counts that the model holds likelier than not."""
    default_to: DefaultTo = "pass"
    """What an abstaining check counts as. "pass": it fails nothing. "fail": it fails the script as its check would;
    where the engine and not the model is to blame, the score is unknown instead. "calibrated": the score is the
    expectation if each abstaining check fails independently with its own running failure rate,
    (failures + 1) / (opinions + 2) over the opinions it gave until the end of the batch; status and feedback are those
    of the likeliest case. The rates are state: see `LLMStaticChecker.state_dict`."""
    max_abstentions: int = 3
    """With more checks abstaining than this (quality not counted), the score is unknown."""
    first_threshold: float = 0.9
    """How certain the world model that is heard first must be of a fault to spare the model the question."""

    def __post_init__(self) -> None:
        if self.default_to not in ("pass", "fail", "calibrated"):
            raise ValueError(f"default_to is {self.default_to!r}: choose 'pass', 'fail' or 'calibrated'")
        if not 0 <= self.confidence_gate <= 1:
            raise ValueError(f"confidence_gate is {self.confidence_gate}: give a number from 0 (every fail fires) to 1")
        if self.max_abstentions < 0:
            raise ValueError(f"max_abstentions is {self.max_abstentions}: give 0 or more")


@dataclass(frozen=True)
class JudgedEnvironment:
    """The environment whose outcomes are foretold, as far as they depend on it."""

    budget_seconds: float = 20.0
    """Wall-clock limit of the sandbox."""
    memory_mb: float = 2048.0
    """Memory limit of the sandbox."""
    ladder: RewardLadder = field(default_factory=RewardLadder)
    """Scores of the statuses."""
    feedback_chars: int = 2000
    """Length of the feedback."""
    feedback_style: FeedbackStyle | None = None
    """"full", "compact", or None to go by the length."""
