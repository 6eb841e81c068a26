"""Where a run's numbers go: a JSON Lines file always, TensorBoard if asked for."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from wmrl_gym.runs.records.json_lines import StepLines, read_step_lines


class MetricsLog(Protocol):
    """Takes the numbers of each step."""

    def write(self, step: int, metrics: Mapping[str, Any]) -> None:
        """Record one step's numbers."""
        ...

    def rewind(self, step: int) -> None:
        """Forget this step and all later ones: a resumed run will write them again."""
        ...

    def close(self) -> None:
        """Write out what is held back."""
        ...


class JSONLMetrics:
    """One JSON object per step.

    Args:
        path: the file; its folder must exist.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lines = StepLines(path)

    def write(self, step: int, metrics: Mapping[str, Any]) -> None:
        """Append ``{"step": step, **metrics}``; NaN and infinity become null, which is what JSON has for them."""
        record = {"step": step, **{key: _plain(value) for key, value in metrics.items()}}
        self._lines.append([json.dumps(record, allow_nan=False) + "\n"])

    def rewind(self, step: int) -> None:
        """Drop the records of `step` and later; see `StepLines.rewind`."""
        self._lines.rewind(step)

    def close(self) -> None:
        """Nothing is held back."""


class TensorBoardMetrics:
    """The same numbers as TensorBoard event files.

    Args:
        directory: where the event files go.
        first_step: a resumed run's first step; later events of an earlier process are hidden.

    Raises:
        ImportError: if TensorBoard is not installed, with the extra to install.
    """

    def __init__(self, directory: Path, first_step: int = 0) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise ImportError(
                "TensorBoard is not installed: pip install 'wmrl-gym[tensorboard]', or set logger.tensorboard=false"
            ) from error
        self._directory = directory
        self._writer = SummaryWriter(str(directory), purge_step=first_step or None)

    def write(self, step: int, metrics: Mapping[str, Any]) -> None:
        """Add each finite number as a scalar."""
        for key, value in metrics.items():
            plain = _plain(value)
            if isinstance(plain, int | float):
                self._writer.add_scalar(key, plain, step)
        self._writer.flush()

    def rewind(self, step: int) -> None:
        """Start new event files that hide the steps from `step` on."""
        from torch.utils.tensorboard import SummaryWriter

        self._writer.close()
        self._writer = SummaryWriter(str(self._directory), purge_step=step)

    def close(self) -> None:
        """Close the event file."""
        self._writer.close()


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """The records of a JSON Lines file, up to the first line that is none: usually the unfinished last one."""
    return read_step_lines(path)[0]


def _plain(value: Any) -> Any:
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
