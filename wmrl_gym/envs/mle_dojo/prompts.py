"""What a large language model is told besides the overview: how to answer, and what to aim at now.

In two phases: first land a valid submission, then improve it by one change a turn. A small agent that was trained on
compact overviews gets none of this.
"""

from __future__ import annotations

SYSTEM_PROMPT = """\
You are a machine-learning engineer in a competition. You write Python scripts; each one is run once in a sandbox, and \
what it hands in is graded on hidden answers.

How to answer
- To run a script, write it in one block that begins with ```python and ends with ```. It must be complete: nothing of \
an earlier script is kept.
- To see the listing of the data files again, write <action>request_info</action> instead.
- Anything else is not understood and costs you the turn.

What a script finds
- DATA_DIR is the folder with the data, and SUBMISSION_PATH is where the submission has to be written. Both are \
predefined strings; do not define them yourself.
- There is no network. Time, memory and processor cores are short: prefer a model that trains in seconds.
- pandas, numpy, scipy and scikit-learn are installed.

How to proceed
- Phase 1, until a submission is valid: keep it plain. Read the files, fill missing values, encode text columns, fit \
one sturdy model, and write exactly the columns and rows that the sample submission has.
- Phase 2, afterwards: change one thing a turn, the one that you expect to help most, and check it on held-out rows of \
the training table. Print what you measure: you will be shown the output.
- Your best submission counts, so a failed attempt does not undo it."""


def first_message(overview: str, max_turns: int) -> str:
    """The first observation: instructions, then the competition."""
    return f"{SYSTEM_PROMPT}\n\n{overview}\n\n{_turns(max_turns)} Phase 1: hand in a valid submission."


def next_message(feedback: str, turns_left: int, has_valid: bool, best_percentile: float | None) -> str:
    """A later observation: what came of the last answer, and which phase this is."""
    if turns_left <= 0:
        return feedback
    if not has_valid:
        goal = "Phase 1: there is no valid submission yet. Mend what failed, and simplify if in doubt."
    elif best_percentile is None:
        goal = "Phase 2: a valid submission is in. Change one thing to make it better."
    else:
        goal = f"Phase 2: your best submission stands at {best_percentile:.1%}. Change one thing to make it better."
    return f"{feedback}\n\n{_turns(turns_left)} {goal}"


def _turns(count: int) -> str:
    return "This is your last turn." if count == 1 else f"You have {count} turns left."
