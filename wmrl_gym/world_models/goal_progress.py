"""A world model whose error is known: the true progress of an episode, bent and blurred as one likes.

It takes a model that sees progress and errs in a known way to tell whether debiasing and fusion do what they should.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from wmrl_gym.core import Outcome, Submission
from wmrl_gym.world_models.progress_reduction import Reducer, check_reducer, reduce_progress


@dataclass(frozen=True)
class MonotoneBias:
    """offset + gain * score ** power: wrong on the whole, right in the order.

    With a power below 1 half-done episodes are overrated, above 1 underrated. The defaults change nothing.

    Raises:
        ValueError: if it would not rise with the score.
    """

    power: float = 1.0
    """Exponent of the score; more than 0."""
    gain: float = 1.0
    """Factor of the bent score; more than 0."""
    offset: float = 0.0
    """Added to every score."""

    def __post_init__(self) -> None:
        """Check the numbers."""
        if not (self.power > 0 and self.gain > 0):
            raise ValueError(f"power={self.power}, gain={self.gain}: give more than 0 of both, or the order is lost")

    def __call__(self, score: float) -> float:
        """The score as the model sees it. A negative one, of an episode that lost progress, is bent as its mirror."""
        return self.offset + self.gain * float(np.sign(score)) * abs(score) ** self.power


class GoalProgressWorldModel:
    """Scores an episode by the true fraction of its sub-goals, with a bias and a noise that are given.

    Submissions need ``context["goal_progress"]``: the fraction of true goal predicates at each frame, which the LIBERO
    environment tells only with ``reveal_goal_progress=true``, for that is the truth. So this is an instrument to study
    the method by, and no world model to train a robot with.

    Implements `wmrl_gym.core.WorldModel`.

    Args:
        bias: monotone error of the score; None is none.
        noise: standard deviation of a normal error that is added to the biased score. It is a function of the seed and
            the submission's content alone, so the same episode is always misjudged alike.
        seed: of the noise.
        reducer: how the progress of the frames becomes one score; see `reduce_progress`. "success" is 1 if all goals
            are true at the last frame, else 0.
        window: frames at each end that the reducer "potential" takes.

    Raises:
        ValueError: for settings that make no sense.
    """

    def __init__(
        self,
        bias: MonotoneBias | None = None,
        noise: float = 0.0,
        seed: int = 0,
        reducer: Reducer = "final",
        window: int = 3,
    ) -> None:
        check_reducer(reducer, window)
        if not noise >= 0:
            raise ValueError(f"noise is {noise}: it is a standard deviation, give 0 or more")
        self.bias = MonotoneBias() if bias is None else bias
        self.noise, self.seed, self.reducer, self.window = noise, seed, reducer, window

    def predict(self, submissions: Sequence[Submission]) -> list[Outcome]:
        """One outcome per submission, in order; without goal progress its score is None."""
        return [self._outcome(submission) for submission in submissions]

    def _outcome(self, submission: Submission) -> Outcome:
        progress = submission.context.get("goal_progress")
        true = self._true_score(progress) if isinstance(progress, Sequence) and not isinstance(progress, str) else None
        if true is None:
            reason = (
                "context['goal_progress'] is missing: make the environment with reveal_goal_progress=true"
                if progress is None
                else f"context['goal_progress'] is {str(progress)[:80]}: a fraction from 0 to 1 per frame is needed"
            )
            return Outcome(None, "unknown", reason, "world_model", details={"problem": reason})
        score = self.bias(true) + self.noise * self._error(submission)
        return Outcome(score, "predicted", "", "world_model", details={"true_progress": true, "reducer": self.reducer})

    def _true_score(self, progress: Sequence[float]) -> float | None:
        try:
            progress_T = np.asarray(progress, float)
        except (TypeError, ValueError):
            return None
        if progress_T.ndim != 1 or not progress_T.size or not ((progress_T >= 0) & (progress_T <= 1)).all():
            return None
        return reduce_progress(progress_T, (progress_T == 1.0).astype(float), self.reducer, self.window)

    def _error(self, submission: Submission) -> float:
        """A standard normal number that belongs to the seed and the submission."""
        words = [int(submission.key[start : start + 8], 16) for start in range(0, 32, 8)]
        return float(np.random.default_rng([self.seed, *words]).standard_normal())
