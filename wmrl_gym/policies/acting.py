"""Policies that act and are not trained: their answers are texts, and nobody knows the probabilities of the tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from wmrl_gym.core import Decision


class NotTrainable(TypeError):
    """Training was asked of a policy that can only act."""


@dataclass(frozen=True, eq=False)
class UnansweredDecision(Decision):
    """An action that stands for no answer at all: what the agent would have done is unknown."""

    reason: str = ""
    """Why there is no answer."""


@dataclass(frozen=True, eq=False)
class IncompleteDecision(Decision):
    """An answer that is not the whole text that was asked for. Its action is the text there was, possibly ""."""

    reason: str = ""
    """Why; see `engines.engine.ShortfallReason`."""


def text_decision(observation: Any, action: str, finished: bool = True, reason: str | None = None) -> Decision:
    """A decision known by its text alone: without tokens, so that nothing can be learned from it."""
    if reason is not None:
        return IncompleteDecision(observation, action, *_no_tokens(), finished=finished, reason=reason)
    return Decision(observation, action, *_no_tokens(), finished=finished)


def unanswered(observation: Any, reason: str) -> UnansweredDecision:
    """A decision that could not be had; its action is empty."""
    return UnansweredDecision(observation, "", *_no_tokens(), finished=False, reason=reason)


def _no_tokens() -> tuple[Any, Any, Any]:
    return np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.float32)


class ActingPolicy:
    """Base of policies that only act; everything that training asks of them is refused.

    Evaluation and `wmrl evaluate` take them as they take any `core.Policy`.
    """

    trainable = False

    def log_probs(self, decisions: Sequence[Decision], *, temperature: float = 1.0) -> NoReturn:
        """Refused.

        Raises:
            NotTrainable: always.
        """
        self._refuse()

    def parameters(self) -> NoReturn:
        """Refused; see `log_probs`."""
        self._refuse()

    def state_dict(self) -> NoReturn:
        """Refused; see `log_probs`."""
        self._refuse()

    def load_state_dict(self, state: Mapping[str, Any]) -> NoReturn:
        """Refused; see `log_probs`."""
        self._refuse()

    def frozen_copy(self) -> NoReturn:
        """Refused; see `log_probs`."""
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise NotTrainable(
            f"{type(self).__name__} can act but not be trained: it has no weights here\n"
            "  evaluate it with `wmrl evaluate`; to train, choose policy=causal_lm, policy=smollm2 or policy=nano."
        )
