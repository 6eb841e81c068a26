"""Scripts really run in the sandbox, and are graded."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from wmrl_gym.core import Submission
from wmrl_gym.envs.mle_dojo import answer_sources
from wmrl_gym.envs.mle_dojo.answer_sources import bundled_data_files
from wmrl_gym.envs.mle_dojo.competition import CompetitionError
from wmrl_gym.envs.mle_dojo.runner import CompetitionRunner, raw_quality, syntax_problem
from wmrl_gym.execution.isolation import interpreter_prefixes
from wmrl_gym.execution.limits import SandboxLimits, SandboxResult

from . import scripts


@pytest.fixture(scope="module")
def runner(data_root: Path) -> CompetitionRunner:
    return CompetitionRunner(data_root, sandbox_limits=SandboxLimits(wall_seconds=30.0))


def wine(script: str) -> Submission:
    return Submission("wine", script)


def test_a_good_script_is_graded_on_the_hidden_answers(runner: CompetitionRunner) -> None:
    outcome = runner(wine(scripts.GOOD))
    assert (outcome.status, outcome.source) == ("valid", "execution")
    percentile = outcome.details["percentile"]
    assert outcome.details["raw_score"] > 0.9
    assert percentile >= 0.9
    assert outcome.score == pytest.approx(0.5 + 0.5 * percentile)
    assert "trained on 120" in outcome.feedback
    assert outcome.seconds > 0


def test_the_same_script_has_the_same_outcome_twice(runner: CompetitionRunner) -> None:
    first, second = runner(wine(scripts.CONSTANT)), runner(wine(scripts.CONSTANT))
    assert first.status == "valid"
    assert (first.score, first.feedback, first.details) == (second.score, second.feedback, second.details)


def test_a_crash_is_told_with_exception_and_line(runner: CompetitionRunner) -> None:
    outcome = runner(wine(scripts.CRASH))
    assert (outcome.status, outcome.score) == ("runtime_error", 0.1)
    assert outcome.details["exception"] == "KeyError"
    assert outcome.details["line"] == 4
    assert "KeyError: 'cultivarr'" in outcome.feedback and "reading" in outcome.feedback


@pytest.mark.parametrize(
    ("script", "told"), [(scripts.NOTHING, "submission"), (scripts.EMPTY, "submission.csv is empty")]
)
def test_no_submission_or_an_empty_one_is_invalid(runner: CompetitionRunner, script: str, told: str) -> None:
    outcome = runner(wine(script))
    assert (outcome.status, outcome.score) == ("invalid_submission", 0.2)
    assert told in outcome.feedback


def test_an_endless_script_times_out(data_root: Path) -> None:
    runner = CompetitionRunner(data_root, sandbox_limits=SandboxLimits(wall_seconds=1.0), feedback_style="compact")
    outcome = runner(wine(scripts.ENDLESS))
    assert (outcome.status, outcome.score, outcome.feedback) == ("timeout", 0.1, "error timeout after 1s")
    assert outcome.details["exception"] == "TimeoutError"


def test_answers_and_leaderboards_are_out_of_a_script_s_sight(runner: CompetitionRunner) -> None:
    outcome = runner(wine(scripts.SPY))
    assert "found ['train.csv']" in outcome.feedback


def test_the_data_that_bundled_competitions_are_made_from_is_out_of_sight(runner: CompetitionRunner) -> None:
    files = [path for path in bundled_data_files() if path.name == "digits.csv.gz"]
    assert files and files[0].stat().st_size > 1000
    outcome = runner(wine(f"import os\nprint('size', os.path.getsize({str(files[0])!r}))\n"))
    assert "size 0" in outcome.feedback


def test_a_runner_travels_to_another_process(runner: CompetitionRunner) -> None:
    twin = pickle.loads(pickle.dumps(runner))
    assert twin(wine(scripts.CONSTANT)).details == runner(wine(scripts.CONSTANT)).details


class NoSandbox:
    """Fails the test if anything is run."""

    limits = SandboxLimits()

    def run(self, script: str, data_dir: Path) -> SandboxResult:
        raise AssertionError("this must not be executed")


@dataclass
class CannedSandbox:
    """Answers with one result."""

    result: SandboxResult
    limits: Any = None

    def run(self, script: str, data_dir: Path) -> SandboxResult:
        return self.result


def test_code_that_does_not_compile_is_never_run(data_root: Path) -> None:
    runner = CompetitionRunner(data_root, NoSandbox())
    for script in (scripts.SYNTAX, "x = '\x00'", "\ud800", "(" * 5000):
        outcome = runner(wine(script))
        assert (outcome.status, outcome.score) == ("syntax_error", 0.0)
        assert outcome.details["exception"] == "SyntaxError"
    compact = CompetitionRunner(data_root, NoSandbox(), feedback_style="compact")(wine(scripts.SYNTAX))
    assert compact.feedback == "error SyntaxError: invalid syntax\nline 1: for x in"


def test_a_fault_of_the_machine_is_unknown_and_not_zero(data_root: Path) -> None:
    broken = SandboxResult("infrastructure_error", None, "", "no namespaces", 0.0, None, "the sandbox failed")
    outcome = CompetitionRunner(data_root, CannedSandbox(broken))(wine(scripts.NOTHING))
    assert (outcome.status, outcome.score) == ("unknown", None)


def test_running_out_of_memory_is_a_fault_of_the_script(data_root: Path) -> None:
    killed = SandboxResult("out_of_memory", None, "", "", 1.0, None)
    outcome = CompetitionRunner(data_root, CannedSandbox(killed))(wine(scripts.NOTHING))
    assert (outcome.status, outcome.score, outcome.details["exception"]) == ("out_of_memory", 0.1, "MemoryError")


def test_raw_scores_need_no_leaderboard(data_root: Path, tmp_path: Path) -> None:
    result = SandboxResult("ok", 0, "", "", 1.0, b"wine_id,cultivar\n")
    raw = CompetitionRunner(data_root, CannedSandbox(result), score="raw")
    answers = (data_root / "wine/data/private/test_answer.csv").read_bytes()
    raw.sandbox = CannedSandbox(SandboxResult("ok", 0, "", "", 1.0, answers))
    assert raw(wine(scripts.NOTHING)).score == 1.0


def test_raw_quality_keeps_the_order_of_scores_within_bounds() -> None:
    assert [raw_quality(value, True) for value in (-1.0, 0.3, 0.8, 2.0)] == [0.0, 0.3, 0.8, 1.0]
    assert raw_quality(0.0, False) == 1.0
    assert 1.0 > raw_quality(0.5, False) > raw_quality(3.0, False) > 0.0
    assert raw_quality(float("nan"), True) == raw_quality(float("inf"), False) == 0.0


def test_an_unknown_competition_is_an_error_and_not_an_outcome(data_root: Path) -> None:
    with pytest.raises(CompetitionError, match="no competition 'beer'"):
        CompetitionRunner(data_root, NoSandbox())(Submission("beer", scripts.NOTHING))


def test_only_code_that_compiles_has_no_syntax_problem() -> None:
    assert syntax_problem(scripts.GOOD) is None
    problem = syntax_problem(scripts.SYNTAX)
    assert problem is not None and problem.endswith("SyntaxError: invalid syntax")


def test_a_second_installation_of_the_data_is_hidden_as_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original = next(path for path in bundled_data_files() if path.name == "digits.csv.gz")
    home = next(parent for parent in original.parents if parent.name == "site-packages")
    copy = tmp_path / "lib" / "python3.12" / "site-packages" / original.relative_to(home)
    copy.parent.mkdir(parents=True)
    copy.write_bytes(original.read_bytes())
    monkeypatch.setattr(answer_sources, "interpreter_prefixes", lambda: [*interpreter_prefixes(), tmp_path])
    assert copy in bundled_data_files.__wrapped__()


def test_a_script_too_large_to_compile_is_told_so_and_never_run(data_root: Path) -> None:
    doubled = "".join(f"{' ' * n}try: pass\n{' ' * n}finally:\n" for n in range(18)) + " " * 18 + "pass\n"
    outcome = CompetitionRunner(data_root, NoSandbox())(wine(doubled))
    assert (outcome.status, outcome.score) == ("syntax_error", 0.0)
    assert "compiling the script takes more than" in outcome.feedback


def test_a_machine_that_cannot_compile_says_nothing_of_the_script(
    data_root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stuck(script: str, name: str) -> str | None:
        raise TimeoutError("compiling a script gave no answer")

    monkeypatch.setattr("wmrl_gym.envs.mle_dojo.runner.compile_problem", stuck)
    outcome = CompetitionRunner(data_root, NoSandbox())(wine(scripts.GOOD))
    assert (outcome.status, outcome.score) == ("unknown", None)
