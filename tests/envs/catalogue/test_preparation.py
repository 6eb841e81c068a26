"""Preparing competitions: repeatable, left alone when up to date, whole or absent, safe side by side."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import multiprocessing
from pathlib import Path

import pytest

from wmrl_gym.envs.mle_dojo.catalogue import CATALOGUE, MissingSourceError, Source, prepare
from wmrl_gym.envs.mle_dojo.catalogue import preparation as preparation_module
from wmrl_gym.envs.mle_dojo.catalogue.preparation import prepare_spec
from wmrl_gym.envs.mle_dojo.catalogue.sources import source_path

SMALL = "births_per_woman"


def _digests(folder: Path) -> dict[str, str]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@pytest.mark.parametrize("name", [SMALL, "titanic_survival", "scripture_parts", "digits_8x8"])
def test_preparing_again_elsewhere_gives_the_same_bytes(root: Path, tmp_path: Path, name: str) -> None:
    assert _digests(prepare(name, tmp_path)) == _digests(root / name)


def test_what_is_up_to_date_is_left_alone(tmp_path: Path) -> None:
    folder = prepare(SMALL, tmp_path)
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    prepare(SMALL, tmp_path)
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before


def test_stale_preparation_is_redone(tmp_path: Path) -> None:
    folder = prepare(SMALL, tmp_path)
    wanted = _digests(folder)
    facts = json.loads((folder / "competition.json").read_text())
    (folder / "competition.json").write_text(json.dumps(facts | {"fingerprint": "made from older data"}))
    (folder / "data" / "public" / "train.csv").write_text("old")
    prepare(SMALL, tmp_path)
    assert _digests(folder) == wanted


def test_failure_on_the_way_leaves_the_old_one_and_no_rubbish(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = prepare(SMALL, tmp_path)
    (folder / "competition.json").write_text("{}")
    before = _digests(folder)

    def disk_full(*_: object) -> str:
        raise OSError("no space left on device")

    monkeypatch.setattr(preparation_module, "render_metric", disk_full)
    with pytest.raises(OSError, match="no space"):
        prepare(SMALL, tmp_path)
    assert _digests(folder) == before
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == [SMALL]


def _prepare_in_process(root: str) -> None:
    prepare(SMALL, root)


def test_several_processes_preparing_at_once_agree(root: Path, tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=_prepare_in_process, args=(str(tmp_path),)) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert [worker.exitcode for worker in workers] == [0, 0, 0]
    assert _digests(tmp_path / SMALL) == _digests(root / SMALL)
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == [SMALL]


def test_missing_package_is_named_with_the_extra_that_brings_it(tmp_path: Path) -> None:
    source = Source("no-such-package", "no_such_package", ("data.csv",))
    spec = dataclasses.replace(CATALOGUE[SMALL], sources=(source,))
    with pytest.raises(MissingSourceError, match=r"no-such-package[\s\S]*wmrl-gym\[competitions\]"):
        prepare_spec(spec, tmp_path)
    assert not list(tmp_path.iterdir())


def test_package_without_the_file_is_named() -> None:
    with pytest.raises(MissingSourceError, match=r"scikit-learn[\s\S]*lost\.csv"):
        source_path(Source("scikit-learn", "sklearn", ("lost.csv",)), "lost.csv")


def test_unknown_competition_gets_the_nearest_name(tmp_path: Path) -> None:
    with pytest.raises(KeyError, match="titanic_survival"):
        prepare("titanic", tmp_path)


def test_competition_json_names_source_licence_and_reference_leaderboard(root: Path) -> None:
    for name, spec in CATALOGUE.items():
        facts = json.loads((root / name / "competition.json").read_text())
        assert facts["leaderboard"] == "reference"
        assert (facts["category"], facts["split"], facts["metric"]) == (spec.category, spec.split, spec.metric)
        assert facts["licence"] and "GPL" not in facts["licence"]
