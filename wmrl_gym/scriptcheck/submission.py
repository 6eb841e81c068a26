"""The submission contract: was the right file written, with the right columns and rows?"""

from __future__ import annotations

import ast
from typing import Any

from wmrl_gym.scriptcheck.cells import Cells
from wmrl_gym.scriptcheck.language.names import SUBMISSION_PATH
from wmrl_gym.scriptcheck.overview import Overview
from wmrl_gym.scriptcheck.scope import Write
from wmrl_gym.scriptcheck.values.data import Frame
from wmrl_gym.scriptcheck.verdicts import Check, Verdict


def check_submission(
    overview: Overview, writes: list[Write], *, escaped: bool, tree: ast.Module, extra_columns: bool = True
) -> Verdict:
    """Verdict of the submission check for a script that reached its end.

    Args:
        overview: the competition's brief.
        writes: the files that the script wrote, in order.
        escaped: whether code that was not followed knew the submission's path.
        tree: the script, to see whether the write sits in a broad ``try``.
        extra_columns: whether the grader overlooks columns that nobody asked for, such as a written index.
    """
    mine = [write for write in writes if write.path == SUBMISSION_PATH]
    unsure = escaped or any(write.path is None for write in writes)
    if not mine:
        if unsure:
            return Verdict(Check.SUBMISSION, None, 0.3, reason="it could not be followed where the script writes")
        elsewhere = next((write for write in writes if write.path is not None), None)
        reason = "nothing is written to SUBMISSION_PATH"
        if elsewhere is not None:
            reason = f"the script writes {elsewhere.path} and not SUBMISSION_PATH"
        return _refused("no submission.csv was written to SUBMISSION_PATH", reason, elsewhere, "FileNotFoundError")
    write = mine[-1]
    if not write.certain and len(mine) == 1:
        return Verdict(Check.SUBMISSION, None, 0.4, line=write.line, reason="the write depends on an unknown condition")
    if not isinstance(write.value, Frame):
        return Verdict(Check.SUBMISSION, None, 0.3, line=write.line, reason="the file is written by hand")
    problem = _problem(overview, write, write.value, extra_columns)
    if problem is not None:
        return _refused(problem, problem, write, "InvalidSubmissionError")
    unknown = not write.value.complete or write.value.rows is None
    confidence = 0.6 if unknown or _in_broad_try(tree, write.line) else 0.95
    return Verdict(Check.SUBMISSION, True, confidence, line=write.line)


def _refused(problem: str, reason: str, write: Write | None, exception: str) -> Verdict:
    return Verdict(
        Check.SUBMISSION,
        False,
        0.9,
        exception,
        "FileNotFoundError" if exception != "FileNotFoundError" else "InvalidSubmissionError",
        write.line if write is not None else None,
        problem,
        reason,
    )


def _problem(overview: Overview, write: Write, frame: Frame, extra_columns: bool) -> str | None:
    """What is wrong with the written table, None if nothing is for certain."""
    contract = overview.contract
    expected = ",".join(contract.columns)
    columns = [str(name) for name in frame.columns]
    if write.index:
        columns = [frame.index or "Unnamed: 0", *columns]
    if write.separator not in (",", None):
        joined = str(write.separator).join(columns)
        return f"Missing column(s) {list(contract.columns)}: expected {expected}, got ['{joined}']."
    if write.header is False:
        return f"Missing column(s) {list(contract.columns)}: expected {expected}, got a file without header."
    lost = [name for name in contract.columns if frame.lacks(name) and name not in columns]
    if lost and write.index is not None:
        return f"Missing column(s) {lost}: expected {expected}, got {columns}."
    extra = [name for name in columns if name not in contract.columns]
    if extra and not extra_columns and write.index is not None:
        return f"Extra column(s) {extra}: expected {expected}, got {columns}."
    if frame.rows is not None and frame.rows != contract.rows:
        return f"Expected {contract.rows} rows, got {frame.rows}."
    return _cell_problem(overview, frame)


def _cell_problem(overview: Overview, frame: Frame) -> str | None:
    contract = overview.contract
    ids = frame.columns.get(contract.id_column)
    if ids is not None and not _right_ids(overview, ids):
        return f"The values of '{contract.id_column}' are not those of test.csv."
    for name in contract.columns:
        cells = frame.columns.get(name)
        if cells is None or name == contract.id_column:
            continue
        if cells.missing is True:
            return f"Column '{name}' has missing values."
        problem = _value_problem(overview, name, cells)
        if problem is not None:
            return problem
    return None


def _right_ids(overview: Overview, cells: Cells) -> bool:
    """Whether the ids may be the test table's: False only if they certainly are another column's."""
    if cells.origin is None:
        # Ids that are predictions, or numbers that a computation made, are not ids.
        return not cells.predictors
    file, column = cells.origin
    if column != overview.contract.id_column:
        return overview.inventory.file(file) is None
    return not file.startswith("train")


def _value_problem(overview: Overview, name: str, cells: Cells) -> str | None:
    """Predictions of the wrong kind: text where numbers are wanted, numbers where labels are."""
    truth = _target_kind(overview, name)
    numeric_metric = overview.metric in ("rmse", "rmsle", "mae", "mse", "auc", "log_loss", "logloss", "r2")
    if cells.kind == "str" and numeric_metric and truth != "str":
        return f"Column '{name}' must hold finite numbers only."
    if overview.metric in ("log_loss", "logloss") and cells.negative is True:
        return f"Column '{name}' must hold probabilities between 0 and 1."
    return None


def _target_kind(overview: Overview, name: str) -> str | None:
    for file in overview.inventory.files:
        for column in file.columns:
            if column.name == name and file.path.startswith("train"):
                return {"int64": "int", "float64": "float", "bool": "bool", "str": "str"}.get(column.dtype)
    return None


def _in_broad_try(tree: ast.Module, line: int) -> bool:
    """Whether a line sits inside a ``try`` that catches everything, behind something else that may fail."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Try) and node.body[0].lineno < line <= (node.body[-1].end_lineno or 0):
            kinds: list[Any] = [handler.type for handler in node.handlers]
            if any(kind is None or getattr(kind, "id", "") in ("Exception", "BaseException") for kind in kinds):
                return True
    return False
