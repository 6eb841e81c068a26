from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from wmrl_gym.core import Outcome, Submission, WorldModel, WorldModelError
from wmrl_gym.reporting.fidelity.assessment import cost
from wmrl_gym.runs.predicting import Prediction, predict_all, status_ranking
from wmrl_gym.runs.records.work_file import OtherWork, WorkFile

SUBMISSIONS = [Submission("t", f"x = {i}") for i in range(7)]


class Counting:
    """Predicts how many it has judged before: a world model that remembers."""

    def __init__(self) -> None:
        self.judged = 0

    def predict(self, submissions: Sequence[Submission]) -> list[Outcome]:
        outcomes = []
        for _ in submissions:
            outcomes.append(Outcome(self.judged / 10, "valid", source="world_model"))
            self.judged += 1
        return outcomes

    def state_dict(self) -> dict[str, Any]:
        return {"judged": self.judged}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.judged = int(state["judged"])


def predicted(
    model: WorldModel, path: Path, batch: int = 3, on_batch: Callable[[int], None] = lambda done: None
) -> list[Prediction]:
    with WorkFile(path, {}) as work:
        return predict_all(model, SUBMISSIONS, work, batch, on_batch)


def test_interrupted_predictions_go_on_as_if_nothing_had_happened(tmp_path: Path) -> None:
    whole = predicted(Counting(), tmp_path / "whole")

    class Killed(Exception):
        pass

    def kill(done: int) -> None:
        raise Killed

    with pytest.raises(Killed):
        predicted(Counting(), tmp_path / "cut", on_batch=kill)
    asked = Counting()
    resumed = predicted(asked, tmp_path / "cut")
    assert [row.score for row in resumed] == [row.score for row in whole] == [i / 10 for i in range(7)]
    assert asked.judged == 7  # what it remembered came back, and nothing was judged twice


def test_predictions_with_other_fields_are_refused_and_the_file_is_named(tmp_path: Path) -> None:
    predicted(Counting(), tmp_path / "work")
    (tmp_path / "work").write_text((tmp_path / "work").read_text().replace('"ranking"', '"order"'))
    with pytest.raises(OtherWork, match=r"work' holds what this version cannot go on with \(TypeError: .*'order'"):
        predicted(Counting(), tmp_path / "work")


def test_wrong_number_of_outcomes_is_told(tmp_path: Path) -> None:
    class Short:
        def predict(self, submissions: Sequence[Submission]) -> list[Outcome]:
            return [Outcome(0.5, "valid")]

    with pytest.raises(WorldModelError, match="gave 1 outcomes for 3"):
        predicted(Short(), tmp_path / "work")


def test_second_likeliest_status_is_taken_from_what_the_world_model_says_and_never_made_up() -> None:
    assert status_ranking(Outcome(0.1, "runtime_error", details={"second": "ValueError"})) is None
    assert status_ranking(Outcome(0.1, "timeout", details={"second_status": None})) is None
    assert status_ranking(Outcome(0.1, "timeout", details={"second_status": "valid"})) == ("timeout", "valid")
    probabilities = {"valid": 0.2, "timeout": 0.5, "runtime_error": 0.3}
    told = Outcome(0.1, "timeout", details={"status_probabilities": probabilities})
    assert status_ranking(told) == ("timeout", "runtime_error", "valid")


def test_gated_verdict_counts_as_passing() -> None:
    verdicts = [
        {"check": "api_calls", "passed": False, "gated": True},
        {"check": "submission", "passed": False, "gated": False},
        {"check": "quality", "passed": None},
        {"check": "imports_and_names", "passed": True},
    ]
    read = Prediction.of(Outcome(0.2, "invalid_submission", details={"verdicts": verdicts}))
    assert read.failed_checks == ("submission",)
    assert read.passed_checks == ("api_calls", "imports_and_names")
    assert read.silent_checks == ("quality",)


def test_tokens_are_unknown_unless_told_and_else_a_mean_over_all_scripts() -> None:
    silent = Prediction.of(Outcome(0.5, "valid", details={"tokens": {"prompt": None, "generated": None}}))
    assert cost([silent, silent])["prompt_tokens"] is None
    told = Prediction.of(Outcome(0.5, "valid", details={"tokens": {"prompt": 100, "cached": None, "generated": 8}}))
    found = cost([told, silent])
    assert (found["prompt_tokens"], found["cached_tokens"], found["generated_tokens"]) == (50.0, None, 4.0)


def test_predictions_survive_json(tmp_path: Path) -> None:
    class Ranked:
        def predict(self, submissions: Sequence[Submission]) -> list[Outcome]:
            details = {"second_status": "valid", "verdicts": [{"check": "submission", "passed": False}]}
            return [Outcome(None, "unknown", details=details) for _ in submissions]

    first = predicted(Ranked(), tmp_path / "work", batch=7)
    again = predicted(Ranked(), tmp_path / "work", batch=7)
    assert again == first
