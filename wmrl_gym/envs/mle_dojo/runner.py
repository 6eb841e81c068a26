"""Runs a submitted script in the sandbox, grades what it leaves, and says what it is worth."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol

from wmrl_gym.core import DataFolder, Outcome, Submission
from wmrl_gym.envs.mle_dojo.competition import Competition, default_data_root, shared_competition
from wmrl_gym.envs.mle_dojo.feedback import FeedbackStyle, error_line, exception_name, failing_line, render_feedback
from wmrl_gym.envs.mle_dojo.ladder import RewardLadder, Status
from wmrl_gym.envs.mle_dojo.prepared import prepared_competitions
from wmrl_gym.execution.compiling import compile_problem

if TYPE_CHECKING:
    from wmrl_gym.envs.mle_dojo.grading import Grade
    from wmrl_gym.execution.limits import SandboxLimits, SandboxResult

ScoreKind = Literal["percentile", "relative_gap", "raw"]

SCRIPT_NAME = "script.py"

_SANDBOX_STATUS = {
    "error": Status.RUNTIME_ERROR,
    "timeout": Status.TIMEOUT,
    "out_of_memory": Status.OUT_OF_MEMORY,
}


class ScriptSandbox(Protocol):
    """What the runner needs of a sandbox."""

    limits: Any

    def run(self, script: str, data_dir: Path) -> SandboxResult:
        """Run a script to its end, or to its limits, with the public data."""
        ...


@dataclasses.dataclass
class CompetitionRunner:
    """The true outcome of a submission to a competition. Callable, picklable, safe to call from several threads."""

    score_kinds: ClassVar[tuple[str, ...]] = ("percentile", "raw")
    """What `score` may be."""

    data_root: str | Path | None = None
    """Folder of prepared competitions; None is the default one."""
    sandbox: ScriptSandbox | None = None
    """Where scripts run; None builds a `wmrl_gym.execution.sandbox.Sandbox` when first needed, in which the data files
    that bundled competitions are made from do not show."""
    sandbox_limits: SandboxLimits | None = None
    """Limits of the sandbox that is built; None is its default."""
    ladder: RewardLadder = dataclasses.field(default_factory=RewardLadder)
    competitions_dir: str | Path | None = None
    """MLE-Dojo's ``mledojo/competitions``, for metrics and leaderboards that are not beside the data."""
    score: ScoreKind = "percentile"
    """What a valid submission is scored by: its share of the leaderboard, or the metric itself (`raw_quality`)."""
    feedback_chars: int = 2000
    feedback_style: FeedbackStyle | None = None
    sandbox_start: Literal["fresh", "warm"] = "fresh"
    """"warm" forks each script from a process that has the scientific stack imported: many times faster."""

    def __call__(self, submission: Submission) -> Outcome:
        """Execute and grade ``submission.content``, a Python script, for the competition ``submission.task_id``.

        Raises:
            CompetitionError: if the competition cannot be loaded: that is a mistake in the set-up, not an outcome.
        """
        started = time.perf_counter()
        competition = self.competition(submission.task_id)
        script = str(submission.content)
        try:
            problem = syntax_problem(script)
        except OSError as error:
            return self._outcome(competition, Status.UNKNOWN, started, problem=str(error))
        if problem is not None:
            return self._outcome(competition, Status.SYNTAX_ERROR, started, stderr=problem, exception="SyntaxError")
        result = self._sandbox().run(script, competition.public_dir)
        if result.status == "ok":
            return self._graded(competition, result, started)
        status = _SANDBOX_STATUS.get(result.status, Status.UNKNOWN)
        exception = {Status.TIMEOUT: "TimeoutError", Status.OUT_OF_MEMORY: "MemoryError"}.get(
            status, exception_name(result.stderr)
        )
        return self._outcome(
            competition, status, started, stdout=result.stdout, stderr=result.stderr, exception=exception
        )

    def available(self) -> list[str]:
        """Names of the competitions there are, for whoever names none.

        Raises:
            CompetitionError: if there is none.
        """
        return prepared_competitions(self.data_root)

    def competition(self, name: str) -> Competition:
        """The competition of that name, loaded once per process."""
        return shared_competition(
            self.data_root, name, self.competitions_dir, needs_leaderboard=self.score == "percentile"
        )

    def quality(self, competition: Competition, grade: Grade) -> float | None:
        """What a valid submission is scored by, in [0, 1]."""
        if self.score == "raw" and grade.raw_score is not None:
            return raw_quality(grade.raw_score, competition.higher_is_better)
        return grade.percentile

    def details(self, grade: Grade | None) -> dict[str, Any]:
        """Numbers of a submission for the record; None where there are none."""
        if grade is None:
            return {"percentile": None, "raw_score": None}
        return {"percentile": grade.percentile, "raw_score": grade.raw_score, **grade.details}

    def _sandbox(self) -> ScriptSandbox:
        if self.sandbox is None:
            from wmrl_gym.envs.mle_dojo.answer_sources import bundled_data_files
            from wmrl_gym.execution.sandbox import Sandbox

            self.sandbox = Sandbox(self.sandbox_limits, start=self.sandbox_start, hide=bundled_data_files())
        return self.sandbox

    def environment_key(self, names: Sequence[str]) -> str:
        """What beside a script decides its outcome: stack, limits, ladder, answers and leaderboards; for a cache."""
        from wmrl_gym.execution.environment import environment_key
        from wmrl_gym.execution.limits import SandboxLimits

        private = {name: self.competition(name).grading_key for name in names}
        surroundings: dict[str, Any] = {
            "ladder": self.ladder,
            "score": self.score,
            "private": private,
            "feedback": (self.feedback_style, self.feedback_chars),
        }
        return environment_key(self.sandbox_limits or SandboxLimits(), surroundings, self.sandbox_start)

    def data_folders(self, names: Sequence[str]) -> list[DataFolder]:
        """What is read of these competitions, to bring it to another machine."""
        parts = tuple(names)
        root = Path(self.data_root).expanduser() if self.data_root is not None else default_data_root()
        folders = [DataFolder("data_root", root, parts)]
        if self.competitions_dir is not None:
            folders.append(DataFolder("competitions_dir", Path(self.competitions_dir).expanduser(), parts))
        return folders

    def _graded(self, competition: Competition, result: SandboxResult, started: float) -> Outcome:
        outputs: dict[str, Any] = {"stdout": result.stdout, "stderr": result.stderr}
        if result.submission is None:
            problem = result.submission_problem or "no submission.csv was written to SUBMISSION_PATH"
            return self._outcome(competition, Status.INVALID_SUBMISSION, started, problem=problem, **outputs)
        grade = competition.grade(result.submission)
        if not grade.known:
            return self._outcome(competition, Status.UNKNOWN, started, problem=grade.problem, **outputs)
        if not grade.valid:
            return self._outcome(competition, Status.INVALID_SUBMISSION, started, problem=grade.problem, **outputs)
        return self._outcome(competition, Status.VALID, started, grade=grade, **outputs)

    def _outcome(
        self,
        competition: Competition,
        status: Status,
        started: float,
        *,
        stdout: str = "",
        stderr: str = "",
        problem: str | None = None,
        exception: str | None = None,
        grade: Grade | None = None,
    ) -> Outcome:
        raw_score = None if grade is None else grade.raw_score
        percentile = None if grade is None else grade.percentile
        quality = None if grade is None else self.quality(competition, grade)
        feedback = render_feedback(
            status,
            stdout,
            stderr,
            raw_score,
            percentile,
            competition.metric,
            competition.higher_is_better,
            self.feedback_chars,
            problem=problem,
            wall_seconds=getattr(getattr(self.sandbox, "limits", None), "wall_seconds", None),
            style=self.feedback_style,
        )
        at = failing_line(stderr) if status is Status.RUNTIME_ERROR else None
        return Outcome(
            score=self.ladder.score(status, quality),
            status=status.value,
            feedback=feedback,
            source="execution",
            seconds=time.perf_counter() - started,
            details={
                **self.details(grade),
                "exception": exception,
                "line": None if at is None else at[0],
                "problem": problem or (error_line(stderr) if status is not Status.VALID else None),
            },
        )


def syntax_problem(script: str) -> str | None:
    """Why a script does not compile, as Python's own traceback says it; None if it does.

    It is compiled in a process of its own, under limits, and nothing of it is run.

    Raises:
        OSError: if the machine cannot tell.
    """
    return compile_problem(script, SCRIPT_NAME)


def raw_quality(raw_score: float, higher_is_better: bool) -> float:
    """The metric itself squeezed into [0, 1], for competitions without a leaderboard.

    ``clip(raw, 0, 1)`` where higher is better (accuracy, AUC, R2), ``1 / (1 + max(raw, 0))`` where lower is (errors);
    0 for a score that is not finite.
    """
    if not math.isfinite(raw_score):
        return 0.0
    return min(max(raw_score, 0.0), 1.0) if higher_is_better else 1.0 / (1.0 + max(raw_score, 0.0))
