"""What an agent is told."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wmrl_gym.envs.mle_dojo.feedback import clip_middle, error_line, exception_name, failing_line, render_feedback
from wmrl_gym.envs.mle_dojo.ladder import Status

TRACEBACK = """Traceback (most recent call last):
  File "script.py", line 12, in <module>
    y = train["pricee"]
        ~~~~~^^^^^^^^^^
  File "/venv/lib/python3.11/site-packages/pandas/core/frame.py", line 4102, in __getitem__
    indexer = self.columns.get_loc(key)
KeyError: 'pricee'
"""


@pytest.mark.parametrize(
    ("status", "arguments", "text"),
    [
        ("valid", {"raw_score": 0.14321, "percentile": 0.62, "metric": "rmse"}, "ok percentile 0.62 rmse 0.1432"),
        ("valid", {"raw_score": 0.5, "metric": "auc"}, "ok auc 0.5000"),
        ("runtime_error", {"stderr": TRACEBACK}, "error KeyError: 'pricee'\nline 12: y = train[\"pricee\"]"),
        ("timeout", {"wall_seconds": 20.0}, "error timeout after 20s"),
        ("out_of_memory", {}, "error out of memory"),
        ("invalid_submission", {"problem": "submission.csv is empty"}, "invalid submission: submission.csv is empty"),
        ("no_code", {}, "no code: write one ```python block"),
        ("unknown", {}, "no result: the machine failed"),
    ],
)
def test_compact_feedback_is_one_or_two_lines(status: str, arguments: dict[str, object], text: str) -> None:
    assert render_feedback(status, style="compact", **arguments) == text  # type: ignore[arg-type]


def test_full_feedback_tells_score_rank_and_output() -> None:
    text = render_feedback("valid", "cv 0.81\n", "", 0.8, 0.25, "auc", True)
    assert text.splitlines() == [
        "Valid submission. auc = 0.8000 (higher is better). It is as good as or better than 25.0% of the leaderboard.",
        "[stdout]",
        "cv 0.81",
    ]


def test_a_crash_shows_both_the_error_and_what_was_printed_before() -> None:
    text = render_feedback("runtime_error", "loaded\n", TRACEBACK)
    assert text.startswith("The script failed: KeyError: 'pricee'.")
    assert "loaded" in text and 'File "script.py", line 12' in text


@given(
    st.sampled_from(sorted(Status)), st.text(), st.text(), st.integers(1, 3000), st.sampled_from(["full", "compact"])
)
def test_no_output_breaks_the_limit(status: Status, stdout: str, stderr: str, limit: int, style: str) -> None:
    feedback = render_feedback(status, stdout * 40, stderr * 40, 1.0, 0.5, "auc", True, limit, style=style)  # type: ignore[arg-type]
    assert len(feedback) <= limit


def test_a_long_output_keeps_its_head_and_its_tail() -> None:
    text = clip_middle("A" * 500 + "B" * 5000 + "C" * 500, 600)
    assert len(text) <= 600
    assert text.startswith("AAAA") and text.endswith("CCCC")
    omitted = int(text.split("... ")[1].split()[0])
    assert omitted == 6000 - text.count("A") - text.count("B") - text.count("C")


def test_traceback_is_read() -> None:
    assert error_line(TRACEBACK) == "KeyError: 'pricee'"
    assert exception_name(TRACEBACK) == "KeyError"
    assert failing_line(TRACEBACK) == (12, 'y = train["pricee"]')
    qualified = TRACEBACK.replace("KeyError", "sklearn.exceptions.NotFittedError")
    assert exception_name(qualified) == "NotFittedError"
    assert exception_name("segfault") is None
    assert failing_line("segfault") is None


def test_an_error_of_several_lines_is_known_by_the_line_that_names_it() -> None:
    stderr = TRACEBACK.replace("KeyError: 'pricee'", "ValueError: Input X contains NaN.\nSee the manual for models.")
    assert error_line(stderr) == "ValueError: Input X contains NaN."


@pytest.mark.parametrize("status", ["invalid_submission", "no_code", "syntax_error", "runtime_error"])
def test_a_problem_that_is_a_sentence_keeps_its_one_full_stop(status: str) -> None:
    text = render_feedback(status, problem="The header is wrong.", style="full")
    assert text.endswith("The header is wrong.")
