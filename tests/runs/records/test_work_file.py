from __future__ import annotations

import errno
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from wmrl_gym.runs.records.differences import differences
from wmrl_gym.runs.records.run_directory import RunInUse
from wmrl_gym.runs.records.work_file import OtherWork, WorkFile


def portions(path: Path, work: dict[str, Any], *new: Any) -> list[Any]:
    """What is there and what is appended, in one go."""
    with WorkFile(path, work) as file:
        for portion in new:
            file.append(portion)
        return file.portions


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
    portions(path, {"seed": 0}, [1, 2], [3])
    path.write_text(path.read_text()[:-2])  # killed in the middle of a line
    inode = path.stat().st_ino
    assert portions(path, {"seed": 0}) == [[1, 2]]
    assert portions(path, {"seed": 0}, [4]) == [[1, 2], [4]]
    assert portions(path, {"seed": 0}) == [[1, 2], [4]]
    assert path.stat().st_ino == inode  # no copy was made


@pytest.mark.parametrize("count", [0, 6, 12])
def test_killed_before_the_first_portion_was_whole_work_begins_with_its_first_line(count: int, tmp_path: Path) -> None:
    path = tmp_path / "work"
    portions(path, {"seed": 0}, [1])
    assert len(path.read_text().splitlines()[0]) == 11
    path.write_bytes(path.read_bytes()[:count])
    work = {"seed": 0 if count == 12 else 1}
    portions(path, work, [2])
    assert portions(path, work) == [[2]] and len(path.read_text().splitlines()) == 2


def test_where_nothing_is_finished_settings_may_still_be_changed(tmp_path: Path) -> None:
    assert portions(tmp_path / "work", {"seed": 0}) == []
    assert portions(tmp_path / "work", {"seed": 1}) == []


def test_work_with_other_settings_is_not_gone_on_with_and_all_that_differs_is_named(tmp_path: Path) -> None:
    path = tmp_path / "work"
    portions(path, {"seed": 0, "agent": {"name": "a", "revised": 0.5}}, [1])
    before = path.read_text()
    with pytest.raises(OtherWork, match=r"\n    seed: 0, now 1\n    agent\.revised: 0\.5, now 0\.4\n"):
        portions(path, {"seed": 1, "agent": {"name": "a", "revised": 0.4}})
    assert path.read_text() == before


@pytest.mark.parametrize("damage", [b"[1", b"[1, \xff]", b"\0\0\0"])
def test_damage_in_the_middle_is_told_by_its_line_and_nothing_is_thrown_away(damage: bytes, tmp_path: Path) -> None:
    path = tmp_path / "work"
    portions(path, {"seed": 0}, [0], [1], [2])
    damaged = path.read_bytes().replace(b"[1]", damage)
    path.write_bytes(damaged)
    with pytest.raises(OtherWork, match="damaged in its middle, at line 3"):
        portions(path, {"seed": 0})
    assert path.read_bytes() == damaged
    path.write_bytes(b"".join(damaged.splitlines(keepends=True)[:2]))  # what the message advises
    assert portions(path, {"seed": 0}) == [[0]]


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    (tmp_path / "work").write_text("[1]\n")
    with pytest.raises(OtherWork, match="another kind of file"):
        portions(tmp_path / "work", {"seed": 0})


@pytest.mark.parametrize("begun", [[], [[0]]])
def test_a_file_that_was_deleted_or_changed_in_mid_work_gets_no_further_portion(
    begun: list[Any], tmp_path: Path
) -> None:
    """Otherwise the next portion would be the first of a sound file."""
    path = tmp_path / "work"
    portions(path, {}, *begun)
    with WorkFile(path, {}) as file:
        file.append([1])
        path.unlink()
        with pytest.raises(OtherWork, match="work' was deleted or changed in mid-work: it has 0 bytes"):
            file.append([2])
        assert not path.exists()
        path.write_text("{}\n[1]\n[2]\n[3]\n")
        with pytest.raises(OtherWork, match="deleted or changed"):
            file.append([2])
    assert portions(path, {}) == [[1], [2], [3]]


def test_a_portion_that_is_taken_back_is_done_again(tmp_path: Path) -> None:
    path = tmp_path / "work"
    portions(path, {}, ["ä"], ["ö"])
    with WorkFile(path, {}) as file:
        file.take_back()
        assert file.portions == [["ä"]]
        file.take_back()
        file.append(["ü"])
    assert portions(path, {}) == [["ü"]]


def test_portions_of_another_shape_are_refused_and_the_file_is_named(tmp_path: Path) -> None:
    with WorkFile(tmp_path / "work", {}) as file:
        file.append({"a": 1})
        assert file.understood(lambda all_of_them: [portion["a"] for portion in all_of_them]) == [1]
        with pytest.raises(OtherWork, match=r"work' holds what this version cannot go on with \(KeyError: 'b'\)"):
            file.understood(lambda all_of_them: [portion["b"] for portion in all_of_them])


def test_a_full_disk_is_told_with_the_path_and_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "work"
    portions(path, {}, [1])

    def full(*arguments: Any, **settings: Any) -> Any:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with WorkFile(path, {}) as file:
        with monkeypatch.context() as patch:
            patch.setattr(Path, "open", full)
            told = "' cannot be written: No space.*free some space; the same command goes on"
            with pytest.raises(OSError, match=f"(?s){re.escape(str(path))}{told}"):
                file.append([2])
        file.append([3])
    assert portions(path, {}) == [[1], [3]]


OTHER = """
import pathlib, sys
from wmrl_gym.runs.records.work_file import WorkFile
with WorkFile(pathlib.Path(sys.argv[1]), {}) as file:
    file.append("other")
"""
FORKING = """
import os, pathlib, signal, sys
from wmrl_gym.runs.records.work_file import WorkFile
signal.alarm(120)
with WorkFile(pathlib.Path(sys.argv[1]), {}):
    if (child := os.fork()) == 0:
        signal.alarm(120)
        sys.stdin.read()
        os._exit(0)
print(child, flush=True)
"""


def test_two_processes_do_not_work_on_one_file(tmp_path: Path) -> None:
    command = [sys.executable, "-c", OTHER, str(tmp_path / "work")]
    with WorkFile(tmp_path / "work", {}) as file:
        file.append("mine")
        refused = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert refused.returncode == 1 and "another process works on" in refused.stderr
        file.append("mine")
    subprocess.run(command, check=True, timeout=60)
    assert portions(tmp_path / "work", {}) == ["mine", "mine", "other"]


def test_work_that_ended_with_an_error_is_not_held_any_longer(tmp_path: Path) -> None:
    path = tmp_path / "work"
    path.write_text("[1]\n")
    with pytest.raises(OtherWork):
        portions(path, {})
    path.unlink()
    with WorkFile(path, {}), pytest.raises(RunInUse):
        portions(path, {})
    assert portions(path, {}) == []


def test_a_forked_child_that_lives_on_does_not_hold_what_was_left_in_order(tmp_path: Path) -> None:
    command = [sys.executable, "-c", FORKING, str(tmp_path / "work")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdin is not None and parent.stdout is not None
        try:
            child = int(parent.stdout.readline())
            os.kill(child, 0)  # it is alive, waiting for its input to end
            assert portions(tmp_path / "work", {}) == []
        finally:
            parent.stdin.close()
            parent.wait(timeout=60)
