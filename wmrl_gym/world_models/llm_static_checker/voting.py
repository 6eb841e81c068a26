"""Several answers to one question become one."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from wmrl_gym.world_models.llm_static_checker.understood_answer import Reading


def vote(readings: Sequence[Reading | None]) -> Reading | None:
    """The most frequent label, told in the words of its most confident voter; None if nobody voted.

    Equal numbers are decided by the sum of confidences, and equal sums for the label that stands first in the alphabet
    backwards, so that "pass" wins over "fail". The confidence is that of the winning side, summed, over the number of
    all votes: an only vote keeps its own.
    """
    votes = [reading for reading in readings if reading is not None]
    if not votes:
        return None
    sides: dict[str, list[Reading]] = {}
    for reading in votes:
        sides.setdefault(reading.label, []).append(reading)
    winner = max(sides, key=lambda label: (len(sides[label]), sum(r.confidence for r in sides[label]), label))
    speaker = max(sides[winner], key=lambda reading: reading.confidence)
    return dataclasses.replace(speaker, confidence=sum(r.confidence for r in sides[winner]) / len(votes))
