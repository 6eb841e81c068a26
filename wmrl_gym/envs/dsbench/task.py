"""A data-modelling task in DSBench's own layout, loaded unchanged.

::

    <root>/data/data_resplit/<name>/{train,test,sample_submission}.csv     what an agent may see (data.zip)
    <root>/data/task/<name>.txt                                            the description
    <root>/data/answers/<name>/test_answer.csv                             what it may never see
    <root>/evaluation/<name>_eval.py                                       the metric, as a program
    <root>/save_performance/{baseline,GT}/<name>/result.txt                baseline and best (save_performance.zip)

That is the folder ``data_modeling`` of a check-out with its two archives unpacked in place. There are no leaderboards
in it: percentiles are MLE-Dojo's, whose package holds a leaderboard and a metric for each of these tasks.
"""

from __future__ import annotations

import dataclasses
import os
import re
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from pathlib import Path
from typing import Any

from wmrl_gym.envs.dsbench.evaluation_script import EvaluationScript
from wmrl_gym.envs.dsbench.relative_gap import read_result, relative_gap
from wmrl_gym.envs.dsbench.tasks import METRICS
from wmrl_gym.envs.mle_dojo.competition import Competition, CompetitionError, ranked_by_mledojo
from wmrl_gym.envs.mle_dojo.grading import Grade, grade_submission
from wmrl_gym.envs.mle_dojo.metric_name import recognise_metric

DATA_ROOT_VARIABLE = "WMRL_DSBENCH_ROOT"
_OTHERWISE = {"tabular-playground-series-mar-2022": "mse"}
"""Tasks that DSBench scores by another metric than Kaggle did."""


@dataclass(frozen=True, kw_only=True)
class DSBenchTask(Competition):
    """One loaded task. `metric_path` is its evaluation script."""

    baseline: float
    """Score of DSBench's baseline."""
    best: float
    """Score that counts as a relative gap of 1."""
    ranking: Competition | None = None
    """The same task with MLE-Dojo's metric and leaderboards, for percentiles; None without them."""

    @cached_property
    def metric_class(self) -> Any:  # type: ignore[override]
        """Makes the task's metric."""
        return partial(EvaluationScript, self.metric_path, self.higher_is_better)

    @cached_property
    def higher_is_better(self) -> bool:
        """Whether the best score is above the baseline, as DSBench decides it."""
        return self.best > self.baseline

    @cached_property
    def metric(self) -> str:
        """Short name of the metric: by Kaggle's name, else by the line of the script that computes it."""
        if self.name in _OTHERWISE:
            return _OTHERWISE[self.name]
        script = self.metric_path.read_text(encoding="utf-8", errors="replace")
        computed = "\n".join(re.findall(r"^\s*performance\s*=(.*)$", script, re.MULTILINE))
        found = recognise_metric(computed)
        if found == "mse" and "sqrt" in computed:
            found = "rmse"
        return recognise_metric(METRICS.get(self.name, "")) or found or "score"

    @property
    def grading_key(self) -> Any:
        """What beside a submission decides its grade."""
        script = self.metric_path.read_text(encoding="utf-8", errors="replace")
        ranking = None if self.ranking is None else self.ranking.grading_key
        return [super().grading_key, script, self.baseline, self.best, ranking]

    def grade(self, submission_csv: bytes) -> Grade:
        """Score by the evaluation script, relative gap, and percentile where there is a leaderboard."""
        grade = grade_submission(self, submission_csv)
        if grade.raw_score is None:
            return grade
        gap = relative_gap(grade.raw_score, self.baseline, self.best)
        grade = dataclasses.replace(grade, details={"relative_gap": gap})
        if self.ranking is None:
            return grade
        ranked = grade_submission(self.ranking, submission_csv)
        if ranked.percentile is None:
            return ranked
        return dataclasses.replace(grade, percentile=ranked.percentile)


def default_data_root() -> Path:
    """Where DSBench lies: $WMRL_DSBENCH_ROOT, else ``~/.cache/wmrl_gym/dsbench``."""
    configured = os.environ.get(DATA_ROOT_VARIABLE)
    return Path(configured) if configured else Path.home() / ".cache" / "wmrl_gym" / "dsbench"


def task_parts(name: str) -> list[str]:
    """The files and folders of a task, as paths below the root."""
    return [
        f"data/data_resplit/{name}",
        f"data/task/{name}.txt",
        f"data/answers/{name}",
        f"evaluation/{name}_eval.py",
        f"save_performance/baseline/{name}",
        f"save_performance/GT/{name}",
    ]


