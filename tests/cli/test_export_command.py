"""`wmrl export`: what it writes is tested in tests/runs/test_exporting.py; here what the command adds."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from wmrl_gym.cli.main import main
from wmrl_gym.reporting.card_results import card_results
from wmrl_gym.reporting.evaluation_tables import evaluation_tables
from wmrl_gym.runs import TrainingRun

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def run(smoke_root: Path, tmp_path_factory: pytest.TempPathFactory) -> TrainingRun:
    settings = ["experiment=smoke", "algorithm.steps=1", "algorithm.groups_per_step=2", "algorithm.group_size=2"]
    runs = tmp_path_factory.mktemp("runs")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WMRL_DATA_ROOT", str(smoke_root))
        made = TrainingRun.from_config([*settings, "threads=1", "logger.tensorboard=false", f"runs={runs}"])
        made.train()
    return made


def test_the_command_writes_a_card_with_intervals_and_says_where(
    run: TrainingRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "agent"
    assert main(["export", f"run={run.directory.path}", f"output={output}", "dtype=bfloat16"]) == 0
    told = capsys.readouterr().out
    assert told.startswith(f"wrote {output}: model of ") and "step-000001" in told
    card = (output / "README.md").read_text()
    assert "The weights are written as bfloat16." in card and "| task | before training | after 1 steps |" in card
    for when, name in (("before", 0), ("after", 1)):
        tables = evaluation_tables(run.directory.read_json(f"{when}.json"), title="")
        mean = next(line for line in card.splitlines() if line.startswith("| mean over tasks |"))
        assert mean.split(" | ")[name + 1].removesuffix(" |") == tables.score_text(tables.rows[-1].score)
    assert re.search(r"\| titanic_survival \| [\d.]+% \[", card)


def test_a_task_that_an_evaluation_did_not_play_is_a_dash() -> None:
    def played(task: str, metrics: list[float | None]) -> dict[str, Any]:
        records = [
            {"task": task, "metric": metric, "known": True, "turn_metrics": [metric], "others": {}}
            for metric in metrics
        ]
        measure = {"name": "percentile", "is_share": True}
        return {"records": records, "samples": 2, "executions": 2, "seconds": 1.0, "measure": measure}

    lines = card_results({"before": played("a", [0.25, 0.5]), "later": played("b", [0.5, None])}).splitlines()
    assert any(re.fullmatch(r"\| a \| 37\.5% \[.*\] \| - \|", line) for line in lines)
    assert any(re.fullmatch(r"\| b \| - \| 25\.0% \[.*\] \|", line) for line in lines)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["output=x"], "run"),
        (["run=nowhere"], "output"),
        (["run=nowhere", "output=x"], "'nowhere' is not a run directory"),
        (["run=nowhere", "output=x", "dtype=int4"], "dtype"),
        (["run=nowhere", "output=x", "merged=false"], "did you mean 'merge'?"),
    ],
)
def test_a_mistake_is_told_and_writes_nothing(
    words: list[str], told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["export", *words]) == 2
    error = capsys.readouterr().err
    assert error.startswith("wmrl: ") and told in error and "unexpected" not in error
    assert not list(tmp_path.iterdir())
