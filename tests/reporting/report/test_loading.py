"""Runs that are empty, broken off, or of other kinds: a clear error, or gaps that are said."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest

from tests.runs.records.recorded import make_run
from wmrl_gym.cli.main import main
from wmrl_gym.reporting.report import build_page, load_runs, page
from wmrl_gym.runs.records.run_directory import RunDirectory


@pytest.fixture
def run(runs: list[Path], tmp_path: Path) -> Path:
    return Path(shutil.copytree(runs[0], tmp_path / "run"))


def test_what_is_no_run_is_refused_with_a_hint(
    tmp_path: Path, runs: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", str(tmp_path / "nowhere")]) == 2
    assert "no such folder" in capsys.readouterr().err
    assert main(["report", str(tmp_path)]) == 2
    assert "no config.yaml" in capsys.readouterr().err
    assert main(["report", str(runs[0].parent)]) == 2
    assert f"holds {len(list(runs[0].parent.iterdir()))} of them" in capsys.readouterr().err
    assert main(["report", str(runs[0]), str(runs[0])]) == 2
    assert "named twice" in capsys.readouterr().err


def test_run_that_has_done_nothing_is_refused_but_not_beside_others(tmp_path: Path, runs: list[Path]) -> None:
    empty = RunDirectory.create(tmp_path, "letters", 7, {"experiment_name": "letters", "seed": 7}).path
    with pytest.raises(ValueError, match="nothing to report yet"):
        load_runs([empty])
    html = build_page(load_runs([empty, runs[0]]))
    assert "It has not finished a step." in html


def test_unreadable_configuration_is_named(run: Path) -> None:
    (run / "config.yaml").write_text("a: [")
    with pytest.raises(ValueError, match=r"config\.yaml cannot be read"):
        load_runs([run])
    (run / "config.yaml").write_text("")
    with pytest.raises(ValueError, match="holds no settings"):
        load_runs([run])


def test_lines_broken_by_a_kill_are_left_out_and_said(run: Path) -> None:
    whole = load_runs([run])[0]
    for name, cut in (("metrics.jsonl", 30), ("ledger.jsonl", 12), ("trajectories.jsonl.gz", 200), ("table.json", 9)):
        content = (run / name).read_bytes()
        (run / name).write_bytes(content[:-cut])
    (run / "ledger.jsonl").write_bytes((run / "ledger.jsonl").read_bytes() + b"\xc3")  # half a character
    broken = load_runs([run])[0]
    assert len(broken.metrics) == len(whole.metrics) - 1
    assert len(broken.pairs) == len(whole.pairs) - 1
    assert 0 < len(broken.recorded.trajectories) < len(whole.recorded.trajectories)
    assert broken.table is None
    notes = " ".join(broken.notes)
    for name in ("metrics.jsonl", "ledger.jsonl", "trajectories.jsonl.gz", "table.json"):
        assert f"{name} " in notes, name
    assert "breaks off" in build_page([broken])


def test_run_recorded_before_there_were_trajectories_says_so(run: Path) -> None:
    (run / "trajectories.jsonl.gz").unlink()
    loaded = load_runs([run])
    html = build_page(loaded)
    assert "No trajectories were recorded" in " ".join(loaded[0].notes)
    assert "No trajectories were recorded in these runs." in html
    assert "Status accuracy" not in html and "Rank correlation" in html
    assert '<option value="executed_seconds">' in html, "the ledger knows them, too"


def test_metrics_that_are_all_unknown_leave_gaps(run: Path) -> None:
    records = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    for record in records:
        record.update(dict.fromkeys((key for key in record if key != "step"), None))
    (run / "metrics.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    html = build_page(load_runs([run]))
    assert "No run here has finished a step." in html  # of which anything is known
    assert "Calibration" in html


@pytest.mark.parametrize(
    ("fraction", "world_model", "missing"),
    [(0.0, True, "no calibration to show"), (1.0, False, "no calibration to show")],
)
def test_run_without_anchors_or_without_world_model(
    tmp_path: Path, fraction: float, world_model: bool, missing: str
) -> None:
    path = make_run(tmp_path, fraction=fraction, world_model=world_model, steps=3)
    html = build_page(load_runs([path]))
    assert missing in html and "nothing is known of its accuracy" in html
    assert ("Predicted score" in html) == world_model
    assert ("Executed score" in html) == (not world_model)


def test_missing_extra_names_itself(runs: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    page._plotly_script.cache_clear()
    monkeypatch.setitem(sys.modules, "plotly", None)
    monkeypatch.setitem(sys.modules, "plotly.offline", None)
    monkeypatch.setitem(sys.modules, "plotly.graph_objects", None)
    with pytest.raises(ImportError, match=r"wmrl-gym\[report\]"):
        build_page(load_runs(runs))


def test_command_writes_into_the_run_or_where_it_is_told(
    run: Path, runs: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["report", str(run)]) == 0
    assert (run / "report.html").stat().st_size < 4e6
    assert "MB" in capsys.readouterr().out
    assert main(["report", *map(str, runs), "--trajectories", "5"]) == 0
    assert "5 of" in (tmp_path / "report.html").read_text()
    for output, message in ((str(tmp_path), "a folder"), (str(tmp_path / "no" / "x.html"), "make it first")):
        assert main(["report", str(run), "--output", output]) == 2
        assert message in capsys.readouterr().err
    assert main(["report", str(run), "--trajectories", "-1"]) == 2
