"""Reading an action off a text."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wmrl_gym.envs.mle_dojo.actions import parse_action


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("```python\nx = 1\n```", "x = 1\n"),
        ("First some words.\n```py\nx = 1\n```\nand more.", "x = 1\n"),
        ("```Python3  \r\nx = 1\r\n```\r\n", "x = 1\r\n"),
        ("```python\nx = 1\nprint(x", "x = 1\nprint(x"),
        ("```python\nx = '''\n  ``` inside a line\n'''\n```", "x = '''\n  ``` inside a line\n'''\n"),
        ("```python\nsketch\n```\nbetter:\n```python\nwhole\n```", "whole\n"),
        ("<think>```python\ndraft\n```</think>```python\nfinal\n```", "final\n"),
        ("<action>request_info</action>\n```python\nx = 1\n```", "x = 1\n"),
        ("``` python\nx = 1\n```", "x = 1\n"),
        ('```python title="x.py" {1,3}\nx = 1\n```', "x = 1\n"),
        ("```{python}\nx = 1\n```", "x = 1\n"),
        ("```python3.11\nx = 1\n```", "x = 1\n"),
        ("```python:main.py\nx = 1\n```", "x = 1\n"),
        ("```python import os\nprint(os)\n```", "import os\nprint(os)\n"),
        ("````python\nx = 1\n```\n````", "x = 1\n```\n"),
    ],
)
def test_a_python_fence_is_executed(text: str, code: str) -> None:
    action = parse_action(text)
    assert (action.kind, action.code) == ("execute", code)


@pytest.mark.parametrize("text", ["<action>request_info</action>", "Hm. <ACTION> request_info </action> please"])
def test_a_request_asks_for_the_listing(text: str) -> None:
    assert parse_action(text).kind == "request_info"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x = 1",
        "```\nTraceback (most recent call last):\n  x = 1\nKeyError: 'age'\n```",
        "```\ntrain.csv: 3 columns\n```",
        "```pycon\n>>> x = 1\n```",
        "```python-repl\nx = 1\n```",
        "inline ```x``` and ```y```\nimport os",
        "```sql\nselect 1\n```",
        "```python\n\n```",
        "<action>submit</action>",
        "```python",
    ],
)
def test_anything_else_is_malformed_and_says_why(text: str) -> None:
    action = parse_action(text)
    assert action.kind == "malformed"
    assert action.problem


@given(st.text())
def test_no_text_breaks_the_parser(text: str) -> None:
    assert parse_action(text).kind in ("execute", "request_info", "malformed")


@given(st.text(alphabet=st.characters(exclude_characters="`<\r", exclude_categories=["Cs"])).filter(str.strip))
def test_code_arrives_character_by_character(code: str) -> None:
    assert parse_action(f"Here:\n```python\n{code}\n```\n").code == code + "\n"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("```\nx = 1\n```", "x = 1\n"),
        ("Here:\n```\n# fit\n\nimport pandas as pd\nprint(pd)\n```\nEnd.", "# fit\n\nimport pandas as pd\nprint(pd)\n"),
        ("```\nage,fare\n1,2\n```\n```\nfrom a import b\n```", "from a import b\n"),
        ("```\nimport os\n", "import os\n"),
        ("```\nimport a\n```\n```python\nx = 1\n```\n```\nimport b\n```", "x = 1\n"),
        ("```bash\npip install x\n```\n```\nx: int = 1\n```", "x: int = 1\n"),
    ],
)
def test_a_fence_without_a_label_is_executed_if_it_looks_like_python(text: str, code: str) -> None:
    action = parse_action(text)
    assert (action.kind, action.code) == ("execute", code)


def test_a_request_wins_over_a_fence_without_a_label() -> None:
    assert parse_action("```\nx = 1\n```\n<action>request_info</action>").kind == "request_info"


DRAFT = "Let me draft.\n```python\ndraft()\n```\nHm."


@pytest.mark.parametrize("opened", ["", "<think>\n"])
def test_a_thought_ends_at_its_tag_whoever_opened_it(opened: str) -> None:
    assert parse_action(f"{opened}{DRAFT}</think>\n<action>request_info</action>").kind == "request_info"
    assert parse_action(f"{opened}{DRAFT}</think>\n```python\nfinal()\n```").code == "final()\n"
    assert parse_action(f"{opened}{DRAFT}</think>\nI give up.").kind == "malformed"


@pytest.mark.parametrize(
    "rest", ["</think>\n<action>request_info</action>", "</think>\n```python\nfinal()\n```", "</think> no"]
)
def test_a_draft_whose_fence_stays_open_ends_with_its_thought(rest: str) -> None:
    action = parse_action(f"```python\ndraft()\n{rest}")
    assert action == parse_action(rest)
    assert "draft" not in action.code


def test_a_thought_that_never_ends_is_an_answer_without_code() -> None:
    action = parse_action(f"<think>{DRAFT}<action>request_info</action>")
    assert action.kind == "malformed" and "thought" in action.problem
    assert parse_action("<think>a <think> b</think>\n```python\nx = 1\n```").code == "x = 1\n"


@pytest.mark.parametrize("line", ["'<think>'", "'</think>'", "re.sub('<think>.*</think>', '', text)"])
def test_tags_inside_a_script_belong_to_it(line: str) -> None:
    assert parse_action(f"<think>{DRAFT}</think>```python\nx = {line}\n```").code == f"x = {line}\n"


def test_a_script_that_was_cut_may_hold_both_tags() -> None:
    assert parse_action("```python\nre.sub('<think>.*</think>', '', t)\nx =").code.endswith("x =")


PIECES = ("<think>", "</think>", "```python\n</think>", "```python x", "```", "`", "``` ", "```\n", "```a\n", "``` \t")
PIECES += ("<action>", "```python\n<think>", "x[", "#\n", " ", "a,", "x: a", "<action> ")


@pytest.mark.parametrize("piece", PIECES)
def test_reading_takes_time_in_proportion_to_the_text(piece: str) -> None:
    """A quadratic parser takes hours for these."""
    text = piece * (500_000 // len(piece))
    started = time.perf_counter()
    parse_action(text)
    parse_action(f"```\n{text}")
    assert time.perf_counter() - started < 10


@given(
    st.lists(st.sampled_from(["<think>", "</think>", "```python\n", "```", "\n", "x", "<action>request_info</action>"]))
)
def test_nothing_is_read_out_of_a_thought(pieces: list[str]) -> None:
    text = "".join(pieces)
    assert parse_action(f"<think>{text}").kind == "malformed" or "</think>" in pieces
    assert parse_action(f"<think>{text.replace('</think>', '')}</think>{text}") == parse_action(f"</think>{text}")
