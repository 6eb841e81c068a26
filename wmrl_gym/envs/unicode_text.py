"""A Gymnasium space of free text.

Gymnasium's own `Text` space needs its whole alphabet listed, and Unicode's is too large for that.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.spaces import Space

MAX_SAMPLED_LENGTH = 200

# First and last code point of what a sample is drawn from; each range is as likely as the others.
_RANGES: tuple[tuple[int, int], ...] = (
    (0x20, 0x7E),  # printable ASCII
    (0x09, 0x0A),  # tab and newline
    (0xA1, 0x24F),  # Latin with diacritics
    (0x300, 0x36F),  # combining marks
    (0x391, 0x3C9),  # Greek
    (0x410, 0x44F),  # Cyrillic
    (0x5D0, 0x5EA),  # Hebrew, right to left
    (0x905, 0x939),  # Devanagari
    (0x4E00, 0x9FA5),  # Chinese characters
    (0x1F300, 0x1F5FF),  # symbols beyond the basic plane
)


class UnicodeText(Space[str]):
    """All strings of at most `max_length` characters, of whatever script.

    Samples are short (200 characters at most), because a random text of 100,000 characters tests nothing that a short
    one does not.

    Args:
        max_length: largest number of characters (code points).
        seed: seed of the sampling.

    Raises:
        ValueError: if `max_length` is negative.
    """

    def __init__(self, max_length: int, *, seed: int | np.random.Generator | None = None) -> None:
        """Check the length."""
        if max_length < 0:
            raise ValueError(f"UnicodeText(max_length={max_length}): a length cannot be negative")
        self.max_length = int(max_length)
        super().__init__(shape=None, dtype=str, seed=seed)

    @property
    def is_np_flattenable(self) -> bool:
        """False: there is no fixed alphabet to number."""
        return False

    def sample(self, mask: Any | None = None, probability: Any | None = None) -> str:
        """A random text, empty at times.

        Raises:
            ValueError: if a mask or probabilities are given: there is no fixed set of characters they could refer to.
        """
        if mask is not None or probability is not None:
            raise ValueError("UnicodeText.sample takes neither mask nor probability: it has no fixed alphabet")
        length = int(self.np_random.integers(0, min(self.max_length, MAX_SAMPLED_LENGTH) + 1))
        ranges = np.asarray(_RANGES)[self.np_random.integers(len(_RANGES), size=length)]
        return "".join(map(chr, self.np_random.integers(ranges[:, 0], ranges[:, 1] + 1)))

    def contains(self, x: Any) -> bool:
        """Whether `x` is a string that is not too long."""
        return isinstance(x, str) and len(x) <= self.max_length

    def __repr__(self) -> str:
        """The call that makes this space."""
        return f"UnicodeText({self.max_length})"

    def __eq__(self, other: object) -> bool:
        """Equal if of the same length limit; the state of the sampling does not matter."""
        return isinstance(other, UnicodeText) and self.max_length == other.max_length
