from pathlib import Path

import pytest
import torch

from wmrl_gym.algorithms.checkpoint import checkpoints, latest_checkpoint, load_checkpoint, save_checkpoint


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
