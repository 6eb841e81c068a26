from __future__ import annotations

import os
import random
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from wmrl_gym.algorithms.checkpoint import checkpoints, latest_checkpoint, load_checkpoint, save_checkpoint
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
