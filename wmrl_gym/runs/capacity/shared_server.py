"""A server that works on everything it was given at the same time, as a language model's engine does on a batch."""

from __future__ import annotations

import heapq
import math


class SharedServer:
    """Divides its rate evenly among the items in it (processor sharing), each no faster than a rate of its own.

    Every item is served equally fast at any moment, so it is enough to know how much *each* has been served so far: an
    item leaves when that has grown by its amount of work.

    Args:
        rate: work per second of the whole server, for example tokens.
        item_rate: most work per second of one item; None is no limit.
    """

    def __init__(self, rate: float, item_rate: float | None = None) -> None:
        self.rate = rate
        self.item_rate = math.inf if item_rate is None else item_rate
        self.busy_seconds = 0.0
        """Seconds of its full rate that were used: an item alone, at its own limit, uses less than the whole server."""
        self._served = 0.0
        self._now = 0.0
        self._items: list[tuple[float, int, int]] = []
        self._count = 0

    def __len__(self) -> int:
        return len(self._items)

    def add(self, now: float, item: int, work: float) -> None:
        """Take an item in."""
        self._serve_until(now)
        heapq.heappush(self._items, (self._served + work, self._count, item))
        self._count += 1

    def next_time(self) -> float:
        """When the next item will leave, if none comes before; infinite if there is none."""
        if not self._items:
            return math.inf
        return self._now + max(self._items[0][0] - self._served, 0.0) / self._speed()

    def pop(self, now: float) -> int:
        """Let the next item go, which must be due."""
        self._serve_until(now)
        due, _, item = heapq.heappop(self._items)
        self._served = max(self._served, due)  # rounding must not leave it a moment short
        return item

    def _speed(self) -> float:
        return min(self.item_rate, self.rate / len(self._items))

    def _serve_until(self, now: float) -> None:
        if self._items:
            seconds, speed = now - self._now, self._speed()
            self._served += seconds * speed
            self.busy_seconds += seconds * speed * len(self._items) / self.rate
        self._now = now
