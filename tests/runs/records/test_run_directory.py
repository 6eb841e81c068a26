from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from wmrl_gym.runs.records.metrics import JSONLMetrics, read_metrics
from wmrl_gym.runs.records.run_directory import DamagedRun, RunDirectory, git_state


def test_run_records_configuration_seed_versions_and_machine(tmp_path: Path) -> None:
    run = RunDirectory.create(tmp_path, "quick", 3, {"seed": 3, "rate": 1e-5})
    assert run.path.name.startswith("quick-") and run.path.name.endswith("-s3")
    assert RunDirectory.open(run.path).config() == {"seed": 3, "rate": 1e-5}
    circumstances = json.loads((run.path / "circumstances.json").read_text())
    assert circumstances["seed"] == 3 and circumstances["cores"] >= 1
    assert circumstances["versions"]["torch"] and circumstances["python"].startswith("3.")


def test_runs_of_the_same_second_do_not_share_a_folder(tmp_path: Path) -> None:
    assert len({RunDirectory.create(tmp_path, "quick", 0, {}).path for _ in range(5)}) == 5


def test_folder_that_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="is not a run directory"):
        RunDirectory.open(tmp_path)


def test_git_state_names_commit_and_changed_files(tmp_path: Path) -> None:
    assert git_state(tmp_path) is None
    for command in (
        ["init", "-q"],
        ["-c", "user.name=n", "-c", "user.email=e@example.org", "commit", "-q", "--allow-empty", "-m", "m"],
    ):
        subprocess.run(["git", "-C", str(tmp_path), *command], check=True)
    (tmp_path / "new.txt").write_text("x")
    state = git_state(tmp_path)
    assert state is not None and len(state["commit"]) == 40 and state["changed"] == ["?? new.txt"]


def test_metrics_survive_a_kill_in_the_middle_of_a_line_and_are_rewound(tmp_path: Path) -> None:
    log = JSONLMetrics(tmp_path / "metrics.jsonl")
    for step in range(4):
        log.write(step, {"reward": step / 10, "unknown": float("nan")})
    with log.path.open("a") as file:
        file.write('{"step": 4, "rew')
    assert [record["step"] for record in read_metrics(log.path)] == [0, 1, 2, 3]
    log.rewind(2)
    assert read_metrics(log.path) == [{"step": step, "reward": step / 10, "unknown": None} for step in (0, 1)]
    log.write(2, {"reward": 0.5})
    assert [record["step"] for record in read_metrics(log.path)] == [0, 1, 2]


@pytest.mark.parametrize("damage", ['{"step": 1, "rew', "[1, 2]", "42", '{"reward": 0.5}', "\x00\x00"])
def test_damage_in_the_middle_of_the_metrics_is_kept_aside_when_a_run_goes_on(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "metrics.jsonl"
    content = f'{{"step": 0}}\n{damage}\n{{"step": 2}}\n'
    path.write_text(content)
    with pytest.warns(UserWarning, match="damaged after 1 records"):
        JSONLMetrics(path).rewind(3)
    assert read_metrics(path) == [{"step": 0}]
    assert (tmp_path / "metrics.damaged.jsonl").read_text() == content
    path.write_text(f'{{"step": 0}}\n{damage}')  # the last line alone: a kill leaves that, and nobody misses it
    JSONLMetrics(path).rewind(3)
    assert read_metrics(path) == [{"step": 0}]


def test_two_processes_do_not_work_on_one_run(tmp_path: Path) -> None:
    run = RunDirectory.create(tmp_path, "quick", 0, {})
    other = (
        "import sys, pathlib; from wmrl_gym.runs.records.run_directory import RunDirectory\n"
        "with RunDirectory.open(pathlib.Path(sys.argv[1])).lock(): print('locked')"
    )
    command = [sys.executable, "-c", other, str(run.path)]
    with run.lock():
        refused = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert refused.returncode == 1 and "another process works on" in refused.stderr
    assert subprocess.run(command, capture_output=True, text=True, timeout=60).stdout == "locked\n"


def test_damaged_files_of_a_run_are_named(tmp_path: Path) -> None:
    run = RunDirectory.create(tmp_path, "quick", 0, {})
    (run.path / "after.json").write_text('{"scores": ')
    with pytest.raises(DamagedRun, match=r"(?s)after\.json.*remove it"):
        run.read_json("after.json")
    for content in ("", "seed: [1", "just words"):
        run.config_file.write_text(content)
        with pytest.raises(DamagedRun, match=r"config\.yaml"):
            run.config()
