"""DSBench's measure of a task: how much of the way from a baseline to the best score was covered.

Relative performance gap of one task: ``max(0, (p - b) / (g - b))``, with p the agent's score, b the baseline's and g
the best one; nothing valid counts 0, and the benchmark's number is the mean over its tasks (DSBench,
``data_modeling/show_result.py``). The best score in its files is what the answers themselves score (1 for an accuracy,
0 for an error), so a gap of 1 is perfection, not the best human.
"""

from __future__ import annotations

import math
from pathlib import Path


def relative_gap(score: float, baseline: float, best: float) -> float:
    """Share of the way from baseline to best; 0 for a score that is not finite.

    Raises:
        ValueError: if baseline and best are equal, so that there is no way between them.
    """
    if baseline == best:
        raise ValueError(f"baseline and best score are both {best}: the relative gap has no scale")
    return max(0.0, (score - baseline) / (best - baseline)) if math.isfinite(score) else 0.0


def read_result(path: Path) -> float:
    """The number in a ``result.txt``, which DSBench's evaluation scripts write.

    Raises:
        ValueError: if the file holds no number.
    """
    text = path.read_text(encoding="utf-8").strip()
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"{path} holds {text[:80]!r}: expected one number") from None
