"""Precision and recall of a world model's checks, against what really went wrong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from wmrl_gym.corpus.file import Record
from wmrl_gym.runs.predicting import Prediction
from wmrl_gym.scriptcheck.verdicts import Check

_CLASSES: dict[Check, tuple[str, ...]] = {
    Check.IMPORTS_AND_NAMES: ("NameError", "UnboundLocalError", "ImportError", "ModuleNotFoundError"),
    Check.API_CALLS: ("TypeError", "AttributeError", "InvalidParameterError", "NotFittedError"),
    Check.FILES_AND_COLUMNS: (
        *("KeyError", "FileNotFoundError", "IsADirectoryError", "NotADirectoryError", "PermissionError"),
        *("EmptyDataError", "ParserError", "UnidentifiedImageError"),
    ),
    Check.SHAPES_AND_DTYPES: ("ValueError", "IndexError", "InvalidIndexError", "IntCastingNaNError"),
}


@dataclass(frozen=True)
class CheckFidelity:
    """What one check's failing verdicts are worth."""

    check: str
    opinions: int
    """Scripts that it passed or failed."""
    abstentions: int
    """Scripts that it was heard on and had no opinion of."""
    fired: int
    """Scripts that it failed."""
    precision: float | None
    """Share of these that are not valid, for whatever reason."""
    precision_in_kind: float | None
    """Share of these that fail in the way the check looks for; see `true_check`."""
    failures: int
    """Scripts that really fail in that way."""
    recall: float | None
    """Share of these that the check fails."""


def true_check(record: Record) -> Check | None:
    """The check that should have failed a script, by what execution said; None for valid ones and those not run.

    A crash is filed by the class of its exception. That is coarse: a ValueError may be about a file's columns.
    """
    if record.status in ("timeout", "out_of_memory"):
        return Check.COMPUTE_BUDGET
    if record.status == "invalid_submission":
        return Check.SUBMISSION
    if record.status != "runtime_error":
        return None
    return next((check for check, names in _CLASSES.items() if record.exception in names), Check.OTHER_RUNTIME)


def check_fidelity(records: Sequence[Record], predictions: Sequence[Prediction]) -> list[CheckFidelity]:
    """Each check that has spoken, in the paper's order, and "any", which fails what is not predicted valid.

    Checks are judged on the scripts they were heard on; quality fails nothing and is left out.
    """
    both = [(r, p) for r, p in zip(records, predictions, strict=True) if r.score is not None]
    found = []
    for check in (check for check in Check if check is not Check.QUALITY):
        heard = [(r, p) for r, p in both if check in (*p.failed_checks, *p.passed_checks, *p.silent_checks)]
        if not heard:
            continue
        fired = [r for r, p in heard if check in p.failed_checks]
        failures = [p for r, p in heard if true_check(r) is check]
        silent = sum(check in p.silent_checks for _, p in heard)
        found.append(
            CheckFidelity(
                check=check.value,
                opinions=len(heard) - silent,
                abstentions=silent,
                fired=len(fired),
                precision=_share([r.status != "valid" for r in fired]),
                precision_in_kind=_share([true_check(r) is check for r in fired]),
                failures=len(failures),
                recall=_share([check in p.failed_checks for p in failures]),
            )
        )
    return [*found, _any(both)] if found else []


def _any(both: Sequence[tuple[Record, Prediction]]) -> CheckFidelity:
    known = [(r, p) for r, p in both if p.score is not None]
    fired = [r for r, p in known if p.status != "valid"]
    failures = [p for r, p in known if r.status != "valid"]
    precision = _share([r.status != "valid" for r in fired])
    recall = _share([p.status != "valid" for p in failures])
    silent = len(both) - len(known)
    return CheckFidelity("any", len(known), silent, len(fired), precision, precision, len(failures), recall)


def _share(flags: Sequence[bool]) -> float | None:
    return sum(flags) / len(flags) if flags else None
