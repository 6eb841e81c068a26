"""The metrics of the bundled competitions, and the ``metric.py`` file that carries one of them.

A prepared competition must be gradable by MLE-Dojo itself, so each gets a ``metric.py`` in MLE-Dojo's manner that needs
NumPy and pandas only. Its arithmetic is the source text of the functions below, so what is tested here is what runs.
Each function takes two arrays of shape (n,), the truth first.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from string import Template
from typing import Any

import numpy as np

from wmrl_gym.envs.mle_dojo.catalogue.spec import CompetitionSpec


def rmse(truth: Any, predicted: Any) -> float:
    """Root mean squared error."""
    return float(np.sqrt(np.mean((truth - predicted) ** 2)))


def mae(truth: Any, predicted: Any) -> float:
    """Mean absolute error."""
    return float(np.mean(np.abs(truth - predicted)))


def rmsle(truth: Any, predicted: Any) -> float:
    """Root mean squared error of log(1 + y). Negative predictions count as 0."""
    return float(np.sqrt(np.mean((np.log1p(truth) - np.log1p(np.maximum(predicted, 0.0))) ** 2)))


def accuracy(truth: Any, predicted: Any) -> float:
    """Share of labels that are right."""
    return float(np.mean(truth == predicted))


def macro_f1(truth: Any, predicted: Any) -> float:
    """F1 of each class that occurs in the truth or the prediction, averaged without weights."""
    scores = []
    for label in np.union1d(truth, predicted):
        hits = np.sum((truth == label) & (predicted == label))
        scores.append(2 * hits / (np.sum(truth == label) + np.sum(predicted == label)))
    return float(np.mean(scores))


def auc(truth: Any, predicted: Any) -> float:
    """Area under the ROC curve: the chance that a positive ranks above a negative, ties counting one half."""
    order = np.argsort(predicted, kind="stable")
    _, first, counts = np.unique(predicted[order], return_index=True, return_counts=True)
    ranks = np.empty(len(predicted))
    ranks[order] = np.repeat(first + (counts + 1) / 2, counts)
    positive = truth == 1
    n_positive, n_negative = positive.sum(), (~positive).sum()
    return float((ranks[positive].sum() - n_positive * (n_positive + 1) / 2) / (n_positive * n_negative))


def log_loss(truth: Any, predicted: Any) -> float:
    """Mean negative log-likelihood of 0/1 labels. Probabilities are kept one float64 epsilon from 0 and 1."""
    epsilon = np.finfo(float).eps
    p = np.clip(predicted, epsilon, 1 - epsilon)
    return float(-np.mean(truth * np.log(p) + (1 - truth) * np.log1p(-p)))


METRICS: Mapping[str, Callable[[Any, Any], float]] = {
    function.__name__: function for function in (rmse, mae, rmsle, accuracy, macro_f1, auc, log_loss)
}

_READ_ANSWERS = {
    "number": """
    def _predictions(self, column):
        numbers = pd.to_numeric(column, errors="coerce")
        if not np.isfinite(numbers).all():
            raise InvalidSubmissionError(f"Column '{self.value}' must hold finite numbers only.")
        return numbers.to_numpy(float)
""",
    "probability": """
    def _predictions(self, column):
        numbers = pd.to_numeric(column, errors="coerce")
        if not numbers.between(0, 1).all():
            raise InvalidSubmissionError(f"Column '{self.value}' must hold probabilities between 0 and 1.")
        return numbers.to_numpy(float)
""",
    "label": """
    def _predictions(self, column):
        if column.isna().any():
            raise InvalidSubmissionError(f"Column '{self.value}' has missing values.")
        whole = pd.api.types.is_float_dtype(column) and (column % 1 == 0).all()
        return (column.astype("int64") if whole else column).astype(str).to_numpy(object)
""",
}

_METRIC_FILE = Template('''"""Metric of the competition '$name'."""

import numpy as np
import pandas as pd

from mledojo.metrics.base import CompetitionMetrics, InvalidSubmissionError


$function

class $class_name(CompetitionMetrics):
    """Grades the column '$target' by $metric. Rows are matched by '$id_column', never by their order."""

    name = "$metric"

    def __init__(self, value="$target", higher_is_better=$higher):
        super().__init__(higher_is_better)
        self.value = value
$predictions
    def evaluate(self, y_true, y_pred):
        truth = y_true.sort_values("$id_column", kind="stable", key=pd.to_numeric)
        predicted = y_pred.sort_values("$id_column", kind="stable", key=pd.to_numeric)
        return $metric(self._predictions(truth[self.value]), self._predictions(predicted[self.value]))

    def validate_submission(self, submission, ground_truth):
        if not isinstance(submission, pd.DataFrame):
            raise InvalidSubmissionError("The submission must be a table.")
        missing = [column for column in ("$id_column", self.value) if column not in submission.columns]
        if missing:
            raise InvalidSubmissionError(
                f"Missing column(s) {missing}: expected $id_column,{self.value}, got {list(submission.columns)}."
            )
        if len(submission) != len(ground_truth):
            raise InvalidSubmissionError(f"Expected {len(ground_truth)} rows, got {len(submission)}.")
        ids = pd.to_numeric(submission["$id_column"], errors="coerce")
        if ids.duplicated().any():
            raise InvalidSubmissionError("Column '$id_column' has duplicates.")
        if set(ids) != set(ground_truth["$id_column"]):
            raise InvalidSubmissionError("The values of '$id_column' are not those of test.csv.")
        self._predictions(submission[self.value])
        return "Submission is valid."
''')


def render_metric(spec: CompetitionSpec) -> str:
    """Source text of a competition's ``metric.py``."""
    function = inspect.getsource(METRICS[spec.metric]).replace(": Any", "").replace(" -> float", "")
    return _METRIC_FILE.substitute(
        name=spec.name,
        metric=spec.metric,
        target=spec.target,
        id_column=spec.id_column,
        higher=spec.higher_is_better,
        class_name="".join(word.capitalize() for word in spec.name.split("_")) + "Metrics",
        function=function,
        # A ranking metric is indifferent to the scale, so AUC takes any finite score, as Kaggle's does.
        predictions=_READ_ANSWERS["number" if spec.metric == "auc" else spec.answer],
    )
