"""`wmrl corpus` and `wmrl fidelity` as a user runs them, on a few scripts that are really executed."""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections import Counter
from pathlib import Path

import pytest

from wmrl_gym.cli.main import main
from wmrl_gym.configs import compose_config, to_dataclass
from wmrl_gym.configs.fidelity_schema import CorpusConfig, FidelityConfig
from wmrl_gym.configs.validation import ConfigError
from wmrl_gym.corpus.file import Corpus, Record, read_corpus, write_corpus
from wmrl_gym.runs.records.run_directory import locked

pytestmark = pytest.mark.slow

TASKS = ("tasks.train=[diabetes_progression]", "tasks.held_out=[titanic_survival]")
COUNT = 24


def drawing(output: Path, *overrides: str) -> list[str]:
    return ["corpus", f"output={output}", f"count={COUNT}", *TASKS, *overrides]


@pytest.fixture(scope="module")
def drawn(smoke_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus of all authors, the agent's revisions included."""
    path = tmp_path_factory.mktemp("corpus") / "solutions.jsonl.gz"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WMRL_DATA_ROOT", str(smoke_root))
        assert main(drawing(path, "agent.revised=1.0")) == 0
    return path


@pytest.fixture
def folder(drawn: Path, smoke_data: None, tmp_path: Path) -> Path:
    shutil.copy(drawn, tmp_path / "solutions.jsonl.gz")
    return tmp_path


def without_seconds(corpus: Corpus) -> list[Record]:
    return [dataclasses.replace(record, seconds=0.0) for record in corpus.records]


def test_corpus_holds_different_scripts_of_every_author_with_what_came_of_them(drawn: Path) -> None:
    corpus = read_corpus(drawn)
    assert len(corpus.records) == COUNT == len({(r.task, r.script) for r in corpus.records})
    assert set(Counter(record.author for record in corpus.records)) == {"generator", "reference", "mutant", "nano"}
    assert corpus.tasks == ["diabetes_progression", "titanic_survival"]
    assert any(record.turn == 1 for record in corpus.records)
    for record in corpus.records:
        assert record.score is not None and len(record.environment) == 16
        assert (record.status == "valid") == (record.percentile is not None) == (record.score >= 0.5)
        assert (record.exception is None) == (record.status in ("valid", "invalid_submission"))
    assert all(record.status == "valid" for record in corpus.records if record.author == "reference")
    (header,) = corpus.headers
    assert header.limits["wall_seconds"] == 20.0 and "scikit-learn" in header.versions
    assert not drawn.with_name(drawn.name + ".part").exists()


@pytest.mark.slow
def test_interrupted_corpus_goes_on_with_the_same_scripts(
    smoke_data: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from wmrl_gym.corpus import writing as corpus_writing

    sound = ("authors.agent=0", "authors.reference=0", "count=20")  # no unseeded models' luck in what is compared
    monkeypatch.setattr(corpus_writing, "BLOCK", 8)
    whole, cut = tmp_path / "whole.jsonl", tmp_path / "cut.jsonl"
    assert main(drawing(whole, *sound)) == 0
    write, calls = corpus_writing.write_draft, []

    def interrupted(*arguments: object) -> object:
        calls.append(arguments)
        if len(calls) > 11:
            raise KeyboardInterrupt
        return write(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(corpus_writing, "write_draft", interrupted)
    assert main(drawing(cut, *sound)) == 130
    assert "the same command goes on" in capsys.readouterr().out and not cut.exists()
    part = cut.with_name(cut.name + ".part")
    with part.open("a") as file:
        file.write('[{"task": "diab')  # killed while it wrote
    monkeypatch.setattr(corpus_writing, "write_draft", write)
    with locked(part.with_name(f".{part.name}.lock"), part):
        assert main(drawing(cut, *sound)) == 2
    assert f"another process works on '{part}'" in capsys.readouterr().err
    assert main(drawing(cut, *sound, "seed=1")) == 2
    assert "begun with other settings:\n    config.seed: 0, now 1\n" in capsys.readouterr().err
    assert main(drawing(cut, *sound)) == 0
    assert [r.script for r in read_corpus(cut).records] == [r.script for r in read_corpus(whole).records]
    assert [r.status for r in read_corpus(cut).records] == [r.status for r in read_corpus(whole).records]


def test_finished_corpus_is_left_alone(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = folder / "solutions.jsonl.gz"
    before = path.read_bytes()
    assert main(drawing(path, "agent.revised=1.0")) == 0
    assert "finished already" in capsys.readouterr().out.replace("\n", " ")
    assert main(drawing(path, "agent.revised=1.0", "seed=3")) == 2
    assert "other settings" in capsys.readouterr().err
    assert path.read_bytes() == before


def test_fidelity_of_static_analysis_is_reported_and_resumed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["fidelity", f"corpus={folder / 'solutions.jsonl.gz'}", f"output={folder / 'out'}", "resamples=50"]
    assert main([*command, "batch=5"]) == 0
    out = folder / "out"
    found = json.loads((out / "fidelity.json").read_text())
    assert found["solutions"] == COUNT and sum(sum(row.values()) for row in found["confusion"].values()) == COUNT
    assert found["overall"]["status_accuracy"]["value"] > found["constant"]["status_accuracy"]
    assert found["overall"]["status_accuracy_at_2"]["value"] is None  # it names no second status
    assert found["cost"]["prompt_tokens"] is None and found["cost"]["seconds"] > 0
    assert sum(part["n"] for part in found["by_author"].values()) == COUNT
    assert set(found["by_task"]) == {"diabetes_progression", "titanic_survival"}
    text = (out / "fidelity.md").read_text()
    assert "# Fidelity of StaticAnalysis" in text and "| reference |" in text and "| - |" in text
    assert (out / "fidelity.svg").read_text().lstrip().startswith("<?xml")

    predictions = (out / "predictions.jsonl").read_text()
    lines = predictions.splitlines(keepends=True)
    (out / "predictions.jsonl").write_text("".join(lines[:3]) + lines[3][:40])
    assert main([*command, "batch=5"]) == 0
    again = (out / "predictions.jsonl").read_text().splitlines()
    assert again[:3] == predictions.splitlines()[:3] and len(again) == len(lines)
    kept = ("overall", "confusion", "by_author", "checks", "calibration")
    resumed = json.loads((out / "fidelity.json").read_text())
    assert [resumed[name] for name in kept] == [found[name] for name in kept]

    capsys.readouterr()
    with locked(out / ".predictions.jsonl.lock", out):
        assert main([*command, "batch=5"]) == 2
    assert "another process works on" in capsys.readouterr().err
    assert main([*command, "batch=5", "world_model.quality=continuous"]) == 2
    assert "other settings:\n    world_model.quality: " in capsys.readouterr().err


@pytest.mark.parametrize("override", ["batch=0", "limit=0", "resamples=0", "level=1.5", "seed=-1", "world_model=null"])
def test_settings_that_cannot_be_right_are_refused(override: str) -> None:
    with pytest.raises(ConfigError):
        to_dataclass(FidelityConfig, compose_config("fidelity", ["corpus=x", override]))


@pytest.mark.parametrize(
    "override",
    ["count=0", "seed=-1", "agent.revised=1.5", "agent.temperatures=[]", "authors.generator=-1", "policy=null",
     "authors={generator: 0, reference: 0, mutant: 0, agent: 0}"],
)  # fmt: skip
def test_corpora_that_cannot_be_drawn_are_refused(override: str) -> None:
    with pytest.raises(ConfigError):
        to_dataclass(CorpusConfig, compose_config("corpus", [override]))


def test_several_corpora_and_every_bundled_checker_compose() -> None:
    plain = compose_config("fidelity", ["corpus=[a.gz,b.gz]", "world_model=llm_static_checker",
                                        "world_model.engine.path=x", "world_model.first=null"])  # fmt: skip
    config = to_dataclass(FidelityConfig, plain)
    assert config.corpora == [Path("a.gz"), Path("b.gz")]
    assert config.world_model is not None and config.world_model.arguments["first"] is None


def test_unusable_solutions_are_one_clear_message(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def refused(path: Path, *overrides: str) -> str:
        code = main(["fidelity", f"corpus={path}", f"output={folder / 'out'}", *overrides])
        message = capsys.readouterr().err
        assert code == 2 and message.startswith("wmrl: ") and "unexpected" not in message
        return message

    assert "there is no corpus" in refused(folder / "nowhere.gz")
    (folder / "notes.txt").write_text("not a corpus\n")
    assert "is no JSON" in refused(folder / "notes.txt")
    corpus = read_corpus(folder / "solutions.jsonl.gz")
    header = corpus.headers[0]
    stale = dataclasses.replace(header, data={**header.data, "titanic_survival": "0" * 64})
    write_corpus(folder / "stale.gz", stale, corpus.records)
    assert "executed on other data than these: titanic_survival" in refused(folder / "stale.gz")
    assert "env.sandbox_limits.wall_seconds=20.0" in refused(
        folder / "solutions.jsonl.gz", "env.sandbox_limits.wall_seconds=5"
    )
    assert "env.ladder.valid_base=0.5" in refused(folder / "solutions.jsonl.gz", "env.ladder.valid_base=0.6")
    unprepared = [dataclasses.replace(record, task="nowhere") for record in corpus.records]
    write_corpus(folder / "other.gz", header, unprepared)
    assert "there is no competition 'nowhere'" in refused(folder / "other.gz")
    assert not (folder / "out" / "fidelity.md").exists()


def test_other_package_versions_are_noted_and_no_reason_to_refuse(folder: Path) -> None:
    corpus = read_corpus(folder / "solutions.jsonl.gz")
    header = dataclasses.replace(corpus.headers[0], versions={**corpus.headers[0].versions, "pandas": "0.1"})
    write_corpus(folder / "older.gz", header, corpus.records)
    command = ["fidelity", f"corpus={folder / 'older.gz'}", f"output={folder / 'out'}"]
    assert main([*command, "plot=false", "limit=10"]) == 0
    assert "Executed with pandas 0.1" in (folder / "out" / "fidelity.md").read_text()
    assert not (folder / "out" / "fidelity.svg").exists()


def test_unknown_author_is_answered_with_the_nearest(
    smoke_data: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(drawing(tmp_path / "x.gz", "+authors.mutants=1")) == 2
    assert "did you mean 'authors.mutant'?" in capsys.readouterr().err
    assert main(drawing(tmp_path, "agent.name=mutant")) == 2
    assert "a folder" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
