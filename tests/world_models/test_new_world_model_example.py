"""The example of docs/world_models.md runs, is as short as it says, and fits where a world model goes."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from wmrl_gym import Submission
from wmrl_gym.core import WorldModel
from wmrl_gym.proxy.prediction import predict_batch

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "new_world_model.py"


def test_it_takes_twenty_lines_of_code() -> None:
    code = EXAMPLE.read_text().partition('"""')[2].partition('"""')[2]
    assert len([line for line in code.splitlines() if line.strip()]) <= 20


def test_it_predicts_by_likeness_and_leaves_what_is_unlike_unknown() -> None:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(EXAMPLE)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120)
    assert done.returncode == 0, done.stderr
    assert [line.rpartition(": ")[2] for line in done.stdout.splitlines()] == ["0.7", "0.6", "None"]


def test_it_is_a_world_model_that_the_proxy_accepts(capsys: pytest.CaptureFixture[str]) -> None:
    names = runpy.run_path(str(EXAMPLE))
    model = names["Likeness"]({"a b c": 0.4})
    assert isinstance(model, WorldModel)
    outcomes = predict_batch(model, [Submission("x", "a b c"), Submission("x", "d"), Submission("x", "a b c")])
    assert [outcome.score for outcome in outcomes] == [0.4, None, 0.4]


def test_documentation_shows_the_example_as_it_is() -> None:
    page = EXAMPLE.parents[1] / "docs" / "world_models.md"
    shown = EXAMPLE.read_text().partition("class Likeness")[1:]
    body = "".join(shown).partition("\n\n\nscripts = ")[0]
    assert body in page.read_text()
