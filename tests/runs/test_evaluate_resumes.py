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

from tests.algorithms.letters import LetterPolicy
from tests.runs.counted_letters import KILL_AT, LOG, LOSE_AT, CountedLetters
from wmrl_gym.algorithms.checkpoint import save_checkpoint
from wmrl_gym.cli.main import main
from wmrl_gym.configs import compose_config
from wmrl_gym.core import Outcome, Submission
from wmrl_gym.runs.records.run_directory import RunDirectory, locked

ENV = """\
# @package _global_
env: {_target_: tests.runs.counted_letters.CountedLetters, turns: 2}
tasks: {train: [p], held_out: [p, q, r, s, t], option: null, categories: null, measure: score}
"""
POLICY = "_target_: tests.algorithms.letters.LetterPolicy\n"
IN_A_SLICE, IN_ALL = 32, 80
"""Executions: 8 episodes of 2 turns a task, two tasks in a slice."""


def words(configs: Path, output: Path, *overrides: str) -> list[str]:
    chosen = ["env=letters", "policy=letters", "threads=1", "execution.max_workers=1", f"output={output}"]
    return ["evaluate", *chosen, *overrides, "--config-dir", str(configs)]


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
        (["tasks.measure=worth"], ['tasks.measure: "score", now "worth"']),
        (["env.turns=1"], ["env.turns: 2, now 1"]),
        (["policy=random_pipelines"], ['policy._target_: "tests.algorithms.letters.LetterPolicy", now "']),
        (["threads=2"], ["threads: 1, now 2"]),
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


def test_another_version_or_other_surroundings_are_refused(
    configs: Path, output: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("wmrl_gym.runs.evaluation_key.__version__", "9.9")
    monkeypatch.setattr(CountedLetters, "environment_key", "other packages", raising=False)
    assert main(words(configs, output)) == 2
    told = capsys.readouterr().err
    assert ', now "9.9"\n    environment: null, now "other packages"\n' in told


def test_settings_that_change_no_episode_may_change(configs: Path, output: Path) -> None:
    execution = ["execution.max_workers=2", "execution.max_consecutive_failures=5"]
    tables = ["tasks.categories={p: x, q: x, r: x, s: y, t: y}", "evaluation.k=4", "evaluation.success=0.5"]
    assert main(words(configs, output, *execution, "tasks.train=[q]", *tables)) == 0
    assert executions(output) == IN_ALL - IN_A_SLICE
    assert json.loads((output / "evaluation.json").read_text())["summary"]["k"] == 4


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('"turn_metrics"', '"turn_values"', "(KeyError: 'turn_metrics')"),
        ('"statuses"', '"more": 1, "statuses"', "(TypeError: "),
        ('"task": "p"', '"task": "q"', "the 16 episodes played already, of q, are not the first"),
    ],
)
def test_saved_episodes_that_are_not_this_evaluations_are_refused(
    old: str, new: str, told: str, configs: Path, output: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    part = output / "evaluation.part.jsonl"
    changed = part.read_text().replace(old, new)
    assert changed != part.read_text()
    part.write_text(changed)
    assert main(words(configs, output)) == 2
    message = capsys.readouterr().err
    assert message.startswith(f"wmrl: '{part}' holds what this version cannot go on with") and told in message
    assert part.read_text() == changed and executions(output) == 0


def test_deleted_in_mid_work_the_saved_episodes_are_missed_and_nothing_is_counted_twice(
    configs: Path, output: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    part = output / "evaluation.part.jsonl"

    class Deleting(CountedLetters):
        def execute(self, submission: Submission) -> Outcome:
            part.unlink(missing_ok=True)
            return super().execute(submission)

    with monkeypatch.context() as patch:
        patch.setattr("tests.runs.counted_letters.CountedLetters", Deleting)
        assert main(words(configs, output)) == 2
    assert f"'{part}' was deleted or changed in mid-work" in capsys.readouterr().err
    assert not part.exists() and executions(output) == IN_A_SLICE
    assert main(words(configs, output)) == 0
    assert executions(output) == IN_A_SLICE + IN_ALL


def test_a_last_slice_with_an_episode_without_result_is_played_again(
    configs: Path, output: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The machine fails at the end of the second slice; the third does not get far."""
    with monkeypatch.context() as patch:
        patch.setenv(LOSE_AT, str(IN_A_SLICE - 2))
        assert main(words(configs, output, "execution.max_consecutive_failures=9")) == 2
    assert "executions in a row" in capsys.readouterr().err
    saved = [json.loads(line) for line in (output / "evaluation.part.jsonl").open()]
    assert [part["unknown"] for part in saved[1:]] == [0, 3]
    lost = executions(output)
    assert lost < 2 * IN_A_SLICE
    assert main(words(configs, output)) == 0
    assert executions(output) - lost == IN_ALL - IN_A_SLICE
    data = json.loads((output / "evaluation.json").read_text())
    assert data["unknown"] == 0 and len(data["records"]) == 40


def test_a_run_in_training_is_gone_on_with_at_the_checkpoint_that_was_begun(
    configs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def save(step: int, logit: float) -> None:
        policy = LetterPolicy()
        policy.logits.data[0] = logit
        save_checkpoint(run.checkpoints, step, {"policy": policy.state_dict()})

    def evaluated(code: int) -> int:
        """So many executions it took."""
        log.write_text("")
        assert main(["evaluate", f"run={run.path}", "threads=1", "execution.max_workers=1"]) == code
        return len(log.read_text())

    def broken_off() -> None:
        with monkeypatch.context() as patch:
            patch.setenv(LOSE_AT, str(IN_A_SLICE + 1))
            evaluated(2)

    log = tmp_path / "log"
    monkeypatch.setenv(LOG, str(log))
    config = compose_config("train", ["env=letters", "policy=letters", "world_model=null"], configs)
    run = RunDirectory.create(tmp_path, "run", 0, config)
    save(3, 0.0)
    broken_off()
    save(6, 5.0)
    capsys.readouterr()
    assert evaluated(0) == IN_ALL - IN_A_SLICE
    assert "step-000003, not the newest" in capsys.readouterr().out
    assert (run.path / "evaluation-step-000003-s0.json").is_file()
    broken_off()
    save(6, -5.0)  # trained anew
    capsys.readouterr()
    assert evaluated(2) == 0
    told = capsys.readouterr().err
    assert "evaluation-step-000006-s0.part.jsonl' holds what was begun with other" in told and "checkpoint: " in told
    shutil.rmtree(run.checkpoints / "step-000006")  # with the checkpoint that was begun, its evaluation is left behind
    assert evaluated(0) == IN_ALL


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
    with locked(output / ".evaluation.part.jsonl.lock", output):
        assert main(words(configs, output)) == 2
    assert "another process works on" in capsys.readouterr().err
