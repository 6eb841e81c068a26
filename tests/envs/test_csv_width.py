"""Fields are counted as the csv module and pandas count them."""

from __future__ import annotations

import csv
import io

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wmrl_gym.envs.mle_dojo import csv_width
from wmrl_gym.envs.mle_dojo.csv_width import RowTooLong, widest_rows


@given(st.text(alphabet='ab,"\n\r', max_size=40), st.sampled_from([1, 2, 7, 2**18]))
def test_every_text_is_counted_as_by_the_csv_module(text: str, piece: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(csv_width, "_PIECE", piece)
        found = widest_rows(text.encode())
    rows = [len(row) for row in csv.reader(io.StringIO(text, newline="")) if row]
    # A row of one field decides nothing: an empty one may count as one, or as none.
    expected = (rows[0], max(rows)) if rows else (0, 0)
    assert [max(count, 1) for count in found] == [max(count, 1) for count in expected]


@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_a_table_of_pandas_has_its_columns(mark: str) -> None:
    table = pd.DataFrame({"a,b": ['x "y", z\n', "ä"], "c": [1, 2], "d": ["", "q,"]})
    assert widest_rows((mark + table.to_csv(index=False)).encode()) == (3, 3)
    assert widest_rows((mark + table.to_csv(index=False, lineterminator="\r\n")).encode()) == (3, 3)


def test_a_row_that_only_the_slow_look_can_tell_has_a_longest_length() -> None:
    with pytest.raises(RowTooLong, match="characters"):
        widest_rows(b'a"b,' * (csv_width.MAX_ROW_CHARS // 4 + 1))


def test_pieces_do_not_change_the_count(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    content = pd.DataFrame({"a": rng.random(300), "b": ["x, y"] * 300}).to_csv(index=False).encode()
    counts = set()
    for piece in (1, 3, 64, 2**18):
        monkeypatch.setattr(csv_width, "_PIECE", piece)
        counts.add(widest_rows(content))
    assert counts == {(2, 2)}
