from __future__ import annotations

import os
import random
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from wmrl_gym.algorithms.checkpoint import (
    checkpoints,
    latest_checkpoint,
    load_checkpoint,
    load_latest_checkpoint,
    save_checkpoint,
)
from wmrl_gym.algorithms.random_state import random_state, set_random_state


def test_state_comes_back_bit_for_bit(tmp_path: Path) -> None:
    state = {"weights": {"w": torch.randn(3)}, "proxy": {"pairs": [[0.1, 1 / 3]], "rho": None}, "name": "x"}
    loaded = load_checkpoint(save_checkpoint(tmp_path, 7, state))
    assert torch.equal(loaded["weights"]["w"], state["weights"]["w"])
    assert (loaded["proxy"], loaded["name"], loaded["step"]) == (state["proxy"], "x", 7)


def test_only_the_newest_are_kept(tmp_path: Path) -> None:
    for step in (1, 2, 10):
        save_checkpoint(tmp_path, step, {}, keep=2)
    assert [path.name for path in checkpoints(tmp_path)] == ["step-000002", "step-000010"]


def test_a_half_written_checkpoint_is_not_found(tmp_path: Path) -> None:
    whole = save_checkpoint(tmp_path, 1, {})
    (tmp_path / "step-000002").mkdir()
    (tmp_path / ".unfinished-x").mkdir()
    assert latest_checkpoint(tmp_path) == whole


def test_a_broken_file_says_what_to_do(tmp_path: Path) -> None:
    path = save_checkpoint(tmp_path, 1, {})
    (path / "state.pt").write_bytes(b"nonsense")
    with pytest.raises(ValueError, match="Delete its folder"):
        load_checkpoint(path)


def test_nothing_to_load_is_none(tmp_path: Path) -> None:
    assert latest_checkpoint(tmp_path / "absent") is None


class Killed(BaseException):
    """Stands for the end of the process: nobody catches it."""


@pytest.mark.parametrize("same_step", [False, True])
@pytest.mark.parametrize("survived", range(12))
def test_killed_at_any_moment_there_is_a_whole_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, survived: int, same_step: bool
) -> None:
    save_checkpoint(tmp_path, 1, {"is": "old"}, keep=1)
    calls = 0

    def dying(function: Any) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls > survived:
                raise Killed
            return function(*args, **kwargs)

        return call

    with monkeypatch.context() as patch:
        for owner, name in ((os, "fsync"), (os, "replace"), (os, "rmdir"), (shutil, "rmtree"), (torch, "save")):
            patch.setattr(owner, name, dying(getattr(owner, name)))
        try:
            save_checkpoint(tmp_path, 1 if same_step else 2, {"is": "new"}, keep=1)
        except Killed:
            pass
        else:
            assert calls <= survived
    newest = latest_checkpoint(tmp_path)
    assert newest is not None and load_checkpoint(newest)["is"] in ("old", "new")
    assert survived or load_checkpoint(newest)["is"] == "old"
    save_checkpoint(tmp_path, 3, {"is": "next"}, keep=1)
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith((".", "step-000003"))] == ["step-000003"]


def test_global_generators_go_on_where_they_were(tmp_path: Path) -> None:
    def draw() -> tuple[Any, ...]:
        return random.random(), float(np.random.rand()), float(torch.rand(()))  # noqa: NPY002 - the point of the test

    path = save_checkpoint(tmp_path, 1, {"random_state": random_state()})
    expected = draw()
    draw()
    set_random_state(load_checkpoint(path)["random_state"])
    assert draw() == expected


@pytest.mark.parametrize("keep", [0, -1])
def test_keeping_none_is_refused_before_anything_is_written(tmp_path: Path, keep: int) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        save_checkpoint(tmp_path, 1, {}, keep=keep)
    assert not list(tmp_path.iterdir())


def test_the_checkpoint_just_written_is_kept_although_newer_ones_lie_there(tmp_path: Path) -> None:
    for step in (8, 9):
        save_checkpoint(tmp_path, step, {})
    save_checkpoint(tmp_path, 3, {"is": "new"}, keep=2)
    assert [path.name for path in checkpoints(tmp_path)] == ["step-000003", "step-000009"]
    save_checkpoint(tmp_path, 4, {}, keep=1)
    assert [path.name for path in checkpoints(tmp_path)] == ["step-000004"]


@pytest.mark.parametrize("damage", ["truncated", "empty", "nonsense"])
def test_a_damaged_newest_checkpoint_is_put_aside_and_an_older_one_taken(tmp_path: Path, damage: str) -> None:
    for step in (1, 2):
        save_checkpoint(tmp_path, step, {"weights": torch.zeros(100)})
    file = tmp_path / "step-000002" / "state.pt"
    content = file.read_bytes()
    file.write_bytes({"truncated": content[: len(content) // 2], "empty": b"", "nonsense": b"nonsense"}[damage])
    with pytest.warns(UserWarning, match="Going on from step-000001"):
        newest = load_latest_checkpoint(tmp_path)
    assert newest is not None and newest[1]["step"] == 1
    assert (tmp_path / "unreadable-step-000002" / "state.pt").is_file(), "nothing is deleted"
    assert [path.name for path in checkpoints(tmp_path)] == ["step-000001"]


def test_if_no_checkpoint_can_be_read_all_stay_and_the_error_says_so(tmp_path: Path) -> None:
    for step in (1, 2):
        (save_checkpoint(tmp_path, step, {}) / "state.pt").write_bytes(b"nonsense")
    with pytest.raises(ValueError, match="step-000002"):
        load_latest_checkpoint(tmp_path)
    assert len(checkpoints(tmp_path)) == 2
    assert load_latest_checkpoint(tmp_path / "absent") is None
