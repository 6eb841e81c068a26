"""Checking a script against a task: what would become of it, found out without running any of it."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import Literal

from wmrl_gym.scriptcheck.faults import AnalysisLimit, AnalysisRefusal, Fault
from wmrl_gym.scriptcheck.language.builtin_functions import ScriptExit
from wmrl_gym.scriptcheck.language.names import SUBMISSION_PATH
from wmrl_gym.scriptcheck.limits import MAX_SOURCE, time_limit
from wmrl_gym.scriptcheck.overview import Overview
from wmrl_gym.scriptcheck.scope import Write
from wmrl_gym.scriptcheck.semantics import all_models
from wmrl_gym.scriptcheck.submission import check_submission
from wmrl_gym.scriptcheck.verdicts import RUNTIME_CHECKS, Check, Verdict
from wmrl_gym.scriptcheck.walk.interpreter import Interpreter


@dataclass(frozen=True)
class ScriptReport:
    """What was found out about a script."""

    verdicts: tuple[Verdict, ...]
    """Of every check but the last, in the paper's order: how good a submission is, is not this package's question."""
    ended: Literal["end", "fault", "limit", "refused"]
    """How far the script was followed: to its end, to the exception it dies of, or until it became too much; a script
    that must not be followed at all is refused."""
    reason: str = ""
    """Why it was not followed to its end."""
    submission: Write | None = None
    """The last write to the submission's path (or to an unknown one); None if there is none."""
    seconds: float = 0.0
    """Estimated run time, as far as the script was followed."""


def check_script(
    script: str,
    overview: Overview,
    *,
    budget_seconds: float = 20.0,
    memory_mb: float = 2048.0,
    extra_columns: bool = True,
) -> ScriptReport:
    """Follow a script that compiles, and give a verdict per check.

    It is certain where it fails a script: what it cannot follow, it passes.

    Args:
        script: Python source.
        overview: the task's brief.
        budget_seconds: wall-clock limit that the script would run under.
        memory_mb: its memory limit.
        extra_columns: whether the grader overlooks superfluous columns of a submission.

    Raises:
        SyntaxError: if it does not compile.
    """
    if len(script) > MAX_SOURCE:
        return _refused(f"the script has {len(script)} characters, more than the {MAX_SOURCE} that are analysed")
    tree = ast.parse(script)
    interpreter = Interpreter(all_models(), overview, budget_seconds, memory_mb)
    limit: str | None = None
    fault: Fault | None = None
    try:
        with time_limit():
            fault = interpreter.run(tree)
    except AnalysisRefusal as error:
        return _refused(str(error), interpreter.state.seconds)
    except (AnalysisLimit, RecursionError) as error:
        limit = str(error) or type(error).__name__
    if isinstance(fault, ScriptExit) and fault.peaceful:
        fault = None
    found = _runtime_verdicts(fault, script, limit)
    seconds = interpreter.state.seconds
    if fault is not None:
        found.append(Verdict(Check.SUBMISSION, None, 0.0, reason="not reached"))
        return ScriptReport(tuple(found), "fault", "not reached", seconds=seconds)
    if limit is not None:
        found.append(Verdict(Check.SUBMISSION, None, 0.0, reason=limit))
        return ScriptReport(tuple(found), "limit", limit, seconds=seconds)
    writes = interpreter.state.writes
    found.append(
        check_submission(overview, writes, escaped=interpreter.escaped, tree=tree, extra_columns=extra_columns)
    )
    mine = [write for write in writes if write.path in (SUBMISSION_PATH, None)]
    return ScriptReport(tuple(found), "end", submission=mine[-1] if mine else None, seconds=seconds)


def _refused(reason: str, seconds: float = 0.0) -> ScriptReport:
    """No opinion on anything, so that the script's score is unknown."""
    checks = (check for check in Check if check is not Check.QUALITY)
    return ScriptReport(
        tuple(Verdict(check, None, 0.0, reason=reason) for check in checks), "refused", reason, seconds=seconds
    )


def _runtime_verdicts(fault: Fault | None, script: str, limit: str | None) -> list[Verdict]:
    """Verdicts of the six runtime checks: at most one fails, the one the script dies of."""
    found: list[Verdict] = []
    for check in RUNTIME_CHECKS:
        if fault is not None and fault.check is check:
            found.append(
                Verdict(
                    check,
                    False,
                    fault.confidence,
                    fault.exception,
                    fault.second,
                    fault.line,
                    fault.traceback(script.splitlines()),
                    fault.reason,
                )
            )
        elif limit is not None:
            found.append(Verdict(check, None, 0.0, reason=limit))
        else:
            found.append(Verdict(check, True, 0.8))
    return found
