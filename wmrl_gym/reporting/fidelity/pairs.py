"""Predictions beside what really came of the same solutions, as columns that can be drawn from with replacement."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wmrl_gym.corpus.file import Record
from wmrl_gym.runs.predicting import Prediction

FloatArray = NDArray[np.float64]
TextArray = NDArray[np.str_]


@dataclass(frozen=True, eq=False)
class Pairs:
    """One row a solution with a known truth. Unknown numbers are NaN here, and never leave as numbers."""

    task: TextArray
    author: TextArray
    episode: NDArray[np.int64]
    true_status: TextArray
    status: TextArray
    executed: FloatArray
    predicted: FloatArray
    """NaN: the world model abstains."""
    second_right: FloatArray
    """1 if the true status is among the two likeliest, else 0; NaN if no second one is named."""
    exception_right: FloatArray
    """Whether the class of the exception was foretold; NaN where nothing is raised, or the world model abstains."""
    second_exception_right: FloatArray
    """Whether it is among the two likeliest."""

    @classmethod
    def of(cls, records: Sequence[Record], predictions: Sequence[Prediction]) -> Pairs:
        """Pair them up. Solutions whose execution failed for a reason outside the script are left out."""
        both = [(r, p) for r, p in zip(records, predictions, strict=True) if r.score is not None]
        seconds_named = any(p.second_exception is not None for _, p in both)
        return cls(
            task=np.array([r.task for r, _ in both], str),
            author=np.array([r.author for r, _ in both], str),
            episode=np.array([r.episode for r, _ in both], int),
            true_status=np.array([r.status for r, _ in both], str),
            status=np.array([p.status for _, p in both], str),
            executed=np.array([r.score for r, _ in both], float),
            predicted=np.array([np.nan if p.score is None else p.score for _, p in both], float),
            second_right=np.array([_among_two(r, p) for r, p in both], float),
            exception_right=np.array([_exception_right(r, p, False) for r, p in both], float),
            second_exception_right=np.array(
                [_exception_right(r, p, True) if seconds_named else np.nan for r, p in both], float
            ),
        )

    def __len__(self) -> int:
        return len(self.executed)

    @property
    def known(self) -> NDArray[np.bool_]:
        """Where the world model does not abstain."""
        return np.isfinite(self.predicted)

    @property
    def valid(self) -> NDArray[np.bool_]:
        """Where the truth is a valid submission."""
        return self.true_status == "valid"

    def take(self, rows: Any) -> Pairs:
        """These rows, by number or by mask."""
        return Pairs(**{field.name: getattr(self, field.name)[rows] for field in fields(self)})


def constant_predictions(records: Sequence[Record]) -> list[Prediction]:
    """The best that can be said without looking at a script, with hindsight: what a world model has to beat.

    The commonest status and exception class, and the median score, which no other constant beats in mean absolute
    error.
    """
    known = [record for record in records if record.score is not None]
    statuses = Counter(record.status for record in known).most_common(2)
    classes = Counter(record.exception for record in known if record.exception is not None).most_common(2)
    score = float(np.median([record.score for record in known])) if known else None
    prediction = Prediction(
        status=statuses[0][0] if statuses else "unknown",
        score=score,
        exception=classes[0][0] if classes else None,
        second_exception=classes[1][0] if len(classes) > 1 else None,
        ranking=tuple(status for status, _ in statuses) if len(statuses) > 1 else None,
    )
    return [prediction] * len(records)


def _among_two(record: Record, prediction: Prediction) -> float:
    if prediction.score is None or prediction.ranking is None:
        return np.nan
    return float(record.status in prediction.ranking[:2])


def _exception_right(record: Record, prediction: Prediction, two: bool) -> float:
    if record.exception is None or prediction.score is None:
        return np.nan
    named = (prediction.exception, prediction.second_exception) if two else (prediction.exception,)
    return float(record.exception in named)
