"""Small competitions written by hand in MLE-Dojo's layout, from data that ships with scikit-learn."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from sklearn.datasets import load_diabetes, load_wine

# In the manner of MLE-Dojo's metric files: everything that they use of `mledojo` is imported on line 4.
METRIC = '''\
from typing import Any
import pandas as pd
import numpy as np
from mledojo.metrics.base import CompetitionMetrics, InvalidSubmissionError


class {name}Metrics(CompetitionMetrics):
    """Metric class for the {name} competition using {words}"""

    def __init__(self, value: str = "{target}", higher_is_better: bool = {higher}):
        super().__init__(higher_is_better)
        self.value = value

    def evaluate(self, y_true: pd.DataFrame, y_pred: pd.DataFrame) -> float:
        y_true = y_true.sort_values(by=y_true.columns[0]).reset_index(drop=True)
        y_pred = y_pred.sort_values(by=y_pred.columns[0]).reset_index(drop=True)
        return {formula}

    def validate_submission(self, submission: Any, ground_truth: Any) -> str:
        if len(submission) != len(ground_truth):
            raise InvalidSubmissionError(
                f"Number of rows in submission ({{len(submission)}}) does not match "
                f"ground truth ({{len(ground_truth)}})."
            )
        missing_cols = set(ground_truth.columns) - set(submission.columns)
        if missing_cols:
            raise InvalidSubmissionError(f"Missing required columns in submission: {{', '.join(missing_cols)}}.")
        return "Submission is valid."
'''
ACCURACY = "float(np.mean(y_true[self.value] == y_pred[self.value]))"
RMSE = "float(np.sqrt(np.mean((y_true[self.value] - y_pred[self.value]) ** 2)))"

DESCRIPTION = """### Description

{story}

### Evaluation

Submissions are scored by {words}.

### Files

- train.csv, test.csv, sample_submission.csv
"""


def write_competition(
    root: Path,
    name: str,
    train: pd.DataFrame,
    test: pd.DataFrame,
    answers: pd.DataFrame,
    metric: str,
    words: str,
    boards: dict[str, list[float]],
) -> Path:
    """Write ``root/name`` as MLE-Dojo's prepare script leaves it, plus its metric.py."""
    home = root / name
    public, private = home / "data" / "public", home / "data" / "private"
    for folder in (public, private, home / "utils"):
        folder.mkdir(parents=True)
    train.to_csv(public / "train.csv", index=False)
    test.to_csv(public / "test.csv", index=False)
    sample = answers.copy()
    sample[sample.columns[1:]] = 0
    sample.to_csv(public / "sample_submission.csv", index=False)
    (public / "description.txt").write_text(DESCRIPTION.format(story=f"Predict {answers.columns[1]}.", words=words))
    answers.to_csv(private / "test_answer.csv", index=False)
    for board, scores in boards.items():
        lines = [f"{rank},{score}" for rank, score in enumerate(scores, start=1)]
        (private / f"{board}_leaderboard.csv").write_text("\n".join(["rank,score", *lines]) + "\n")
    (home / "utils" / "metric.py").write_text(metric)
    return home


def write_wine(root: Path, name: str = "wine") -> Path:
    """Three kinds of wine; accuracy; 20 scores from 0.99 down to 0.04 on either board."""
    bunch = load_wine(as_frame=True)
    table = bunch.frame.rename(columns={"target": "cultivar"}).sample(frac=1.0, random_state=0).reset_index(drop=True)
    table.insert(0, "wine_id", range(1000, 1000 + len(table)))
    table["colour"] = ["dark" if value > 5 else "pale" for value in table["color_intensity"]]
    table.loc[3, "ash"] = None
    train, test = table.iloc[:120], table.iloc[120:]
    scores = [0.99 - 0.05 * place for place in range(20)]
    return write_competition(
        root,
        name,
        train,
        test.drop(columns="cultivar"),
        test[["wine_id", "cultivar"]],
        METRIC.format(name="Wine", words="Accuracy", target="cultivar", higher=True, formula=ACCURACY),
        "accuracy",
        {"private": scores, "public": scores},
    )


def write_diabetes(root: Path, name: str = "diabetes") -> Path:
    """Disease progression; RMSE, lower is better; four scores on the private board only."""
    frame = load_diabetes(as_frame=True, scaled=False).frame.rename(columns={"target": "progression"})
    frame.insert(0, "id", range(len(frame)))
    train, test = frame.iloc[:300], frame.iloc[300:]
    return write_competition(
        root,
        name,
        train,
        test.drop(columns="progression"),
        test[["id", "progression"]],
        METRIC.format(name="Diabetes", words="RMSE", target="progression", higher=False, formula=RMSE),
        "the root mean squared error",
        {"private": [50.0, 55.0, 60.0, 80.0]},
    )


@pytest.fixture(scope="session")
def data_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data root with the competitions wine and diabetes. Not to be changed: tests that break things copy it."""
    root = tmp_path_factory.mktemp("competitions")
    write_wine(root)
    write_diabetes(root)
    return root
