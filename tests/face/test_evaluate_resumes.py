"""`wmrl evaluate` killed in mid-evaluation, and started again with the same command or another one."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.face.counted_letters import KILL_AT, LOG
from wmrl_gym.cli.main import main
from wmrl_gym.reporting.run_directory import locked

ENV = """\
# @package _global_
env: {_target_: tests.face.counted_letters.CountedLetters, turns: 2}
tasks: {train: [p], held_out: [p, q, r, s, t], option: null, categories: null, measure: score}
"""
POLICY = "_target_: tests.algorithms.letters.LetterPolicy\n"
IN_A_SLICE, IN_ALL = 32, 80
"""Executions: 8 episodes of 2 turns a task, two tasks in a slice."""


def words(configs: Path, output: Path, *overrides: str) -> list[str]:
    chosen = ["env=letters", "policy=letters", "threads=1", f"output={output}", *overrides]
    return ["evaluate", *chosen, "--config-dir", str(configs)]


@pytest.fixture(scope="module")
def configs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("configs")
    for group, content in (("env", ENV), ("policy", POLICY)):
        (folder / group).mkdir()
        (folder / group / "letters.yaml").write_text(content)
    return folder


@pytest.fixture(scope="module")
def left_behind(configs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an evaluation that was killed in its second slice."""
    folder = tmp_path_factory.mktemp("killed")
    environment = {**os.environ, LOG: str(folder / "log"), KILL_AT: str(IN_A_SLICE + 18)}
    environment["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-m", "wmrl_gym", *words(configs, folder / "output")]
    killed = subprocess.run(command, env=environment, timeout=240, capture_output=True, text=True)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    return folder / "output"


@pytest.fixture
def output(left_behind: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(LOG, str(tmp_path / "log"))
    return Path(shutil.copytree(left_behind, tmp_path / "output"))


def executions(output: Path) -> int:
    return len((output.parent / "log").read_text()) if (output.parent / "log").exists() else 0


def without_seconds(output: Path) -> tuple[dict[str, Any], str]:
    data = json.loads((output / "evaluation.json").read_text())
    del data["seconds"], data["summary"]["seconds"]
    return data, "".join(line for line in (output / "evaluation.md").open() if "executions in" not in line)


def test_what_was_finished_is_not_played_again_and_the_tables_are_those_of_an_evaluation_never_killed(
    configs: Path, output: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert not (output / "evaluation.json").exists()
    assert main(words(configs, output)) == 0
    assert f"going on with what is saved in {output / 'evaluation.part.jsonl'}" in capsys.readouterr().out
    assert executions(output) == IN_ALL - IN_A_SLICE
    whole = tmp_path / "whole"
    assert main(words(configs, whole)) == 0
    assert "going on" not in capsys.readouterr().out
    assert without_seconds(output) == without_seconds(whole)
    assert without_seconds(whole)[0]["executions"] == IN_ALL

    # What is finished leaves nothing to go on with: other settings are welcome, and everything is played.
    assert sorted(path.name for path in output.glob("[!.]*")) == [f"evaluation.{end}" for end in ("json", "md", "tex")]
    before = executions(output)
    assert main(words(configs, output, "seed=1")) == 0
    assert executions(output) - before == IN_ALL


@pytest.mark.parametrize(
    ("overrides", "named"),
    [
        (["seed=1", "evaluation.temperature=1.0"], ["seed: 0, now 1", "evaluation.temperature: 0.8, now 1.0"]),
        (["evaluation.samples=4"], ["evaluation.samples: 8, now 4"]),
        (["tasks.held_out=[p,q]"], ['tasks.held_out: ["p", "q", "r", "s", "t"], now ["p", "q"]']),
        (["policy=random_pipelines"], ['agent: "LetterPolicy", now "RandomPipelines"', "policy._target_: "]),
    ],
)
def test_other_settings_are_refused_and_each_is_named(
    overrides: list[str], named: list[str], configs: Path, output: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    saved = (output / "evaluation.part.jsonl").read_bytes()
    assert main(words(configs, output, *overrides)) == 2
    told = capsys.readouterr().err
    assert all(text in told for text in ["evaluation.part.jsonl' holds what was begun with other settings", *named])
    assert (output / "evaluation.part.jsonl").read_bytes() == saved and executions(output) == 0


def test_a_half_written_line_costs_its_slice_and_damage_before_it_is_told(
    configs: Path, output: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    part = output / "evaluation.part.jsonl"
    saved = part.read_text()
    part.write_text(saved.replace('"records"', '"records', 1))
    assert main(words(configs, output)) == 2
    assert "evaluation.part.jsonl' is damaged in its middle, at line 2" in capsys.readouterr().err
    part.write_text(saved + saved.splitlines()[1][:100])
    assert main(words(configs, output)) == 0
    assert executions(output) == IN_ALL - IN_A_SLICE


def test_two_processes_do_not_make_one_evaluation(
    configs: Path, output: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with locked(output / ".evaluation.lock", output):
        assert main(words(configs, output)) == 2
    assert "another process works on" in capsys.readouterr().err
