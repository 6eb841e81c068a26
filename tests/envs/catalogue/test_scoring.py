"""The metrics agree with scikit-learn's, and a generated metric.py refuses what cannot be graded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn import metrics

from wmrl_gym.envs.mle_dojo.catalogue import CATALOGUE
from wmrl_gym.envs.mle_dojo.catalogue.scoring import METRICS, render_metric
from wmrl_gym.envs.mle_dojo.metric_shim import load_metric_class

REFERENCES: dict[str, Any] = {
    "rmse": metrics.root_mean_squared_error,
    "mae": metrics.mean_absolute_error,
    "rmsle": lambda truth, predicted: metrics.root_mean_squared_log_error(truth, np.maximum(predicted, 0)),
    "accuracy": metrics.accuracy_score,
    "macro_f1": lambda truth, predicted: metrics.f1_score(truth, predicted, average="macro"),
    "auc": metrics.roc_auc_score,
    "log_loss": metrics.log_loss,
}


def _random_pair(name: str, rng: np.random.Generator) -> tuple[Any, Any]:
    n = int(rng.integers(5, 200))
    if name in ("accuracy", "macro_f1"):
        # The prediction uses a class that the truth may lack, and the other way round.
        return rng.choice(["a", "b", "c"], n).astype(object), rng.choice(["b", "c", "d"], n).astype(object)
    if name in ("auc", "log_loss"):
        truth = rng.permutation(np.arange(n) % 2)
        return truth, rng.random(n).round(int(rng.integers(1, 4)))  # rounding makes ties, 0s and 1s
    return rng.poisson(3.0, n).astype(float), rng.normal(3.0, 2.0, n)


@pytest.mark.parametrize("name", METRICS)
def test_metric_equals_scikit_learns(name: str) -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        truth, predicted = _random_pair(name, rng)
        assert METRICS[name](truth, predicted) == pytest.approx(REFERENCES[name](truth, predicted), rel=1e-6)


def _metric_and_answers(tmp_path: Path, name: str, answers: list[Any]) -> tuple[Any, pd.DataFrame]:
    spec = CATALOGUE[name]
    path = tmp_path / "metric.py"
    path.write_text(render_metric(spec))
    ids = np.arange(11, 11 + len(answers))
    return load_metric_class(path)(), pd.DataFrame({spec.id_column: ids, spec.target: answers})


def test_rows_are_matched_by_id_not_by_order(tmp_path: Path) -> None:
    metric, answers = _metric_and_answers(tmp_path, "car_fuel_economy", [10.0, 20.0, 30.0])
    assert metric.evaluate(answers, answers.iloc[::-1]) == 0.0


def test_ids_written_as_text_are_matched_as_numbers(tmp_path: Path) -> None:
    metric, answers = _metric_and_answers(tmp_path, "car_fuel_economy", list(range(0, 2000)))
    submission = answers.assign(car_id=answers["car_id"].astype(str)).sort_values("car_id")
    metric.validate_submission(submission, answers)
    assert metric.evaluate(answers, submission) == 0.0


def test_whole_numbers_written_as_floats_are_the_same_labels(tmp_path: Path) -> None:
    metric, answers = _metric_and_answers(tmp_path, "titanic_survival", [0, 1, 1, 0])
    assert metric.evaluate(answers, answers.assign(Survived=[0.0, 1.0, 1.0, 1.0])) == 0.75


def test_metric_carries_its_name_and_direction(tmp_path: Path) -> None:
    metric, _ = _metric_and_answers(tmp_path, "seattle_weather", ["sun"])
    assert (metric.name, metric.value, metric.higher_is_better) == ("macro_f1", "weather", True)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda t: t.drop(columns="mpg"), "Missing column"),
        (lambda t: t.rename(columns={"car_id": "id"}), "Missing column"),
        (lambda t: t.iloc[:-1], "Expected 3 rows, got 2"),
        (lambda t: t.assign(car_id=[11, 12, 99]), "not those of test.csv"),
        (lambda t: t.assign(car_id=[11, 12, 12]), "duplicates"),
        (lambda t: t.assign(mpg=[1.0, np.nan, 2.0]), "finite"),
        (lambda t: t.assign(mpg=[1.0, np.inf, 2.0]), "finite"),
        (lambda t: t.assign(mpg=["many", "few", "two"]), "finite"),
    ],
)
def test_bad_submission_is_refused_with_a_reason(tmp_path: Path, change: Any, complaint: str) -> None:
    metric, answers = _metric_and_answers(tmp_path, "car_fuel_economy", [10.0, 20.0, 30.0])
    metric.validate_submission(answers, answers)
    with pytest.raises(Exception, match=complaint) as refusal:
        metric.validate_submission(change(answers.copy()), answers)
    assert type(refusal.value).__name__ == "InvalidSubmissionError"


def test_log_loss_refuses_what_is_no_probability(tmp_path: Path) -> None:
    metric, answers = _metric_and_answers(tmp_path, "presidential_vote_1996", [0, 1])
    with pytest.raises(Exception, match="between 0 and 1"):
        metric.validate_submission(answers.assign(voted_republican=[0.5, 1.2]), answers)
