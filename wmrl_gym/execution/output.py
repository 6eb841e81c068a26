"""Keeping the beginning and the end of an output of any length."""

from __future__ import annotations


class HeadAndTail:
    """Collects bytes, and forgets the middle: memory stays below 1.5 times `keep_bytes`."""

    def __init__(self, keep_bytes: int) -> None:
        """How many bytes to keep, half of them from the end."""
        self.half = max(1, keep_bytes // 2)
        self.head = bytearray()
        self.tail = bytearray()
        self.total = 0

    def write(self, data: bytes) -> None:
        """Append."""
        self.total += len(data)
        room = self.half - len(self.head)
        self.head += data[:room]
        self.tail += data[room:] if room > 0 else data
        if len(self.tail) > 2 * self.half:
            del self.tail[: -self.half]

    def text(self) -> str:
        """What was kept, as UTF-8 with the unreadable replaced, and a line that says how much is missing."""
        tail = bytes(self.tail[-self.half :])
        missing = self.total - len(self.head) - len(tail)
        gap = f"\n... {missing} bytes left out ...\n".encode() if missing else b""
        return (bytes(self.head) + gap + tail).decode("utf-8", "replace")
