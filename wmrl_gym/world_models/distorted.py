"""A world model made worse on purpose, in ways that are known: what corrections are worth can only be measured so.

Only scores are distorted. Status and feedback stay as the wrapped world model gave them, so that an agent is told the
same in the middle of an episode and what is measured is the effect of wrong scores alone.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from wmrl_gym.core import Outcome, Submission, WorldModel, fingerprint


class DistortedWorldModel:
    """Wraps a world model and distorts its scores. The same submission is distorted the same way each time.

    With u the score's place between ``low`` and ``high`` (0 to 1), in this order:

    1. A share ``optimism`` of the submissions with a score below ``success_score`` is taken for a success: u becomes
       that of ``optimistic_score``. No map of the scores can undo this; executed groups can only tell how often it is.
    2. u becomes ``offset + gain * u ** power``: monotone, so the order stays. A power below 1 lifts low scores and
       presses high ones together, one above 1 does the reverse. This is what a monotone debiaser can undo.
    3. Normal noise of standard deviation ``noise`` is added to u.
    4. u is cut to 0 to 1 and becomes a score between ``low`` and ``high`` again.

    Unknown scores stay unknown. The undistorted score is in ``details["undistorted_score"]``.

    Implements `wmrl_gym.core.WorldModel`, and hands on what the wrapped one remembers and measures.

    Args:
        world_model: what is distorted.
        power: exponent of the monotone distortion; 1 leaves the shape.
        gain: its factor.
        offset: what is added to it.
        noise: standard deviation of the noise, in units of ``high - low``.
        optimism: share of failures that is taken for a success.
        success_score: scores below it are failures.
        optimistic_score: undistorted score that such a failure gets.
        low: lowest score.
        high: highest score.
        seed: another seed, another noise and other failures that are overlooked.

    Raises:
        ValueError: for a power or gain that would not be monotone, or another number that makes no sense.
    """

    def __init__(
        self,
        world_model: WorldModel,
        *,
        power: float = 1.0,
        gain: float = 1.0,
        offset: float = 0.0,
        noise: float = 0.0,
        optimism: float = 0.0,
        success_score: float = 0.5,
        optimistic_score: float = 0.65,
        low: float = 0.0,
        high: float = 1.0,
        seed: int = 0,
    ) -> None:
        if power <= 0 or gain <= 0:
            raise ValueError(f"power is {power} and gain is {gain}: give positive numbers, or the order would not stay")
        if not 0 <= optimism <= 1 or noise < 0:
            raise ValueError(f"optimism is {optimism} and noise is {noise}: give a share, and 0 or more")
        if not low < high:
            raise ValueError(f"scores from {low} to {high}: low must lie below high")
        self.world_model = world_model
        self.power, self.gain, self.offset, self.noise, self.optimism = power, gain, offset, noise, optimism
        self.success_score, self.optimistic_score = success_score, optimistic_score
        self.low, self.high, self.seed = low, high, seed

    def predict(self, submissions: Sequence[Submission]) -> list[Outcome]:
        """What the wrapped world model predicts, with distorted scores."""
        outcomes = self.world_model.predict(submissions)
        return [self._distorted(submission, outcome) for submission, outcome in zip(submissions, outcomes, strict=True)]

    def metrics(self) -> dict[str, float | None]:
        """Those of the wrapped world model."""
        return dict(self._ask("metrics"))

    def state_dict(self) -> dict[str, Any]:
        """That of the wrapped world model; the distortion remembers nothing."""
        return dict(self._ask("state_dict"))

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the wrapped world model."""
        if state:
            self.world_model.load_state_dict(state)  # type: ignore[attr-defined]

    def _distorted(self, submission: Submission, outcome: Outcome) -> Outcome:
        if outcome.score is None:
            return outcome
        digest = fingerprint((self.seed, submission.key))
        rng = np.random.default_rng(int(digest[:32], 16))
        overlooked, noise = rng.random() < self.optimism, rng.normal()
        score = self.optimistic_score if overlooked and outcome.score < self.success_score else outcome.score
        u = float(np.clip((score - self.low) / (self.high - self.low), 0.0, 1.0))
        u = float(np.clip(self.offset + self.gain * u**self.power + self.noise * noise, 0.0, 1.0))
        return dataclasses.replace(
            outcome,
            score=self.low + (self.high - self.low) * u,
            details={**outcome.details, "undistorted_score": outcome.score},
        )

    def _ask(self, method: str) -> Mapping[str, Any]:
        found: Mapping[str, Any] = getattr(self.world_model, method, dict)()
        return found
