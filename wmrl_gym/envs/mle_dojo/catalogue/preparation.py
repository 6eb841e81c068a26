"""Writing competitions to disk, in the layout of MLE-Dojo.

Preparing is idempotent (what is there and up to date is left alone), atomic (a folder appears complete or not at all)
and safe when several processes do it at once.
"""

from __future__ import annotations

import difflib
import fcntl
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from wmrl_gym.envs.mle_dojo.catalogue.description import render_description
from wmrl_gym.envs.mle_dojo.catalogue.leaderboards import (
    leaderboard_file,
    reference_scores,
    render_board,
    split_boards,
)
from wmrl_gym.envs.mle_dojo.catalogue.partition import Partition, partition
from wmrl_gym.envs.mle_dojo.catalogue.scoring import render_metric
from wmrl_gym.envs.mle_dojo.catalogue.sources import digest, source_path
from wmrl_gym.envs.mle_dojo.catalogue.spec import CompetitionSpec

CATALOGUE_VERSION = 1


def fingerprint(spec: CompetitionSpec) -> str:
    """Hex SHA-256 of all that a prepared folder depends on: source data, this package's code, reference scores."""
    code = sorted(path for path in Path(__file__).parent.glob("*.py") if not path.name.startswith("reference_"))
    data = [source_path(source, file) for source in spec.sources for file in source.files]
    board = [path for path in [leaderboard_file(spec.name)] if path.is_file()]
    parts = f"{CATALOGUE_VERSION} {spec.name} {digest(code)} {digest(data)} {digest(board)}"
    return hashlib.sha256(parts.encode()).hexdigest()


def prepare_spec(spec: CompetitionSpec, root: Path) -> Path:
    """Make sure that ``root/<name>`` holds an up-to-date competition and return that folder.

    Raises:
        MissingSourceError: if a package that ships the data is not installed.
    """
    wanted = fingerprint(spec)
    folder = root / spec.name
    if _recorded_fingerprint(folder) == wanted:
        return folder
    root.mkdir(parents=True, exist_ok=True)
    with _locked(root / f".{spec.name}.lock"):
        if _recorded_fingerprint(folder) == wanted:
            return folder
        workspace = Path(tempfile.mkdtemp(prefix=f".{spec.name}.", dir=root))
        try:
            fresh = workspace / "new"
            _write_competition(spec, fresh, wanted)
            if folder.exists():
                os.rename(folder, workspace / "old")
            os.rename(fresh, folder)
        finally:
            shutil.rmtree(workspace, ignore_errors=True)
    return folder


def closest_names(name: str, known: Mapping[str, CompetitionSpec]) -> str:
    """The message for a name that is not in the catalogue."""
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.4)
    hint = f"did you mean '{near[0]}'? " if near else ""
    return f"wmrl: no bundled competition is called '{name}'\n  {hint}known: {', '.join(known)}"


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _recorded_fingerprint(folder: Path) -> str | None:
    try:
        recorded = json.loads((folder / "competition.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    value = recorded.get("fingerprint") if isinstance(recorded, dict) else None
    return value if isinstance(value, str) else None


def _write_competition(spec: CompetitionSpec, folder: Path, wanted: str) -> None:
    parts = partition(spec)
    public, private = folder / "data" / "public", folder / "data" / "private"
    for directory in (public, private, folder / "utils"):
        directory.mkdir(parents=True)
    parts.train.to_csv(public / "train.csv", index=False)
    parts.test.to_csv(public / "test.csv", index=False)
    parts.sample.to_csv(public / "sample_submission.csv", index=False)
    parts.answers.to_csv(private / "test_answer.csv", index=False)
    _write_images(public / "train", parts.train_images)
    _write_images(public / "test", parts.test_images)
    description = render_description(spec, len(parts.train), parts.sample, _image_size(parts))
    (public / "description.txt").write_text(description, encoding="utf-8")
    boards = split_boards(spec, reference_scores(spec.name))
    for kind, board in zip(("public", "private"), boards, strict=True):
        (private / f"{kind}_leaderboard.csv").write_text(render_board(board), encoding="utf-8")
    (folder / "utils" / "metric.py").write_text(render_metric(spec), encoding="utf-8")
    facts = {**spec.metadata(), "train_rows": len(parts.train), "test_rows": len(parts.test), "fingerprint": wanted}
    text = json.dumps(facts, indent=2, ensure_ascii=False)
    (folder / "competition.json").write_text(text + "\n", encoding="utf-8")


def _write_images(folder: Path, images: Mapping[int, NDArray[np.uint8]]) -> None:
    if not images:
        return
    from PIL import Image

    folder.mkdir()
    for number, pixels in images.items():
        Image.fromarray(pixels).save(folder / f"{number}.png")


def _image_size(parts: Partition) -> str:
    if not parts.train_images:
        return ""
    height, width, *colours = next(iter(parts.train_images.values())).shape
    return f"{width}x{height} pixels, " + ("colour (mode RGB)" if colours else "grey (mode L)")
