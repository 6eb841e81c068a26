"""A Gymnasium space of free text.

Gymnasium's own `Text` space needs its whole alphabet listed, and Unicode's is too large for that.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium.spaces import Space
from gymnasium.vector.utils import create_shared_memory, read_from_shared_memory, write_to_shared_memory
from numpy.typing import NDArray

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


# How vector environments in several processes hand over texts (vectorization_mode="async" of `gym.make_vec`): each has
# a row of 32-bit numbers, its text's length and then the code points.


@create_shared_memory.register(UnicodeText)
def _create(space: UnicodeText, n: int = 1, ctx: Any = multiprocessing) -> Any:
    return ctx.Array("I", n * (1 + space.max_length))


@read_from_shared_memory.register(UnicodeText)
def _read(space: UnicodeText, shared_memory: Any, n: int = 1) -> Sequence[str]:
    return _SharedTexts(_rows(space, shared_memory)[:n])


@write_to_shared_memory.register(UnicodeText)
def _write(space: UnicodeText, index: int, value: str, shared_memory: Any) -> None:
    if value not in space:
        raise ValueError(f"a text of {len(value)} characters is not in {space}")
    row = _rows(space, shared_memory)[index]
    row[0] = len(value)
    row[1 : 1 + len(value)] = np.frombuffer(value.encode("utf-32-le", "surrogatepass"), "<u4")


def _rows(space: UnicodeText, shared_memory: Any) -> NDArray[np.uint32]:
    return np.frombuffer(shared_memory.get_obj(), "<u4").reshape(-1, 1 + space.max_length)


class _SharedTexts(Sequence[str]):
    """The texts as they are now: Gymnasium reads the memory once, and hands out copies of what it got."""

    def __init__(self, rows: NDArray[np.uint32]) -> None:
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return tuple(self)[index]
        row = self._rows[index]
        return row[1 : 1 + row[0]].tobytes().decode("utf-32-le", "surrogatepass")

    def __deepcopy__(self, memo: Any) -> tuple[str, ...]:
        return tuple(self)
