"""What an agent is told about its script.

Real execution and world models both speak through this module, so that an agent cannot tell them apart by the tone.
Nothing here depends on how long a run took: the same verdict gives the same words.
"""

from __future__ import annotations

import re
from typing import Literal

from wmrl_gym.envs.mle_dojo.ladder import Status

FeedbackStyle = Literal["full", "compact"]
COMPACT_BELOW = 400
"""Where no style is named, fewer characters than this mean the compact one."""

_FRAME = re.compile(r'^\s*File "(?:[^"]*/)?(?:script\.py|<script>|<string>)", line (?P<line>\d+).*$')

_EXCEPTION = re.compile(r"[A-Za-z_][\w.]*(Error|Exception|Interrupt|Exit|Iteration|Warning)\b")


def render_feedback(
    status: Status | str,
    stdout: str = "",
    stderr: str = "",
    raw_score: float | None = None,
    percentile: float | None = None,
    metric: str = "score",
    higher_is_better: bool = True,
    max_chars: int = 2000,
    *,
    problem: str | None = None,
    wall_seconds: float | None = None,
    style: FeedbackStyle | None = None,
) -> str:
    """Feedback text for one outcome, at most `max_chars` characters.

    Args:
        status: what became of the script.
        stdout: what it printed.
        stderr: its error output; for a crash it ends like a Python traceback.
        raw_score: the metric's value, if the submission is valid.
        percentile: share of the leaderboard reached, 0 to 1.
        metric: the metric's name.
        higher_is_better: the metric's direction.
        max_chars: length limit; long outputs keep head and tail.
        problem: why a submission is invalid, or what else there is to say in a few words.
        wall_seconds: the time *limit*, for a time-out.
        style: "full" or "compact"; by default compact for fewer than 400 characters.
    """
    status = Status(status)
    if style is None:
        style = "compact" if max_chars < COMPACT_BELOW else "full"
    if style == "compact":
        text = _compact(status, stderr, raw_score, percentile, metric, problem, wall_seconds)
        return clip_middle(text, max_chars)
    headline = _headline(status, stderr, raw_score, percentile, metric, higher_is_better, problem, wall_seconds)
    return _with_outputs(headline, stdout, stderr, max_chars)


def clip_middle(text: str, max_chars: int) -> str:
    """Cut a text in the middle: the head tells where it began, the tail how it ended."""
    if len(text) <= max_chars:
        return text
    marker = f"\n... {len(text) - max_chars} characters left out ...\n"
    if max_chars <= 2 * len(marker):
        return text[:max_chars]
    room = max_chars - len(marker) - 4  # the number of characters left out grows by the marker's own length
    marker = f"\n... {len(text) - room} characters left out ...\n"
    head = room * 2 // 5
    return text[:head] + marker + text[len(text) - (room - head) :]


def error_line(stderr: str) -> str:
    """The last line of a traceback, for example ``KeyError: 'price'``; "" if there is none."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    named = [line for line in lines if _EXCEPTION.match(line)]
    return named[-1] if named else (lines[-1] if lines else "")


def exception_name(stderr: str) -> str | None:
    """Class of the exception a traceback ends with, without its module; None if there is none."""
    match = re.match(r"(?:[A-Za-z_]\w*\.)*(?P<name>[A-Z]\w*)(?::|$)", error_line(stderr))
    return match["name"] if match is not None else None


def failing_line(stderr: str) -> tuple[int, str] | None:
    """Number and text of the script's own line that failed; None if the traceback does not say."""
    lines = stderr.splitlines()
    found = None
    for position, line in enumerate(lines):
        frame = _FRAME.match(line)
        if frame is not None:
            code = lines[position + 1].strip() if position + 1 < len(lines) else ""
            found = (int(frame["line"]), "" if code.startswith(('File "', "Traceback")) else code)
    return found


def _compact(
    status: Status,
    stderr: str,
    raw_score: float | None,
    percentile: float | None,
    metric: str,
    problem: str | None,
    wall_seconds: float | None,
) -> str:
    if status is Status.VALID:
        rank = "" if percentile is None else f" percentile {percentile:.2f}"
        return f"ok{rank}" + ("" if raw_score is None else f" {metric} {_number(raw_score)}")
    if status is Status.INVALID_SUBMISSION:
        return f"invalid submission: {problem or 'no submission.csv was written'}"
    if status is Status.TIMEOUT:
        return f"error timeout{_after(wall_seconds)}"
    if status is Status.OUT_OF_MEMORY:
        return "error out of memory"
    if status is Status.NO_CODE:
        return f"no code: {problem or 'write one ```python block'}"
    if status is Status.UNKNOWN:
        return "no result: the machine failed"
    at = failing_line(stderr)
    where = f"\nline {at[0]}: {at[1]}".rstrip(": ") if at is not None else ""
    return f"error {problem or error_line(stderr) or 'the script failed'}{where}"


def _headline(
    status: Status,
    stderr: str,
    raw_score: float | None,
    percentile: float | None,
    metric: str,
    higher_is_better: bool,
    problem: str | None,
    wall_seconds: float | None,
) -> str:
    if status is Status.VALID:
        rank = "" if percentile is None else f" It is as good as or better than {percentile:.1%} of the leaderboard."
        value = "" if raw_score is None else f" {metric} = {_number(raw_score)}"
        return f"Valid submission.{value} ({'higher' if higher_is_better else 'lower'} is better).{rank}"
    if status is Status.INVALID_SUBMISSION:
        return f"The script ran, but its submission is invalid: {_sentence(problem or 'no submission.csv was written')}"
    if status is Status.TIMEOUT:
        return f"The script was stopped{_after(wall_seconds)}: it took too long. Nothing was graded."
    if status is Status.OUT_OF_MEMORY:
        return "The script was stopped: it used too much memory. Nothing was graded."
    if status is Status.NO_CODE:
        return f"No code was run: {_sentence(problem or 'the answer held no ```python block')}"
    if status is Status.SYNTAX_ERROR:
        return f"The code does not compile: {_sentence(problem or error_line(stderr))}"
    if status is Status.UNKNOWN:
        return "There is no result: the machine failed, not the script."
    return f"The script failed: {_sentence(problem or error_line(stderr) or 'it ended with an error')}"


def _with_outputs(headline: str, stdout: str, stderr: str, max_chars: int) -> str:
    room = max_chars - len(headline) - 40
    if room < 40:
        return clip_middle(headline, max_chars)
    parts = [headline]
    outputs = [(name, text.strip()) for name, text in (("stderr", stderr), ("stdout", stdout)) if text.strip()]
    for position, (name, text) in enumerate(outputs):
        # An error output shorter than its share leaves the rest to what was printed.
        shown = clip_middle(text, room // (len(outputs) - position))
        room -= len(shown)
        parts.append(f"[{name}]\n{shown}")
    return "\n".join(parts)[:max_chars]


def _sentence(text: str) -> str:
    """With a full stop at the end, unless it ends a sentence already."""
    return text if text.endswith((".", "!", "?")) else f"{text}."


def _after(wall_seconds: float | None) -> str:
    return "" if wall_seconds is None else f" after {wall_seconds:g}s"


def _number(value: float) -> str:
    return f"{value:.4f}" if abs(value) < 1e4 else f"{value:.4g}"
