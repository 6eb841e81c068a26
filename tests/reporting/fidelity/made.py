"""Hand-made predictions."""

from __future__ import annotations

from typing import Any

from tests.corpus.made import SCORES
from wmrl_gym.runs.predicting import Prediction


def predicted(status: str = "valid", score: float | None = -1.0, **changes: Any) -> Prediction:
    return Prediction(status, SCORES.get(status) if score == -1.0 else score, **changes)
