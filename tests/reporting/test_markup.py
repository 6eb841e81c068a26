from __future__ import annotations

from wmrl_gym.reporting.markup import markdown_table


def test_the_first_columns_are_flush_left_and_the_others_right() -> None:
    rows = [["a", "1", "2"], ["b", "3", "4"]]
    lines = ["| name | x | y |", "| --- | ---: | ---: |", "| a | 1 | 2 |", "| b | 3 | 4 |"]
    assert markdown_table(["name", "x", "y"], rows) == lines
    assert markdown_table(["name", "x", "y"], rows, left=3)[1] == "| --- | --- | --- |"
