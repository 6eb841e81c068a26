"""The exception a script would raise, as the analysis sees it, and the traceback the sandbox would print."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from wmrl_gym.scriptcheck.verdicts import Check

SCRIPT_NAME = "script.py"


class Fault(Exception):
    """A fault the analysis is certain of. It travels through the abstract script as the real exception would."""

    def __init__(
        self,
        check: Check,
        exception: str,
        message: str,
        *,
        confidence: float = 0.95,
        second: str | None = None,
        reason: str = "",
        bases: tuple[str, ...] = (),
    ) -> None:
        super().__init__(message)
        self.check = check
        self.exception = exception
        self.message = message
        self.confidence = confidence
        self.second = second
        self.reason = reason or message.split("\n", 1)[0]
        self.bases = bases
        self.frames: list[tuple[int, str]] = []
        """(line, function) from the innermost frame outwards."""
        self.marked: list[object] = []
        """Scopes that have left their line already."""

    @property
    def line(self) -> int | None:
        """Line of the script where it is raised."""
        return self.frames[0][0] if self.frames else None

    def caught_by(self, names: set[str]) -> bool:
        """Whether an ``except`` clause that names these classes would catch it."""
        if self.check is Check.COMPUTE_BUDGET:
            return False
        return bool(names & ({self.exception, *_ancestors(self.exception), *self.bases}))

    def traceback(self, source_lines: list[str]) -> str:
        """Text of the traceback, with the script's own frames only."""
        lines = ["Traceback (most recent call last):"]
        for line, function in reversed(self.frames):
            lines.append(f'  File "{SCRIPT_NAME}", line {line}, in {function}')
            if 1 <= line <= len(source_lines):
                lines.append(f"    {source_lines[line - 1].strip()}")
        name = f"{_MODULES[self.exception]}.{self.exception}" if self.exception in _MODULES else self.exception
        lines.append(f"{name}: {self.message}" if self.message else name)
        return "\n".join(lines)


_MODULES = {
    "NotFittedError": "sklearn.exceptions",
    "InvalidParameterError": "sklearn.utils._param_validation",
    "IntCastingNaNError": "pandas.errors",
    "InvalidIndexError": "pandas.errors",
    "DuplicateError": "narwhals.exceptions",
    "UnidentifiedImageError": "PIL",
}

_EXTERNAL_ANCESTORS: dict[str, tuple[str, ...]] = {
    "NotFittedError": ("ValueError", "AttributeError", "Exception", "BaseException"),
    "InvalidParameterError": ("ValueError", "TypeError", "Exception", "BaseException"),
    "IntCastingNaNError": ("ValueError", "Exception", "BaseException"),
    "EmptyDataError": ("ValueError", "Exception", "BaseException"),
    "UnidentifiedImageError": ("OSError", "Exception", "BaseException"),
}


def _ancestors(exception: str) -> tuple[str, ...]:
    """Names of the classes that an exception class inherits from, itself excluded."""
    import builtins

    found = getattr(builtins, exception, None)
    if isinstance(found, type) and issubclass(found, BaseException):
        return tuple(base.__name__ for base in found.__mro__[1:-1])
    return _EXTERNAL_ANCESTORS.get(exception, ("Exception", "BaseException"))


class AnalysisLimit(Exception):
    """The script is too long or too intricate for the analysis, which gives up without an opinion."""


class AnalysisRefusal(AnalysisLimit):
    """The script would hang the analysis: nothing is known of it, not even that it runs."""


def shape_fault(message: str, exception: str = "ValueError", **options: object) -> Fault:
    """A fault of shapes and dtypes."""
    return Fault(Check.SHAPES_AND_DTYPES, exception, message, **options)  # type: ignore[arg-type]


def api_fault(message: str, exception: str = "TypeError", **options: object) -> Fault:
    """A fault of an API call."""
    return Fault(Check.API_CALLS, exception, message, **options)  # type: ignore[arg-type]


def data_fault(message: str, exception: str = "KeyError", **options: object) -> Fault:
    """A fault of files and columns. A KeyError's message is printed with quotes, as Python does."""
    return Fault(Check.FILES_AND_COLUMNS, exception, message, **options)  # type: ignore[arg-type]


def name_fault(message: str, exception: str = "NameError", **options: object) -> Fault:
    """A fault of imports and names."""
    return Fault(Check.IMPORTS_AND_NAMES, exception, message, **options)  # type: ignore[arg-type]


def runtime_fault(message: str, exception: str, **options: object) -> Fault:
    """Any other runtime fault."""
    return Fault(Check.OTHER_RUNTIME, exception, message, **options)  # type: ignore[arg-type]


@contextmanager
def python_fault(*exceptions: type[Exception]) -> Iterator[None]:
    """What Python raises where something is really computed, the script would raise."""
    try:
        yield
    except exceptions as error:
        raise runtime_fault(str(error), type(error).__name__) from None
