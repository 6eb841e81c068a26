"""Bounds on what the analysis computes, so that no script can hang or fill the process that judges it.

Constants are really computed, in the trainer's own process, and one step of a hostile script can ask for gigabytes.
Sizes are therefore checked before an operation, and what would grow too large becomes unknown. The clock is only the
last resort: ordinary scripts take milliseconds, so that no result of theirs depends on it.
"""

from __future__ import annotations

import re
import string
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from wmrl_gym.scriptcheck.faults import AnalysisRefusal

MAX_SOURCE = 100_000
"""Characters of a script."""
MAX_TEXT = 20_000
"""Characters or bytes of a computed string."""
MAX_ITEMS = 10_000
"""Elements of a container that are known one by one."""
MAX_PARTS = 1_000
"""Pieces of a text with unknown parts."""
MAX_BITS = 10_000
"""Bits of a computed integer."""
MAX_WIDTH = 10_000
"""Width or precision of a format."""
MAX_SECONDS = 3.0
"""Seconds of processor time for one script: other load on the machine must not decide over scripts."""

_TICKS = 256
_CODECS = frozenset({"utf8", "ascii", "latin1"})
_PADDING = frozenset({"zfill", "ljust", "rjust", "center", "expandtabs", "to_bytes"})
_PERCENT = re.compile(r"%[#0\- +]*(\*|\d*)(?:\.(\*|\d*))?")


class _Clock(threading.local):
    """The deadline of the script that this thread analyses."""

    deadline: float | None = None
    ticks: int = 0


_CLOCK = _Clock()


@contextmanager
def time_limit(seconds: float | None = None) -> Iterator[None]:
    """Let `tick` give up this long from now."""
    before = _CLOCK.deadline
    _CLOCK.deadline = time.thread_time() + (MAX_SECONDS if seconds is None else seconds)
    try:
        yield
    finally:
        _CLOCK.deadline = before


@contextmanager
def clock_stopped() -> Iterator[None]:
    """Time that does not count: the first import of a library is no fault of the script that asks for it."""
    started = time.thread_time()
    try:
        yield
    finally:
        if _CLOCK.deadline is not None:
            _CLOCK.deadline += time.thread_time() - started


def tick() -> None:
    """Look at the clock, now and then.

    Raises:
        AnalysisRefusal: the time is up.
    """
    _CLOCK.ticks += 1
    if _CLOCK.ticks % _TICKS == 0:
        check_clock()


def check_clock() -> None:
    """Look at the clock.

    Raises:
        AnalysisRefusal: the time is up.
    """
    if _CLOCK.deadline is not None and time.thread_time() > _CLOCK.deadline:
        raise AnalysisRefusal(f"the analysis took more than {MAX_SECONDS:g} s")


def weight(value: Any) -> int:
    """Characters that a constant takes when it is printed, roughly and at least."""
    if isinstance(value, str | bytes):
        return len(value)
    if isinstance(value, int):
        return value.bit_length() // 3 + 1
    if isinstance(value, tuple):
        return sum(weight(part) + 2 for part in value)
    return 8


def too_large(value: Any) -> bool:
    """Whether a computed constant is beyond what is kept."""
    if isinstance(value, int):
        return value.bit_length() > MAX_BITS
    if isinstance(value, str | bytes):
        return len(value) > MAX_TEXT
    return isinstance(value, tuple | list) and len(value) > MAX_ITEMS


def too_large_to_add(a: Any, b: Any) -> bool:
    """Whether ``a + b`` of two sequences would be beyond it."""
    sequences = isinstance(a, str | bytes | tuple) and isinstance(b, str | bytes | tuple)
    return sequences and len(a) + len(b) > (MAX_ITEMS if isinstance(a, tuple) else MAX_TEXT)


