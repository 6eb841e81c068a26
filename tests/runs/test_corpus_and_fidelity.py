"""A corpus and a world model's fidelity from Python."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from wmrl_gym.configs import ConfigError
from wmrl_gym.corpus import Corpus, read_corpus
from wmrl_gym.reporting.fidelity.files import write_fidelity
from wmrl_gym.runs import CorpusDrawing, FidelityMeasurement

TASKS = ["tasks.train=[diabetes_progression]", "tasks.held_out=[]"]
SMALL = [*TASKS, "count=6", "authors.agent=0", "confirm_timeouts=0"]


@pytest.fixture
def drawn(smoke_data: None, tmp_path: Path) -> tuple[Path, Corpus]:
    path = tmp_path / "solutions.jsonl"
    told: list[int] = []
    corpus = CorpusDrawing.from_config([*SMALL, f"output={path}"]).write(told.append)
    assert told[-1] == 6
    return path, corpus


def test_what_is_drawn_is_what_is_in_the_file_and_is_not_executed_again(
    drawn: tuple[Path, Corpus], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, corpus = drawn
    assert read_corpus(path) == corpus and len(corpus.records) == 6
    monkeypatch.setattr("wmrl_gym.runs.corpus_drawing.write_blocks", None)
    assert CorpusDrawing.from_config([*SMALL, f"output={path}"]).write() == corpus


def test_what_a_world_model_says_is_saved_and_reported(drawn: tuple[Path, Corpus], tmp_path: Path) -> None:
    path, corpus = drawn
    words = [f"corpus={path}", f"output={tmp_path / 'out'}", "plot=false", "resamples=20", "batch=4"]
    measurement = FidelityMeasurement.from_config(words)
    told: list[int] = []
    predictions = measurement.predict(on_batch=told.append)
    assert told == [4, 6] and len(predictions) == len(measurement.records) == len(corpus.records)
    again = FidelityMeasurement.from_config(words)
    assert again.predict(on_batch=told.append) == predictions and told == [4, 6]

    found = write_fidelity(measurement, predictions)
    assert found == json.loads((tmp_path / "out" / "fidelity.json").read_text())
    hits = sum(p.status == r.status for p, r in zip(predictions, measurement.records, strict=True))
    assert found["world_model"] == "StaticAnalysis" and found["overall"]["status_accuracy"]["value"] == hits / 6


def test_an_environment_without_competitions_is_refused(tmp_path: Path) -> None:
    letters = "{_target_: tests.algorithms.letters.LetterEnv}"
    with pytest.raises(ConfigError, match="env makes a LetterEnv, but a corpus holds scripts"):
        CorpusDrawing.from_config([*TASKS, f"env={letters}", f"output={tmp_path / 'x.gz'}"])
