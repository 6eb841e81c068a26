"""A verdict in the sandbox's words, so that an agent cannot tell a prediction from a run by its tone."""

from __future__ import annotations

from collections.abc import Sequence

from wmrl_gym.envs.mle_dojo.feedback import FeedbackStyle, exception_name, render_feedback
from wmrl_gym.envs.mle_dojo.ladder import Status
from wmrl_gym.envs.mle_dojo.runner import SCRIPT_NAME
from wmrl_gym.scriptcheck.overview import Overview
from wmrl_gym.scriptcheck.verdicts import Verdict
from wmrl_gym.world_models.llm_static_checker.judging import Judgement


def feedback_text(
    judgement: Judgement,
    overview: Overview,
    lines: Sequence[str],
    *,
    syntax_problem: str | None = None,
    wall_seconds: float | None = None,
    max_chars: int = 2000,
    style: FeedbackStyle | None = None,
) -> str:
    """What the agent is told about a judgement on a script of these lines."""
    decisive = judgement.decisive
    stderr, problem = syntax_problem or "", None
    if decisive is not None and judgement.status is Status.RUNTIME_ERROR:
        stderr = traceback_text(decisive, lines)
    elif decisive is not None and judgement.status is Status.INVALID_SUBMISSION:
        problem = decisive.feedback or decisive.reason or None
    return render_feedback(
        judgement.status,
        stderr=stderr,
        percentile=judgement.percentile,
        metric=overview.metric,
        higher_is_better=overview.higher_is_better,
        max_chars=max_chars,
        problem=problem,
        wall_seconds=wall_seconds,
        style=style,
    )


def traceback_text(verdict: Verdict, lines: Sequence[str]) -> str:
    """The traceback that a failing verdict foretells; "" if it says neither what fails nor how.

    Models give the last line more often than the whole: the rest follows from the number of the line.
    """
    told = verdict.feedback.strip()
    if told.startswith("Traceback"):
        return told
    error = _error(verdict, told)
    if not error:
        return ""
    frame = []
    if verdict.line is not None:
        frame.append(f'  File "{SCRIPT_NAME}", line {verdict.line}, in <module>')
        frame += [f"    {code}" for code in [lines[verdict.line - 1].strip()] if code]
    return "\n".join(["Traceback (most recent call last):", *frame, error])


def _error(verdict: Verdict, told: str) -> str:
    last = told.splitlines()[-1].strip() if told else ""
    if not last or verdict.exception is None or exception_name(last) is not None:
        return last or verdict.exception or ""
    return f"{verdict.exception}: {last}"
