"""Scores a submission with DSBench's own evaluation script of a task, run unchanged as a program.

::

    <name>_eval.py --path FOLDER --name NAME --answer_file CSV --predict_file CSV     writes FOLDER/NAME/result.txt
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from wmrl_gym.envs.dsbench.relative_gap import read_result
from wmrl_gym.envs.mle_dojo.metric_shim import InvalidSubmissionError

if TYPE_CHECKING:
    import pandas as pd

LIMIT_SECONDS = 300.0
NAME = "task"


@dataclass(frozen=True)
class EvaluationScript:
    """A task's evaluation script as a metric: validates a submission and scores it."""

    path: Path
    higher_is_better: bool
    limit_seconds: float = LIMIT_SECONDS

    def validate_submission(self, submission: pd.DataFrame, answers: pd.DataFrame) -> str:
        """Refuse what the script would score wrongly without noticing.

        Raises:
            InvalidSubmissionError: if rows or columns are missing, or rows are of other ids than the answers'.
        """
        if len(submission) != len(answers):
            raise InvalidSubmissionError(f"the submission has {len(submission)} rows, expected {len(answers)}")
        missing = [name for name in answers.columns if name not in submission.columns]
        if missing:
            raise InvalidSubmissionError(f"the submission lacks the columns {', '.join(map(str, missing))}")
        key = answers.columns[0]
        if answers[key].is_unique and not submission[key].isin(answers[key]).all():
            raise InvalidSubmissionError(f"the submission has values of {key} that the test table has not")
        if answers[key].is_unique and not submission[key].is_unique:
            raise InvalidSubmissionError(f"the submission has values of {key} more than once")
        return "Submission is valid."

    def evaluate(self, answers: pd.DataFrame, submission: pd.DataFrame) -> float:
        """The score that the script writes.

        The scripts trust the order of the rows (they sort and throw the result away), so the rows are put into the
        order of the answers first. A submission in that order is scored as DSBench does.

        Raises:
            ValueError: if the script fails; the message is the last line of its error output.
            TimeoutError: if it does not end in time.
        """
        with tempfile.TemporaryDirectory(prefix="wmrl-dsbench-") as folder:
            answer_file, predict_file = Path(folder) / "answers.csv", Path(folder) / "predictions.csv"
            (Path(folder) / NAME).mkdir()
            answers.to_csv(answer_file, index=False)
            _in_order(submission, answers).to_csv(predict_file, index=False)
            arguments = ["--path", folder, "--name", NAME]
            arguments += ["--answer_file", str(answer_file), "--predict_file", str(predict_file)]
            self._run(arguments)
            result = Path(folder) / NAME / "result.txt"
            if not result.is_file():
                raise ValueError(f"{self.path.name} wrote no result")
            return read_result(result)

    def _run(self, arguments: list[str]) -> None:
        command = [sys.executable, "-W", "ignore", str(self.path), *arguments]
        threads = {"OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1")}
        try:
            done = subprocess.run(
                command,
                capture_output=True,
                text=True,
                timeout=self.limit_seconds,
                env={**os.environ, **threads},
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise TimeoutError(f"{self.path.name} took more than {self.limit_seconds:g} seconds") from None
        if done.returncode != 0:
            lines = done.stderr.strip().splitlines()
            raise ValueError(lines[-1] if lines else f"{self.path.name} ended with exit code {done.returncode}")


def _in_order(submission: pd.DataFrame, answers: pd.DataFrame) -> pd.DataFrame:
    key = answers.columns[0]
    if key not in submission.columns or not answers[key].is_unique:
        return submission
    return submission.set_index(key, drop=False).loc[answers[key]].reset_index(drop=True)
