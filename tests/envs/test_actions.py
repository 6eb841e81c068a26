"""Reading an action off a text."""

from __future__ import annotations

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
        "```\nx = 1\n```",
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
