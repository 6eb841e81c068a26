"""Merging and grouping data frames."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

from wmrl_gym.scriptcheck.data.frames import missing_column
from wmrl_gym.scriptcheck.data.pandas_binding import bind_pandas, names_of
from wmrl_gym.scriptcheck.models import Call, Models
from wmrl_gym.scriptcheck.values.data import Frame, GroupBy
from wmrl_gym.scriptcheck.values.scalars import UNKNOWN, Value

MODELS = Models()
frame_method = functools.partial(MODELS.method, Frame, bind=bind_pandas)


@frame_method("merge", "join")
def _merge(call: Call, frame: Frame) -> Value:
    other = call.get("right") or call.get("other")
    if not isinstance(other, Frame):
        return frame.with_columns(dict(frame.columns), complete=False, rows=None)
    on = names_of(call.get("on")) if "on" in call.bound else None
    return merge_frames(
        frame, other, on, call.constant("how", "inner"), keyed="on" in call.bound or "left_on" in call.bound
    )


def merge_frames(left: Frame, right: Frame, on: list[Any] | None, how: Any, *, keyed: bool) -> Frame:
    """Columns of a merge.

    Raises:
        Fault: KeyError if a key column is certainly missing.
    """
    if on is not None:
        for side in (left, right):
            for name in on:
                if side.lacks(name) and side.index != name:
                    raise missing_column(side, name)
    keys = on if on is not None else [name for name in left.columns if name in right.columns]
    overlap = (set(left.columns) & set(right.columns)) - set(keys)
    columns = {f"{k}_x" if k in overlap else k: c for k, c in left.columns.items()}
    columns |= {
        f"{k}_y" if k in overlap else k: dataclasses.replace(c, missing=None, origin=None)
        for k, c in right.columns.items()
        if k not in keys
    }
    known = left.complete and right.complete and (on is not None or not keyed)
    return Frame(columns, complete=known, rows=left.rows if how == "left" else None)


@frame_method("groupby")
def _groupby(call: Call, frame: Frame) -> Value:
    names = names_of(call.get("by"))
    if names is None:
        return UNKNOWN
    for name in names:
        if isinstance(name, str) and frame.lacks(name) and frame.index != name:
            raise missing_column(frame, name)
    return GroupBy(frame, tuple(str(name) for name in names))
