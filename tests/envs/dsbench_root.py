"""A small folder ``data_modeling`` in exactly DSBench's layout, of real data that ships with scikit-learn."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
from sklearn.datasets import load_diabetes, load_wine

from .conftest import METRIC, RMSE

# In the manner of DSBench's scripts, the sorting that changes nothing included.
SCRIPT = """\
import os.path

import numpy as np
import pandas as pd
import argparse

from sklearn.metrics import accuracy_score, mean_squared_error

parser = argparse.ArgumentParser()

parser.add_argument('--path', type=str, required=True)
parser.add_argument('--name', type=str, required=True)
parser.add_argument('--answer_file', type=str, required=True)
parser.add_argument('--predict_file', type=str, required=True)

parser.add_argument('--value', type=str, default="{target}")

args = parser.parse_args()

answers = pd.read_csv(args.answer_file)
predictions = pd.read_csv(args.predict_file)

answers.sort_values(by=['id'])
predictions.sort_values(by=['id'])

performance = {formula}

with open(os.path.join(args.path, args.name, "result.txt"), "w") as f:
    f.write(str(performance))
"""


def write_task(
    root: Path, name: str, table: pd.DataFrame, target: str, formula: str, results: tuple[float, float], sample: str
) -> None:
    train, test = table.iloc[: len(table) * 2 // 3], table.iloc[len(table) * 2 // 3 :]
    public, private = root / "data" / "data_resplit" / name, root / "data" / "answers" / name
    for folder in (public, private, root / "data" / "task", root / "evaluation"):
        folder.mkdir(parents=True, exist_ok=True)
    train.to_csv(public / "train.csv", index=False)
    test.drop(columns=target).to_csv(public / "test.csv", index=False)
    # Kaggle's own sample, of the test table that DSBench never had.
    pd.DataFrame({"id": range(90_000, 90_007), target: 0}).to_csv(public / sample, index=False)
    test[["id", target]].to_csv(private / "test_answer.csv", index=False)
    (root / "data" / "task" / f"{name}.txt").write_text(
        f"Description\n\nPredict {target}.\n\nEvaluation\n\nAs usual.\n"
    )
    (root / "evaluation" / f"{name}_eval.py").write_text(SCRIPT.format(target=target, formula=formula))
    for which, result in zip(("baseline", "GT"), results, strict=True):
        folder = root / "save_performance" / which / name
        folder.mkdir(parents=True)
        (folder / "result.txt").write_text(str(result))


def write_root(root: Path) -> Path:
    wine = load_wine(as_frame=True).frame.rename(columns={"target": "cultivar"})
    wine = wine.sample(frac=1.0, random_state=0).reset_index(drop=True)
    wine.insert(0, "id", range(500, 500 + len(wine)))
    formula = "accuracy_score(answers[args.value], predictions[args.value])"
    write_task(root, "wine-kinds", wine, "cultivar", formula, (0.4, 1.0), "sample_submission.csv")
    diabetes = load_diabetes(as_frame=True, scaled=False).frame.rename(columns={"target": "progression"})
    diabetes.insert(0, "id", range(len(diabetes)))
    formula = "np.sqrt(mean_squared_error(answers[args.value], predictions[args.value]))"
    write_task(root, "diabetes-progress", diabetes, "progression", formula, (80.0, 0.0), "sampleSubmission.csv")
    return root


def write_mledojo_package(folder: Path) -> Path:
    """MLE-Dojo's ``competitions`` with the diabetes task: leaderboards in "info", a metric in "utils"."""
    home = folder / "diabetes-progress"
    for part in ("info", "utils"):
        (home / part).mkdir(parents=True)
    metric = METRIC.format(name="Diabetes", words="RMSE", target="progression", higher=False, formula=RMSE)
    (home / "utils" / "metric.py").write_text(metric)
    (home / "info" / "private_leaderboard.csv").write_text("rank,score\n1,50.0\n2,55.0\n3,60.0\n4,80.0\n")
    return folder
