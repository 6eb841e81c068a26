"""Why the service does not do what it is asked, and how it says so in HTTP."""

from __future__ import annotations

from typing import ClassVar


class Refusal(Exception):
    """A request that gets no result. Nothing was counted or learned from it."""

    status: ClassVar[int]
    error: ClassVar[str]
    retry_after: ClassVar[int | None] = None
    """Seconds after which the same request may be asked again; None: asking again changes nothing."""


class Unprocessable(Refusal):
    """The request asks for more than the service takes, or cannot be right."""

    status, error = 422, "invalid_request"


class UnknownTask(Refusal):
    """There is no such task here."""

    status, error = 404, "unknown_task"


class Conflict(Refusal):
    """The request contradicts an earlier one, or comes out of order."""

    status, error = 409, "conflict"


class Busy(Refusal):
    """No room now."""

    status, error, retry_after = 429, "busy", 1


class Unavailable(Refusal):
    """The world model, execution or the disk failed, or the service stops."""

    status, error, retry_after = 503, "unavailable", 5


class StillRunning(Unavailable):
    """The work goes on; the same request asked again waits for it."""

    error, retry_after = "still_running", 1
