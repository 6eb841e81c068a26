"""Grading the bytes of a submission."""

from __future__ import annotations

import math
import shutil
import time
from pathlib import Path

import pandas as pd
import pytest

from wmrl_gym.envs.mle_dojo.competition import Competition, load_competition


@pytest.fixture
def wine(data_root: Path) -> Competition:
    return load_competition(data_root, "wine")


@pytest.fixture
def diabetes(data_root: Path) -> Competition:
    return load_competition(data_root, "diabetes")


def csv(table: pd.DataFrame) -> bytes:
    return table.to_csv(index=False).encode()


def with_metric(data_root: Path, tmp_path: Path, body: str) -> Competition:
    """Wine with another metric."""
    root = Path(shutil.copytree(data_root, tmp_path / "copy"))
    (root / "wine/utils/metric.py").write_text(
        "from mledojo.metrics.base import CompetitionMetrics, InvalidSubmissionError\n"
        "class M(CompetitionMetrics):\n"
        "    def validate_submission(self, submission, ground_truth):\n        return 'fine'\n"
        "    def evaluate(self, y_true, y_pred):\n" + body
    )
    return load_competition(root, "wine")


def test_the_answers_themselves_reach_the_top(wine: Competition) -> None:
    grade = wine.grade(csv(wine.answers))
    assert (grade.raw_score, grade.percentile, grade.problem) == (1.0, 1.0, None)


def test_row_order_does_not_matter_and_grading_changes_no_state(wine: Competition) -> None:
    shuffled = csv(wine.answers.sample(frac=1.0, random_state=1))
    assert wine.grade(shuffled) == wine.grade(shuffled) == wine.grade(csv(wine.answers))


def test_percentile_zero_is_a_valid_grade(diabetes: Competition) -> None:
    grade = diabetes.grade(csv(diabetes.sample_submission))
    assert grade.valid
    assert grade.percentile == 0.0
    assert grade.raw_score is not None and grade.raw_score > 80


def test_a_middling_submission_is_ranked_between(diabetes: Competition) -> None:
    table = diabetes.answers.copy()
    table["progression"] = table["progression"] + 57.0
    grade = diabetes.grade(csv(table))
    assert grade.raw_score == pytest.approx(57.0)
    assert grade.percentile == 0.5  # two of four scores are at least as bad


@pytest.mark.parametrize("content", [b"", b"\n \n", b"wine_id,cultivar\n", b"\x00\x01\x02", b"\xff\xfe,\xff\n\xff,1\n"])
def test_bytes_that_are_no_table_are_an_invalid_submission(wine: Competition, content: bytes) -> None:
    grade = wine.grade(content)
    assert not grade.valid and grade.known
    assert grade.problem is not None and "submission.csv" in grade.problem


def test_an_empty_file_is_called_empty(wine: Competition) -> None:
    assert wine.grade(b"").problem == "submission.csv is empty"


def test_the_metric_s_own_objection_is_passed_on(wine: Competition) -> None:
    short = wine.grade(csv(wine.answers.head(5)))
    assert short.problem == f"Number of rows in submission (5) does not match ground truth ({len(wine.answers)})."
    renamed = wine.grade(csv(wine.answers.rename(columns={"cultivar": "kind"})))
    assert renamed.problem == "Missing required columns in submission: cultivar."


def test_missing_predictions_are_refused_even_where_the_metric_would_skip_them(diabetes: Competition) -> None:
    table = diabetes.answers.astype({"progression": float})
    table.loc[1:, "progression"] = math.nan  # one right answer and no others: a mean without NaN would be perfect
    grade = diabetes.grade(csv(table))
    assert not grade.valid
    assert grade.problem == f"column 'progression' has missing values (NaN) in {len(table) - 1} of {len(table)} rows"


def test_infinite_predictions_reach_nothing(diabetes: Competition) -> None:
    table = diabetes.answers.astype({"progression": float})
    table.loc[0, "progression"] = math.inf
    assert diabetes.grade(csv(table)).percentile == 0.0


def test_words_for_numbers_are_an_invalid_submission_with_the_reason(diabetes: Competition) -> None:
    table = diabetes.answers.astype({"progression": str})
    table["progression"] = "much"
    grade = diabetes.grade(csv(table))
    assert grade.known and not grade.valid
    assert grade.problem is not None and grade.problem.startswith("the predictions cannot be scored (")
    assert "'str'" in grade.problem


def test_a_metric_that_fails_on_the_answers_says_nothing_about_the_submission(data_root: Path, tmp_path: Path) -> None:
    broken = with_metric(data_root, tmp_path, "        return y_true['no_such_column'].mean()\n")
    grade = broken.grade(csv(broken.answers))
    assert not grade.known
    assert grade.percentile is None


