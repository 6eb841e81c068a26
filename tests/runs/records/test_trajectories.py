from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from wmrl_gym.core import Decision, Group, Outcome, Submission, Trajectory, Turn
from wmrl_gym.proxy.reward_proxy import ScoredStep
from wmrl_gym.runs.records.run_directory import RunDirectory
from wmrl_gym.runs.records.trajectories import MAX_TEXT, TrajectoryRecorder, read_trajectories

from .recorded import TASKS, make_run, proxy_of, script_of, trainer_of


def played(action: object = "x", content: object = "x", *, anchor: bool = False, reward: float = 1.0) -> Group:
    decision = Decision("an overview", action, np.array([0]), np.array([0]), np.array([0.0], np.float32))
    submission = None if content is None else Submission("task", content)
    outcome = Outcome(0.5, "valid", "fine", "world_model", 0.1, {"nan": float("nan"), "array": np.zeros((2, 3))})
    turn = Turn(decision, submission, outcome, None, reward)
    return Group("0:task", "task", anchor, 0.1, (Trajectory((turn,), 0.5, None),) * 2)


def scored(*rewards: float | None) -> ScoredStep:
    return ScoredStep([list(rewards)], np.ones(1), np.zeros(1, bool), {})


def test_every_trajectory_of_a_run_is_recorded_with_what_it_was_worth(runs: list[Path]) -> None:
    recorded = read_trajectories(runs[0] / "trajectories.jsonl.gz")
    assert len(recorded.trajectories) == 6 * 16
    assert {t["task"] for t in recorded.trajectories} == set(TASKS)
    assert len(recorded.openings) == 2, "an overview is stored once for each task"
    anchor = next(t for t in recorded.trajectories if t["anchor"])
    assert anchor["reward"] == anchor["executed"] and len(anchor["turns"]) == 2
    assert anchor["turns"][0]["executed"]["seconds"] == 0.25
    assert anchor["turns"][1]["script"] in {script_of(letter) for letter in "abcdefgh"}
    assert len(anchor["turns"][0]["predicted"]["verdicts"]) == 8
    group = [t for t in recorded.trajectories if (t["step"], t["group"]) == (anchor["step"], anchor["group"])]
    assert sum(t["advantage"] for t in group) == pytest.approx(0, abs=1e-9)
    other = next(t for t in recorded.trajectories if not t["anchor"])
    assert other["executed"] is None and other["turns"][0]["executed"] is None


def test_anchors_alone_can_be_recorded(tmp_path: Path) -> None:
    recorded = read_trajectories(make_run(tmp_path, which="anchors") / "trajectories.jsonl.gz")
    assert recorded.trajectories and all(t["anchor"] for t in recorded.trajectories)


def test_resumed_run_records_each_step_once_and_as_the_whole_run_did(tmp_path: Path) -> None:
    whole = make_run(tmp_path / "whole", steps=5, finished=False)
    cut = RunDirectory(make_run(tmp_path / "cut", steps=5, finished=False))
    (cut.checkpoints / "step-000005").rename(tmp_path / "gone")  # the newest left is of step 4
    with cut.trajectories_file.open("ab") as file:
        file.write(b"\x1f\x8b\x08\x00half a member")  # as a kill in mid-write leaves it
    resumed = trainer_of(cut, proxy_of(0.25, 0), steps=5, seed=0, world_model=True)
    first = resumed.resume()
    assert first == 4
    recorder = TrajectoryRecorder(cut.trajectories_file)
    recorder.rewind(first)
    resumed.on_groups = recorder.record
    resumed.train()
    ours, theirs = (read_trajectories(path / "trajectories.jsonl.gz") for path in (cut.path, whole))
    assert ours.problem is None
    assert ours == theirs


def test_rewinding_to_the_beginning_forgets_the_overviews_too(tmp_path: Path) -> None:
    recorder = TrajectoryRecorder(tmp_path / "t.jsonl.gz")
    recorder.record(0, [played()], scored(1.0, 0.0))
    recorder.rewind(0)
    assert read_trajectories(recorder.path).trajectories == []
    recorder.record(0, [played()], scored(1.0, 0.0))
    assert list(read_trajectories(recorder.path).openings.values()) == ["an overview"]


def test_file_cut_anywhere_gives_the_steps_before_the_cut(tmp_path: Path) -> None:
    recorder = TrajectoryRecorder(tmp_path / "t.jsonl.gz")
    ends = []
    for step in range(3):
        recorder.record(step, [played()], scored(1.0, 0.0))
        ends.append(recorder.path.stat().st_size)
    content = recorder.path.read_bytes()
    for length in {*range(0, len(content), 7), *ends, *(end - 1 for end in ends)}:
        recorder.path.write_bytes(content[:length])
        found = read_trajectories(recorder.path)
        whole_steps = sum(length >= end for end in ends)
        assert len({t["step"] for t in found.trajectories}) >= whole_steps
        assert (found.problem is None) == (length in (0, *ends)), length


def test_damaged_file_is_a_problem_and_no_crash(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl.gz"
    for content in (b"not gzip", gzip.compress(b"not json\n"), gzip.compress(b'{"kind": "trajectory"}\n[1]\n')):
        path.write_bytes(content)
        found = read_trajectories(path)
        assert found.trajectories == [] and found.problem is not None


@pytest.mark.parametrize(
    ("action", "content", "answer"),
    [
        ("```python\nprint(1)\n```", "print(1)\n", None),
        ("I try this.\n```python\nprint(1)\n```", "print(1)\n", "I try this.\n```python\nprint(1)\n```"),
        ("no script", None, "no script"),
        (np.zeros((4, 7), np.float32), np.zeros((4, 7), np.float32), "array of shape (4, 7), float32"),
    ],
)
def test_answer_is_kept_where_it_says_more_than_its_script(
    tmp_path: Path, action: object, content: object, answer: str | None
) -> None:
    recorder = TrajectoryRecorder(tmp_path / "t.jsonl.gz")
    recorder.record(0, [played(action, content)], scored(None, 0.0))
    first = read_trajectories(recorder.path).trajectories[0]
    assert first["turns"][0]["answer"] == answer
    assert first["reward"] is None and first["advantage"] is None


def test_unknown_numbers_surrogates_and_endless_texts_can_be_recorded(tmp_path: Path) -> None:
    recorder = TrajectoryRecorder(tmp_path / "t.jsonl.gz")
    recorder.record(0, [played("\ud800", "x" * 10 * MAX_TEXT, reward=float("nan"))], scored(1.0, 0.0))
    turn = read_trajectories(recorder.path).trajectories[0]["turns"][0]
    assert turn["reward"] is None and "characters left out" in turn["script"] and len(turn["script"]) < MAX_TEXT + 100
    assert turn["predicted"]["details"] == {"array": "array of shape (2, 3), float64"}
