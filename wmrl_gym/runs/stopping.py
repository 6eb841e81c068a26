"""Ctrl-C in a long run: the first one stops after the step, with a checkpoint; the second one stops at once."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any


class StopRequested(Exception):
    """The user asked for an end; the step that was running is finished."""


class GracefulStop:
    """While inside, SIGINT and SIGTERM set `requested` instead of breaking a step in the middle.

    A step that is broken off may have learned from its anchors but not updated its weights: no state to go on from.
    Python hands signals to the main thread only, so in any other thread nothing is taken over.

    Args:
        say: is told that the end was asked for.
    """

    def __init__(self, say: Callable[[str], None]) -> None:
        self.requested = False
        self._say = say
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> GracefulStop:
        """Take over the signals."""
        if threading.current_thread() is not threading.main_thread():
            return self
        for number in (signal.SIGINT, signal.SIGTERM):
            self._previous[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Give them back."""
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self.requested:
            raise KeyboardInterrupt
        self.requested = True
        self._say("stopping after this step; Ctrl-C again stops at once")
