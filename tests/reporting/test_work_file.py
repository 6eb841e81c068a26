from __future__ import annotations

from pathlib import Path

import pytest

from wmrl_gym.reporting.differences import differences
from wmrl_gym.reporting.work_file import OtherWork, WorkFile


def test_differences_are_named_key_by_key() -> None:
    old = {"a": {"b": 1, "gone": True}, "same": [1, 2], "model": None}
    new = {"a": {"b": 2, "come": "x"}, "same": [1, 2], "model": {"path": "p"}}
    assert list(differences(old, new)) == [
        "a.b: 1, now 2",
        "a.gone: true, now absent",
        'a.come: "x", absent before',
        'model: null, now {"path": "p"}',
    ]
    assert not list(differences(old, old))


def test_work_goes_on_behind_the_last_whole_portion(tmp_path: Path) -> None:
    path = tmp_path / "work"
    work = WorkFile(path, {"seed": 0})
    work.append([1, 2])
    work.append([3])
    path.write_text(path.read_text()[:-2])  # killed in the middle of a line
    again = WorkFile(path, {"seed": 0})
    assert again.portions == [[1, 2]]
    again.append([4])
    assert WorkFile(path, {"seed": 0}).portions == [[1, 2], [4]]


def test_killed_while_the_first_line_was_written_work_begins_anew(tmp_path: Path) -> None:
    path = tmp_path / "work"
    WorkFile(path, {"seed": 0}).append([1])
    path.write_bytes(path.read_bytes()[:6])
    WorkFile(path, {"seed": 1}).append([2])
    assert WorkFile(path, {"seed": 1}).portions == [[2]]


def test_where_nothing_is_finished_settings_may_still_be_changed(tmp_path: Path) -> None:
    WorkFile(tmp_path / "work", {"seed": 0})
    assert WorkFile(tmp_path / "work", {"seed": 1}).portions == []


def test_work_with_other_settings_is_not_gone_on_with_and_all_that_differs_is_named(tmp_path: Path) -> None:
    path = tmp_path / "work"
    WorkFile(path, {"seed": 0, "agent": {"name": "a", "revised": 0.5}}).append([1])
    before = path.read_text()
    with pytest.raises(OtherWork, match=r"\n    seed: 0, now 1\n    agent\.revised: 0\.5, now 0\.4\n"):
        WorkFile(path, {"seed": 1, "agent": {"name": "a", "revised": 0.4}})
    assert path.read_text() == before


@pytest.mark.parametrize("damage", [b"[1", b"[1, \xff]", b"\0\0\0"])
def test_damage_in_the_middle_is_told_by_its_line_and_nothing_is_thrown_away(damage: bytes, tmp_path: Path) -> None:
    path = tmp_path / "work"
    work = WorkFile(path, {"seed": 0})
    for portion in ([0], [1], [2]):
        work.append(portion)
    damaged = path.read_bytes().replace(b"[1]", damage)
    path.write_bytes(damaged)
    with pytest.raises(OtherWork, match="damaged in its middle, at line 3"):
        WorkFile(path, {"seed": 0})
    assert path.read_bytes() == damaged
    path.write_bytes(b"".join(damaged.splitlines(keepends=True)[:2]))  # what the message advises
    assert WorkFile(path, {"seed": 0}).portions == [[0]]


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    (tmp_path / "work").write_text("[1]\n")
    with pytest.raises(OtherWork, match="another kind of file"):
        WorkFile(tmp_path / "work", {"seed": 0})
