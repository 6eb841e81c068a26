"""Asking a world model for a batch of predictions, and refusing what cannot be trusted."""

from __future__ import annotations

from collections.abc import Sequence

from wmrl_gym.core import Outcome, Submission, WorldModel, WorldModelError


def predict_batch(world_model: WorldModel, submissions: Sequence[Submission]) -> list[Outcome]:
    """Predict every submission, equal ones once.

    Raises:
        WorldModelError: if the world model raises, or answers with something else than one outcome per submission.
    """
    if not submissions:
        return []
    unique = {submission.key: submission for submission in submissions}
    name = type(world_model).__name__
    try:
        outcomes = world_model.predict(list(unique.values()))
    except Exception as error:
        raise WorldModelError(
            f"world model {name} raised {type(error).__name__} on a batch of {len(unique)} submissions: {error}\n"
            "  A world model must answer a bad item with score=None, not raise. Mend it and resume the run: the last "
            "checkpoint is untouched."
        ) from error
    if len(outcomes) != len(unique) or not all(isinstance(outcome, Outcome) for outcome in outcomes):
        raise WorldModelError(
            f"world model {name} answered a batch of {len(unique)} submissions with {len(outcomes)} results of type "
            f"{sorted({type(outcome).__name__ for outcome in outcomes})}: it must return one Outcome each, in order"
        )
    by_key = dict(zip(unique, outcomes, strict=True))
    return [by_key[submission.key] for submission in submissions]
