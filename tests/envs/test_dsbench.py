"""DSBench's tasks from its own files: loading, grading by its scripts, and a game in the real sandbox."""

from __future__ import annotations

import json
import math
import pickle
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import gymnasium as gym
import numpy as np
import pandas as pd
import pytest
from gymnasium.utils.env_checker import check_env

import wmrl_gym  # noqa: F401 - registers the environments
from wmrl_gym.cli.main import main
from wmrl_gym.core import Submission
from wmrl_gym.envs.dsbench.env import DSBenchEnv, DSBenchRunner
from wmrl_gym.envs.dsbench.relative_gap import relative_gap
from wmrl_gym.envs.dsbench.task import DSBenchTask, load_task
from wmrl_gym.envs.dsbench.tasks import category, dsbench_tasks, task_categories
from wmrl_gym.envs.mle_dojo.competition import CompetitionError

from .dsbench_root import write_mledojo_package, write_root
from .scripts import fenced

GOOD = """\
import pandas as pd
from sklearn.linear_model import Ridge
train = pd.read_csv(f"{DATA_DIR}/train.csv")
test = pd.read_csv(f"{DATA_DIR}/test.csv")
model = Ridge().fit(train.drop(columns=["id", "progression"]), train["progression"])
out = pd.DataFrame({"id": test["id"], "progression": model.predict(test.drop(columns="id"))})
out.to_csv(SUBMISSION_PATH, index=False)
"""
PEEK = """\
import glob, os
places = [ROOT, f"{DATA_DIR}/../answers", f"{DATA_DIR}/../../answers", "/answers", "/data/answers"]
found = [path for place in places for path in glob.glob(f"{place}/**/*.*", recursive=True)]
raise SystemExit(f"found {found} beside {sorted(os.listdir(DATA_DIR))}")
"""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_root(tmp_path_factory.mktemp("data_modeling"))


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_mledojo_package(tmp_path_factory.mktemp("competitions"))


@pytest.fixture
def wine(root: Path) -> DSBenchTask:
    return load_task(root, "wine-kinds")


def csv(table: pd.DataFrame) -> bytes:
    return table.to_csv(index=False).encode()


