"""Every pair of a run, predicted and executed, in the order in which they came."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from wmrl_gym.core import Group
from wmrl_gym.proxy import ScoredStep
from wmrl_gym.runs.records.json_lines import StepLines


class PairRecorder:
    """Appends a step's pairs to ``ledger.jsonl``: what a step costs does not grow with the run.

    Args:
        path: the file; its folder must exist.
    """

    def __init__(self, path: Path) -> None:
        self._lines = StepLines(path)

    def record(self, step: int, groups: Sequence[Group], scored: ScoredStep) -> None:
        """Append one step; fits ``on_groups`` of `WMRLGRPO`."""
        self._lines.append(pair.as_line() for pair in scored.pairs)

    def rewind(self, step: int) -> None:
        """Forget this step and all later ones: they will come again."""
        self._lines.rewind(step)