def too_large_to_multiply(a: Any, b: Any) -> bool:
    """Whether ``a * b`` of two integers would be beyond it."""
    return isinstance(a, int) and isinstance(b, int) and a.bit_length() + b.bit_length() > MAX_BITS


def too_wide(spec: str) -> bool:
    """Whether a format's width or precision is beyond what is computed."""
    return any(len(digits.lstrip("0")) > 5 or int(digits[-6:]) > MAX_WIDTH for digits in re.findall(r"\d+", spec))


def percent_too_large(template: str | bytes, values: Any) -> bool:
    """Whether ``template % values`` asks for a large width, or repeats large values."""
    text = template.decode("latin-1") if isinstance(template, bytes) else template
    if len(text) > MAX_TEXT:
        return True
    parts = values if isinstance(values, tuple) else (values,)
    # A key in brackets may hide the width, so that then all digits count.
    specs = [text] if "%(" in text else ["".join(found.group(0)) for found in _PERCENT.finditer(text)]
    if any(too_wide(spec) for spec in specs):
        return True
    if any("*" in spec for spec in specs) and any(isinstance(p, int) and abs(p) > MAX_WIDTH for p in parts):
        return True
    # A padded number or a float needs its width, or 310 digits, per hole.
    padding = sum(int(d) for spec in specs for d in re.findall(r"\d+", spec))
    return padding + 4 * sum(weight(part) for part in parts) + len(text) > 4 * MAX_TEXT


class TooLarge(Exception):
    """The text would become longer than what is computed."""


class BoundedFormatter(string.Formatter):
    """``str.format`` that stops at wide holes, also where the width comes from another argument."""

    def __init__(self) -> None:
        self.size = 0

    def format_field(self, value: Any, format_spec: str) -> Any:
        """One hole.

        Raises:
            TooLarge: it is too wide, or all holes together are.
        """
        if too_wide(format_spec):
            raise TooLarge
        found = super().format_field(value, format_spec)
        self.size += len(found)
        if self.size > MAX_TEXT:
            raise TooLarge
        return found


def bounded_format(template: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    """``template.format(*args, **kwargs)``.

    Raises:
        TooLarge: the text would become too long.
    """
    if len(template) > MAX_TEXT:
        raise TooLarge
    return BoundedFormatter().vformat(template, args, kwargs)


def method_too_large(receiver: Any, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether a method of a constant may yield, or take the time of, something beyond the bounds."""
    if name.startswith("__") or too_large(receiver):
        # Operators by their methods' names have no bounds of their own.
        return True
    given = [*args, *kwargs.values()]
    if name in _PADDING and any(isinstance(v, int) and abs(v) > MAX_WIDTH for v in given):
        return True
    if name == "expandtabs":
        tab = next((abs(v) for v in given if isinstance(v, int)), 8)
        return receiver.count("\t" if isinstance(receiver, str) else b"\t") * tab > MAX_TEXT
    if name in ("encode", "decode"):
        # Some codecs, such as punycode, take quadratic time.
        return any(str(v).lower().replace("-", "").replace("_", "") not in _CODECS for v in given[:1])
    if name == "replace" and len(args) >= 2:
        old, new = args[0], args[1]
        fits = isinstance(receiver, str | bytes) and type(old) is type(new) is type(receiver)
        return fits and len(receiver) + receiver.count(old) * max(0, len(new) - len(old)) > MAX_TEXT
    if name == "join" and args:
        parts = args[0] if isinstance(args[0], tuple) else ()
        return sum(weight(part) + len(receiver) for part in parts) > MAX_TEXT
    return False


_STEEP = frozenset({"factorial", "comb", "perm"})


def function_too_large(function: Callable[..., Any], args: Sequence[Any]) -> bool:
    """Whether a function of `math` would make large integers of these arguments."""
    if getattr(function, "__name__", "") in _STEEP and any(isinstance(a, int) and abs(a) > 1000 for a in args):
        return True
    return weight(tuple(args)) * 3 > MAX_BITS