def load_task(
    data_root: str | Path | None,
    name: str,
    competitions_dir: str | Path | None = None,
    *,
    needs_leaderboard: bool = False,
) -> DSBenchTask:
    """Load a task and check that everything needed to play and grade it is there.

    Args:
        data_root: DSBench's folder ``data_modeling``; None is `default_data_root`.
        name: of the task.
        competitions_dir: MLE-Dojo's ``mledojo/competitions``, for percentiles; None takes an installed MLE-Dojo.
        needs_leaderboard: whether it is an error that there is no leaderboard.

    Raises:
        CompetitionError: if a file is missing or cannot be used.
    """
    root = Path(data_root).expanduser() if data_root is not None else default_data_root()
    public = root / "data" / "data_resplit" / name
    files = {
        "description": root / "data" / "task" / f"{name}.txt",
        "answers": root / "data" / "answers" / name / "test_answer.csv",
        "script": root / "evaluation" / f"{name}_eval.py",
        "baseline": root / "save_performance" / "baseline" / name / "result.txt",
        "best": root / "save_performance" / "GT" / name / "result.txt",
    }
    _require(name, [public / "train.csv", public / "test.csv", *files.values()])
    baseline, best = (_result(name, files[which]) for which in ("baseline", "best"))
    if baseline == best:
        raise CompetitionError(
            f"DSBench task {name!r} has the same baseline and best score, {best}\n"
            f"  read from: {files['baseline']} and {files['best']}\n  unpack save_performance.zip again."
        )
    task = DSBenchTask(
        name=name,
        public_dir=public,
        answers_path=files["answers"],
        metric_path=files["script"],
        leaderboards=(),
        description_file=files["description"],
        sample_file=_sample_file(name, public),
        rows_as_answers=True,  # the sample may be Kaggle's own, and DSBench split the test tables off anew
        baseline=baseline,
        best=best,
    )
    ranking = ranked_by_mledojo(task, competitions_dir)
    if ranking is None and needs_leaderboard:
        raise CompetitionError(
            f"DSBench task {name!r} has no leaderboard\n"
            f"  looked for MLE-Dojo's metric and leaderboards in: {competitions_dir or 'an installed MLE-Dojo'}\n"
            "  set env.competitions_dir to the mledojo/competitions folder of a check-out, or env.score=relative_gap "
            "tasks.measure=relative_gap for DSBench's own measure."
        )
    return dataclasses.replace(task, ranking=ranking)


def shared_task(
    data_root: str | Path | None,
    name: str,
    competitions_dir: str | Path | None = None,
    *,
    needs_leaderboard: bool = False,
) -> DSBenchTask:
    """`load_task`, once per process."""
    root = str(data_root if data_root is not None else default_data_root())
    package = None if competitions_dir is None else str(competitions_dir)
    return _shared_task(root, name, package, needs_leaderboard)


@lru_cache(maxsize=256)
def _shared_task(root: str, name: str, competitions_dir: str | None, needs_leaderboard: bool) -> DSBenchTask:
    return load_task(root, name, competitions_dir, needs_leaderboard=needs_leaderboard)


def _require(name: str, paths: list[Path]) -> None:
    missing = [path for path in paths if not path.is_file()]
    if missing:
        listing = "\n".join(f"  looked for: {path} (missing)" for path in missing)
        raise CompetitionError(
            f"DSBench task {name!r} is not complete\n{listing}\n"
            "  name DSBench's folder data_modeling, with data.zip and save_performance.zip unpacked in it: "
            f"env.data_root=..., or the variable {DATA_ROOT_VARIABLE}."
        )


def _sample_file(name: str, public: Path) -> str:
    """Name of the sample submission, which is not the same everywhere (sampleSubmission.csv, sample_solution.csv)."""
    tables = sorted(path.name for path in public.glob("*.csv"))
    if "sample_submission.csv" in tables:
        return "sample_submission.csv"
    found = [table for table in tables if re.search(r"submission|sample_?solution", table, re.IGNORECASE)]
    if not found:
        raise CompetitionError(
            f"DSBench task {name!r} has no sample submission\n"
            f"  looked in: {public} (found: {', '.join(tables)})\n  unpack data.zip again."
        )
    return found[0]


def _result(name: str, path: Path) -> float:
    try:
        return read_result(path)
    except ValueError as error:
        raise CompetitionError(f"DSBench task {name!r}: {error}; unpack save_performance.zip again.") from error
