"""Grades the bytes of a submission.csv: the only thing of a script that ever leaves the sandbox.

The bytes are read as CSV and as nothing else, with limits on size, rows and columns, and the private answers never
show in what the agent is told.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from wmrl_gym.envs.mle_dojo.csv_width import widest_rows

if TYPE_CHECKING:
    import pandas as pd

MAX_BYTES = 256 * 2**20
MESSAGE_CHARS = 400
ERROR_CHARS = 4 * MESSAGE_CHARS
"""Of a metric's exception, before what stands in it is looked for in the submission."""
# Words of Python's own messages, which say nothing about the answers.
_OPERATORS = frozenset({"<", "<=", ">", ">=", "+", "-", "*", "/", "**"})
_TYPES = frozenset({"str", "int", "float", "bool", "object", "NoneType", "int64", "float64"})


@dataclass(frozen=True)
class Grade:
    """What a submission is worth."""

    raw_score: float | None
    """The metric's value, possibly NaN or infinite; None if the submission could not be scored."""
    percentile: float | None
    """Share of the leaderboard reached, 0 to 1; None if it could not be scored or there is no leaderboard."""
    problem: str | None = None
    """Why it could not be scored, in words that the agent may read."""
    known: bool = True
    """False if the fault lies with the metric or the machine, so that nothing is known about the submission."""
    details: Mapping[str, Any] = field(default_factory=dict)
    """Further numbers of a submission that was scored."""

    @property
    def valid(self) -> bool:
        """Whether the submission was scored."""
        return self.problem is None


class Graded(Protocol):
    """What grading needs of a competition."""

    @property
    def metric_class(self) -> Any:
        """The competition's metric."""
        ...

    @property
    def metric_works(self) -> bool:
        """Whether the metric scores the answers themselves; see `metric_works`."""
        ...

    @property
    def answers(self) -> pd.DataFrame:
        """The private answers."""
        ...

    @property
    def sample_submission(self) -> pd.DataFrame:
        """The public sample submission."""
        ...

    @property
    def submission_rows(self) -> int:
        """How many rows a submission has."""
        ...

    def percentile(self, raw_score: float) -> float | None:
        """Place on the leaderboard."""
        ...


class _Unreadable(Exception):
    """The submission is invalid before the metric sees it; the message says why."""


def grade_submission(competition: Graded, submission_csv: bytes) -> Grade:
    """Read, validate, score and rank a submission.

    A submission that the metric refuses, or that makes it fail, is invalid. A metric that fails on the answers
    themselves, too, is at fault itself: then nothing is known about the submission.
    """
    try:
        submission = _read(submission_csv, competition)
        _refuse_missing(submission, competition)
    except _Unreadable as problem:
        return Grade(None, None, str(problem))
    except MemoryError:
        return Grade(None, None, "the machine ran out of memory while reading submission.csv", known=False)
    metric = competition.metric_class()
    try:
        metric.validate_submission(submission.copy(), competition.answers.copy())
    except (Exception, SystemExit) as error:
        return _refused(competition, error, str(error) or type(error).__name__)
    try:
        with np.errstate(all="ignore"):
            raw_score = float(metric.evaluate(competition.answers.copy(), submission.copy()))
    except (Exception, SystemExit) as error:
        told = _without_answers(f"{type(error).__name__}: {error}", submission_csv)
        return _refused(competition, error, f"the predictions cannot be scored ({told})")
    return Grade(raw_score, competition.percentile(raw_score))