def test_a_metric_that_fails_on_this_submission_only_makes_it_invalid(data_root: Path, tmp_path: Path) -> None:
    picky = with_metric(
        data_root,
        tmp_path,
        "        if (y_pred['cultivar'] > 2).any():\n"
        "            raise ValueError('unknown class')\n"
        "        return 1.0\n",
    )
    grade = picky.grade(csv(picky.answers.assign(cultivar=7)))
    assert grade.known and not grade.valid


def test_an_exception_s_text_does_not_carry_answers_out(data_root: Path, tmp_path: Path) -> None:
    leaky = with_metric(
        data_root,
        tmp_path,
        "        if (y_pred['cultivar'] == 7).any():\n"
        "            raise ValueError(f\"expected 'secret{y_true['cultivar'].sum()}' and 31415, found 7\")\n"
        "        return 1.0\n",
    )
    problem = leaky.grade(csv(leaky.answers.assign(cultivar=7))).problem
    assert problem is not None
    assert "secret" not in problem and "31415" not in problem
    assert "found 7" in problem  # the agent's own value may be told back


def test_an_endless_or_very_wide_table_is_refused_before_the_metric_sees_it(wine: Competition) -> None:
    rows = b"wine_id,cultivar\n" + b"1,1\n" * (len(wine.answers) * 4 + 2000)
    assert "rows" in str(wine.grade(rows).problem)
    columns = ",".join(f"c{i}" for i in range(5000)).encode() + b"\n" + b",".join([b"1"] * 5000) + b"\n"
    assert "5000 columns" in str(wine.grade(columns).problem)


def test_a_long_objection_is_cut(data_root: Path, tmp_path: Path) -> None:
    wordy = with_metric(data_root, tmp_path, "        raise InvalidSubmissionError('x' * 10_000)\n")
    problem = wordy.grade(csv(wordy.answers)).problem
    assert problem is not None and len(problem) < 500


def test_a_metric_that_ends_the_process_ends_only_the_grading(data_root: Path, tmp_path: Path) -> None:
    quitting = with_metric(data_root, tmp_path, "        raise SystemExit(3)\n")
    assert not quitting.grade(csv(quitting.answers)).known
    picky = with_metric(
        data_root,
        tmp_path / "picky",
        "        if (y_pred['cultivar'] == 7).any():\n            raise SystemExit('no')\n        return 1.0\n",
    )
    grade = picky.grade(csv(picky.answers.assign(cultivar=7)))
    assert grade.known and not grade.valid


@pytest.mark.parametrize(
    ("submission", "told"),
    [
        (b"\n" + b"a," * 40_000 + b"a\n1\n", "has 40001 columns, expected 2"),
        (b"\r\n\r\n" + b"a," * 40_000 + b"a\n1\n", "has 40001 columns, expected 2"),
        (b"wine_id,cultivar\n" + b"1," * 59_999 + b"1\n", "a row of 60000 fields, expected 2"),
        (b"wine_id,cultivar\n" + b'"\n",' * 60_000 + b"1\n", "a row of 60001 fields, expected 2"),
        (b"wine_id,cultivar\n" + b'a"b,' * 60_000 + b"1\n", "a row of 60001 fields, expected 2"),
    ],
    ids=["second line is the header", "third line", "one row", "quoted line breaks", "odd quotes"],
)
def test_a_wide_row_anywhere_is_refused_at_once(wine: Competition, submission: bytes, told: str) -> None:
    started = time.process_time()
    grade = wine.grade(submission)
    assert grade.known and told in str(grade.problem)
    assert time.process_time() - started < 2.0


def test_commas_within_quotes_are_no_fields(wine: Competition) -> None:
    table = wine.answers.assign(note=["a,\n" * 1000 + 'say ""x""'] * len(wine.answers))
    assert wine.grade(csv(table)) == wine.grade(csv(wine.answers.assign(note="x")))


def test_a_metric_s_endless_message_is_not_searched_for_word_by_word(data_root: Path, tmp_path: Path) -> None:
    wordy = with_metric(
        data_root,
        tmp_path,
        "        if (y_pred['cultivar'] == 7).any():\n"
        "            raise ValueError('found ' + '12345 ' * 300_000)\n"
        "        return 1.0\n",
    )
    long = csv(wordy.answers.assign(cultivar=7, note="x" * 20_000))
    started = time.process_time()
    assert "found ..." in str(wordy.grade(long).problem)
    assert time.process_time() - started < 5.0
