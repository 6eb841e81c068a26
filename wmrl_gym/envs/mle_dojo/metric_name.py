"""A short name for a competition's metric, read off its docstring, its code or the description."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

# From the special to the general: "root mean squared log error" must not be taken for "mean squared error".
_NAMES: tuple[tuple[str, str], ...] = (
    ("mcrmsle", r"mcrmsle"),
    ("mcrmse", r"mcrmse|mean columnwise root mean squared error"),
    ("rmsle", r"rmsle|root[ -]mean[ -]squared?[ -]log(arithmic)?[ -]error|mean_squared_log_error"),
    ("rmse", r"rmse|root[ -]mean[ -]squared?[ -]error|root_mean_squared_error"),
    ("rmspe", r"rmspe|root mean squared? percentage error"),
    ("smape", r"s_?mape|symmetric mean absolute percentage error"),
    ("mape", r"mape|mean absolute percentage error"),
    ("medae", r"median_?[ -]?absolute_?[ -]?error"),
    ("wmae", r"wmae|weighted mean absolute error"),
    ("mae", r"mae|mean[ _-]absolute[ _-]error"),
    ("mse", r"mse|mean[ _-]squared[ _-]error"),
    ("qwk", r"qwk|quadratic[ _]weighted[ _]kappa|cohen[ _]kappa([ _]score)?"),
    ("mcc", r"mcc|matthews"),
    ("logloss", r"log[ _-]?loss|logarithmic loss|cross[ _-]entropy"),
    ("auc", r"roc[ _-]?auc(_score)?|auc|area under the (roc|receiver)"),
    ("map", r"map[ @]*\d+|mean average precision"),
    ("ap", r"average[ _]precision(_score)?"),
    ("ndcg", r"ndcg[ @]*\d*"),
    ("kendall", r"kendall\w*"),
    ("macro_f1", r"macro[ _-]?(averaged )?f1"),
    ("f1", r"f1([ _-]?score)?|f-?score|f_score"),
    ("r2", r"r2(_score)?|r-squared|coefficient of determination"),
    ("gini", r"gini"),
    ("jaccard", r"jaccard"),
    ("dice", r"dice"),
    ("iou", r"iou|intersection over union"),
    ("spearman", r"spearman\w*"),
    ("pearson", r"pearson\w*"),
    ("levenshtein", r"levenshtein"),
    ("balanced_accuracy", r"balanced[ _]accuracy(_score)?"),
    ("accuracy", r"accuracy(_score)?|categorization accuracy"),
)


def metric_name(metric_class: type, path: Path, description: str) -> str:
    """Name of a metric, for example "rmse"; "score" if none is recognised.

    The docstring is asked first, because it says what the code is for; then the code; then the description's
    Evaluation section.
    """
    declared = getattr(metric_class, "metric_name", None)
    if isinstance(declared, str) and declared:
        return declared
    evaluation = re.search(r"(?is)^\W*evaluation\b.*?(?=^\s*#|\Z)", description, re.MULTILINE)
    own_doc = metric_class.__dict__.get("__doc__") or ""
    for text in (own_doc, path.read_text(encoding="utf-8", errors="replace"), evaluation.group() if evaluation else ""):
        found = recognise_metric(inspect.cleandoc(text))
        if found is not None:
            return found
    return "score"


def recognise_metric(text: str) -> str | None:
    """Short name of the first metric that a text speaks of, from the special to the general; None if there is none."""
    for name, pattern in _NAMES:
        if re.search(rf"(?<![A-Za-z0-9])(?:{pattern})(?![A-Za-z0-9])", text, re.IGNORECASE):
            return name
    return None