def _read(submission_csv: bytes, competition: Graded) -> pd.DataFrame:
    import pandas as pd

    if not submission_csv.strip():
        raise _Unreadable("submission.csv is empty")
    if len(submission_csv) > MAX_BYTES:
        raise _Unreadable(f"submission.csv has {len(submission_csv)} bytes, more than {MAX_BYTES}")
    if b"\x00" in submission_csv:
        raise _Unreadable("submission.csv is not a text file")
    expected = competition.sample_submission
    rows = competition.submission_rows
    max_rows, max_columns = 4 * rows + 1000, 4 * expected.shape[1] + 100
    try:
        first, widest = widest_rows(submission_csv)
        if first > max_columns:
            raise _Unreadable(f"submission.csv has {first} columns, expected {expected.shape[1]}")
        if widest > max_columns:
            raise _Unreadable(f"submission.csv has a row of {widest} fields, expected {expected.shape[1]} columns")
        header = next(csv.reader(io.StringIO(submission_csv.partition(b"\n")[0].decode("utf-8-sig"))), [])
        if len(header) > max_columns:
            raise _Unreadable(f"submission.csv has {len(header)} columns, expected {expected.shape[1]}")
        submission = pd.read_csv(io.BytesIO(submission_csv), nrows=max_rows + 1)
    except (ValueError, csv.Error, OverflowError) as error:  # pandas' parser errors and bad UTF-8 are ValueErrors
        raise _Unreadable(f"submission.csv cannot be read as CSV: {_short(str(error))}") from error
    if len(submission) > max_rows:
        raise _Unreadable(f"submission.csv has more than {max_rows} rows, expected {rows}")
    if not len(submission):
        raise _Unreadable(f"submission.csv has a header but no rows, expected {rows} rows")
    return submission


def _refuse_missing(submission: pd.DataFrame, competition: Graded) -> None:
    """Missing predictions are refused where the answers are numbers.

    Many metrics average with pandas, which skips missing values: a single good guess with NaN elsewhere would win.
    Text columns are left alone, for "" and "None" are honest answers there.
    """
    for column in submission.columns:
        reference = next(
            (table[column] for table in (competition.answers, competition.sample_submission) if column in table), None
        )
        if reference is None or reference.dtype.kind not in "iufb" or reference.isna().any():
            continue
        missing = int(submission[column].isna().sum())
        if missing:
            raise _Unreadable(f"column {column!r} has missing values (NaN) in {missing} of {len(submission)} rows")


def _refused(competition: Graded, error: BaseException, message: str) -> Grade:
    # By name, because the class is MLE-Dojo's own where that is installed.
    explicit = any(base.__name__ == "InvalidSubmissionError" for base in type(error).__mro__)
    if explicit or (not isinstance(error, MemoryError | OSError) and competition.metric_works):
        return Grade(None, None, _short(message))
    return Grade(None, None, f"the metric failed: {type(error).__name__}", known=False)


def metric_works(competition: Graded) -> bool:
    """Control experiment: does the metric score the answers, or at least the sample submission?"""
    return _scores(competition, competition.answers) or _scores(competition, competition.sample_submission)


def _scores(competition: Graded, submission: pd.DataFrame) -> bool:
    metric: Any = competition.metric_class()
    try:
        with np.errstate(all="ignore"):
            return not math.isnan(float(metric.evaluate(competition.answers.copy(), submission.copy())))
    except (Exception, SystemExit):
        return False


def _without_answers(message: str, submission_csv: bytes) -> str:
    """Blank every quoted text and number that the agent did not write itself: it may come from the answers."""

    def keep_own(match: re.Match[str]) -> str:
        token = match.group().strip("'\"")
        own = token in _OPERATORS | _TYPES or token.encode("utf-8", "replace") in submission_csv
        return match.group() if own else "..."

    quoted = r"'[^']*'|\"[^\"]*\""
    if len(message) > ERROR_CHARS:
        # Every token is looked for in the submission, so there must not be millions. The cut may leave a quote open.
        message, quoted = message[:ERROR_CHARS].rpartition(" ")[0], rf"{quoted}|'[^']*\Z|\"[^\"]*\Z"
    return re.sub(rf"{quoted}|(?<![A-Za-z_])-?\d+(?:\.\d+)?", keep_own, message)


def _short(message: str) -> str:
    message = " ".join(message.split())
    return message if len(message) <= MESSAGE_CHARS else message[: MESSAGE_CHARS - 3] + "..."