def test_the_layout_is_read_unchanged(root: Path) -> None:
    before = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    wine, diabetes = load_task(root, "wine-kinds"), load_task(root, "diabetes-progress")
    assert (wine.metric, wine.higher_is_better, wine.sample_file) == ("accuracy", True, "sample_submission.csv")
    assert (diabetes.metric, diabetes.higher_is_better, diabetes.sample_file) == ("rmse", False, "sampleSubmission.csv")
    for task in (wine, diabetes):
        contract = task.overview.contract
        assert contract.rows == len(task.answers) != len(task.sample_submission)
        assert contract.columns == tuple(task.answers.columns) and contract.id_column == "id"
        assert "Predict" in task.overview.description
        assert pickle.loads(pickle.dumps(task)) == task
        task.grade(csv(task.answers))
    assert before == {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_overview_names_the_test_table_where_the_sample_has_other_rows(root: Path) -> None:
    observation, _ = DSBenchEnv("wine-kinds", root, score="relative_gap").reset()
    assert "60 rows, one for each id of the test table" in observation and "target columns: cultivar" in observation


def test_scores_are_the_scripts_own(root: Path, wine: DSBenchTask) -> None:
    answers, half = wine.answers, wine.answers.copy()
    half.loc[: len(half) // 2 - 1, "cultivar"] = -1
    grade = wine.grade(csv(half))
    assert grade.raw_score == 0.5 and grade.details["relative_gap"] == pytest.approx((0.5 - 0.4) / 0.6)
    assert grade.percentile is None
    diabetes = load_task(root, "diabetes-progress")
    constant = diabetes.answers.assign(progression=150.0)
    expected = math.sqrt(np.mean((diabetes.answers["progression"] - 150.0) ** 2))
    grade = diabetes.grade(csv(constant))
    assert grade.raw_score == pytest.approx(expected)
    assert grade.details["relative_gap"] == pytest.approx((80 - expected) / 80)
    assert wine.grade(csv(answers)).details["relative_gap"] == 1.0


def test_shuffled_rows_score_as_ordered_ones_although_the_script_trusts_their_order(
    wine: DSBenchTask, tmp_path: Path
) -> None:
    shuffled = wine.answers.sample(frac=1.0, random_state=1)
    shuffled.to_csv(tmp_path / "p.csv", index=False)
    (tmp_path / "t").mkdir()
    arguments = ["--path", str(tmp_path), "--name", "t", "--predict_file", str(tmp_path / "p.csv")]
    command = [sys.executable, str(wine.metric_path), *arguments, "--answer_file", str(wine.answers_path)]
    subprocess.run(command, check=True)
    assert float((tmp_path / "t" / "result.txt").read_text()) < 0.6
    assert wine.grade(csv(shuffled)).raw_score == 1.0


def test_what_the_script_would_score_without_noticing_is_invalid(wine: DSBenchTask) -> None:
    answers = wine.answers
    for table, word in (
        (answers.iloc[:-1], "rows"),
        (answers.drop(columns="cultivar"), "lacks the columns cultivar"),
        (answers.assign(id=answers["id"] + 1), "values of id"),
        (answers.assign(id=answers["id"].iloc[0]), "more than once"),
        (answers.assign(cultivar=[None, *answers["cultivar"][1:]]), "missing values"),
    ):
        grade = wine.grade(csv(table))
        assert not grade.valid and grade.known and word in str(grade.problem), grade


def test_a_script_that_fails_on_a_submission_tells_no_answers(root: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(root, tmp_path / "copy"))
    script = copy / "evaluation" / "wine-kinds_eval.py"
    fails = "if 'red' in set(predictions['cultivar']):\n    raise ValueError('red is not %r, at 4711.5' % 'secret')\n"
    script.write_text(script.read_text().replace("performance =", f"{fails}performance ="))
    task = load_task(copy, "wine-kinds")
    grade = task.grade(csv(task.answers.assign(cultivar="red")))
    assert not grade.valid and grade.known and grade.problem is not None
    assert "ValueError: red is not" in grade.problem
    assert "secret" not in grade.problem and "4711" not in grade.problem


def test_a_script_that_always_fails_leaves_the_submission_unknown(root: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(root, tmp_path / "copy"))
    (copy / "evaluation" / "wine-kinds_eval.py").write_text("raise ValueError('broken')\n")
    task = load_task(copy, "wine-kinds")
    assert not task.grade(csv(task.answers)).known


def test_relative_gap_in_both_directions() -> None:
    assert relative_gap(0.7, 0.4, 1.0) == pytest.approx(0.5) and relative_gap(0.3, 0.4, 1.0) == 0.0
    assert relative_gap(20.0, 80.0, 0.0) == pytest.approx(0.75) and relative_gap(90.0, 80.0, 0.0) == 0.0
    assert relative_gap(math.nan, 0.4, 1.0) == 0.0
    with pytest.raises(ValueError, match="no scale"):
        relative_gap(0.5, 1.0, 1.0)


def test_percentiles_are_mledojos_by_its_metric_and_leaderboard(root: Path, package: Path) -> None:
    """Another metric than DSBench's would be ranked wrongly: the board is of the root of the mean squared error."""
    task = load_task(root, "diabetes-progress", package, needs_leaderboard=True)
    grade = task.grade(csv(task.answers.assign(progression=task.answers["progression"] + 57.0)))
    assert grade.raw_score == pytest.approx(57.0) and grade.percentile == 0.5
    assert grade.details["relative_gap"] == pytest.approx(23 / 80)
    assert load_task(root, "wine-kinds", package).ranking is None


def test_a_percentile_without_leaderboard_is_refused_with_what_to_do(root: Path, package: Path) -> None:
    with pytest.raises(CompetitionError, match=r"env\.score=relative_gap"):
        DSBenchEnv("wine-kinds", root, competitions_dir=package)


def test_missing_files_are_listed(root: Path, tmp_path: Path) -> None:
    with pytest.raises(CompetitionError, match=r"save_performance\.zip") as raised:
        load_task(tmp_path, "titanic")
    assert "titanic_eval.py" in str(raised.value) and "test_answer.csv" in str(raised.value)
    copy = Path(shutil.copytree(root, tmp_path / "copy"))
    (copy / "data" / "data_resplit" / "diabetes-progress" / "sampleSubmission.csv").unlink()
    with pytest.raises(CompetitionError, match="no sample submission"):
        load_task(copy, "diabetes-progress")
    (copy / "save_performance" / "GT" / "wine-kinds" / "result.txt").write_text("nothing")
    with pytest.raises(CompetitionError, match="expected one number"):
        load_task(copy, "wine-kinds")


def test_gymnasium_accepts_the_environment(root: Path) -> None:
    env = gym.make("wmrl/DSBench-v0", competition=["wine-kinds", "diabetes-progress"], data_root=root,
                   score="relative_gap", max_turns=2)  # fmt: skip
    check_env(env.unwrapped, skip_render_check=True)


def test_a_game_is_played_with_the_real_sandbox(root: Path, package: Path) -> None:
    env = DSBenchEnv(
        "diabetes-progress", root, max_turns=3, competitions_dir=package, sandbox_limits={"wall_seconds": 90}
    )
    env.reset(seed=0)
    *_, crashed = env.step(fenced("1 / 0"))
    assert crashed["status"] == "runtime_error"
    observation, reward, _, _, info = env.step(fenced(GOOD))
    assert info["status"] == "valid" and info["percentile"] in (0.75, 0.5) and "rmse" in observation
    assert reward == pytest.approx(0.5 + 0.5 * info["percentile"] - 0.1)
    *_, terminated, _, info = env.step("no code at all")
    assert terminated and info["status"] == "no_code"


def test_answers_are_out_of_a_scripts_reach(root: Path) -> None:
    script = PEEK.replace("ROOT", repr(str(root)))
    outcome = DSBenchRunner(root, score="relative_gap")(Submission("wine-kinds", script, {}))
    assert "found [] beside ['sample_submission.csv', 'test.csv', 'train.csv']" in outcome.feedback


def test_ladder_is_climbed_by_the_relative_gap_and_failures_have_none(root: Path) -> None:
    runner = DSBenchRunner(root, score="relative_gap", sandbox_start="warm")
    good = runner(Submission("diabetes-progress", GOOD, {}))
    assert good.score == pytest.approx(0.5 + 0.5 * good.details["relative_gap"]) and good.details["percentile"] is None
    failed = runner(Submission("diabetes-progress", "1/0", {}))
    assert failed.details["relative_gap"] is None and failed.score == 0.1


def test_what_grades_differs_in_the_key_of_a_cache(root: Path, package: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(root, tmp_path / "copy"))
    (copy / "save_performance" / "baseline" / "diabetes-progress" / "result.txt").write_text("90.0")
    runners = [DSBenchRunner(root), DSBenchRunner(root, competitions_dir=package), DSBenchRunner(copy)]
    for runner in runners:
        runner.score = "raw"
    assert len({runner.environment_key(["diabetes-progress"]) for runner in runners}) == 3


def test_74_tasks_in_four_categories() -> None:
    assert len(dsbench_tasks()) == len(set(dsbench_tasks())) == 74
    assert Counter(task_categories().values()) == {"regression": 30, "binary": 22, "multiclass": 13, "other": 9}
    assert task_categories()["titanic"] == "multiclass" and category("Roc Auc Score") == "binary"
    assert category("Mean Squared Log Error") == "regression" and category("MAP@{K}") == "other"


@pytest.mark.slow
def test_evaluate_command_reports_the_relative_gap(root: Path, tmp_path: Path) -> None:
    overrides = ["env=dsbench", f"env.data_root={root}", "tasks.held_out=[diabetes-progress,wine-kinds]"]
    overrides += [
        "env.score=relative_gap",
        "tasks.measure=relative_gap",
        "env.overview_style=compact",
        "env.max_turns=1",
    ]
    overrides += ["policy=fixed_pipeline", "evaluation.samples=1", "env.sandbox_limits.wall_seconds=90", "threads=1"]
    assert main(["evaluate", *overrides, f"output={tmp_path}"]) == 0
    data = json.loads((tmp_path / "evaluation.json").read_text())
    scores = {row["name"]: row["score"]["value"] for row in data["summary"]["rows"] if row["kind"] == "task"}
    assert scores["wine-kinds"] > 0.85 and 0.1 < scores["diabetes-progress"] < 0.5
    assert "| task | category | relative gap | valid | pass@1 | All@1 |" in (tmp_path / "evaluation.md").read_text()


def test_training_on_it_is_refused_unless_tasks_are_named(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "env=dsbench", f"env.data_root={root}"]) == 2
    assert "no training tasks" in capsys.readouterr().err


def test_without_a_name_all_tasks_that_are_there_are_played(root: Path, tmp_path: Path) -> None:
    assert {"wine-kinds", "diabetes-progress"} <= set(DSBenchEnv(data_root=root, score="relative_gap").competitions)
    with pytest.raises(CompetitionError, match="no task of DSBench lies in"):
        DSBenchEnv(data_root=tmp_path)
