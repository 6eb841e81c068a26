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
        outcomes = list(world_model.predict(list(unique.values())))
    except Exception as error:
        raise WorldModelError(
            f"world model {name} raised {type(error).__name__} on a batch of {len(unique)} submissions "
            f"({_some_tasks(submissions)}): {error}\n"
            "  A world model answers an item it cannot judge with score=None; raising means that it is down.\n"
            "  Bring it up again and retry, or mend it and resume the run: no episode has moved on."
        ) from error
    if len(outcomes) != len(unique) or not all(isinstance(outcome, Outcome) for outcome in outcomes):
        types = ", ".join(sorted({type(outcome).__name__ for outcome in outcomes})) or "nothing"
        raise WorldModelError(
            f"world model {name} answered a batch of {len(unique)} submissions ({_some_tasks(submissions)}) with "
            f"{len(outcomes)} results ({types})\n"
            "  It must return one wmrl_gym.Outcome for each submission, in order; score=None where it abstains."
        )
    by_key = dict(zip(unique, outcomes, strict=True))
    return [by_key[submission.key] for submission in submissions]


def _some_tasks(submissions: Sequence[Submission]) -> str:
    tasks = sorted({submission.task_id for submission in submissions})
    return ", ".join(tasks[:3]) + (f" and {len(tasks) - 3} more tasks" if len(tasks) > 3 else "")
