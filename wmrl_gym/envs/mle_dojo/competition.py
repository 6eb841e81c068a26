"""Competitions in MLE-Dojo's prepared layout: found, checked, and loaded unchanged.

::

    <root>/<name>/data/public/{description.txt, sample_submission.csv, ...}      what an agent may see
    <root>/<name>/data/private/{test_answer.csv, *_leaderboard.csv}              what it may never see
    <root>/<name>/utils/metric.py                                                or in MLE-Dojo's own package

Metrics and leaderboards that are not beside the data are looked for in MLE-Dojo's package: a check-out named by
`competitions_dir`, or an installed one.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wmrl_gym.envs.mle_dojo.leaderboard import Leaderboard, human_rank, read_leaderboard
from wmrl_gym.envs.mle_dojo.metric_name import metric_name
from wmrl_gym.envs.mle_dojo.metric_shim import MetricError, load_metric_class

if TYPE_CHECKING:
    import pandas as pd

    from wmrl_gym.envs.mle_dojo.grading import Grade
    from wmrl_gym.scriptcheck.overview import Overview

DATA_ROOT_VARIABLE = "WMRL_DATA_ROOT"
BOARDS = ("private", "public")


class CompetitionError(Exception):
    """A competition cannot be loaded: says what was looked for, what was found, and what to do."""

    def __str__(self) -> str:
        """The message as the command line shows it."""
        return f"wmrl: {super().__str__()}"


@dataclass(frozen=True)
class Competition:
    """One loaded competition. Picklable: what is read from files is read again where it is needed."""

    name: str
    public_dir: Path
    answers_path: Path
    metric_path: Path
    leaderboards: tuple[Leaderboard, ...]
    """Boards with at least one score; empty only where the raw score is asked for."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """The content of ``competition.json``, if there is one: category, split, who made the leaderboard, ..."""
    description_file: Path | None = None
    """Where the description lies; None is description.txt in the public folder."""
    sample_file: str = "sample_submission.csv"
    """Name of the sample submission in the public folder."""
    rows_as_answers: bool = False
    """Whether a submission has as many rows as the answers, whatever the sample submission has."""

    @property
    def description_path(self) -> Path:
        """Where the description lies."""
        return self.description_file or self.public_dir / "description.txt"

    @property
    def submission_rows(self) -> int:
        """How many rows a submission has."""
        return len(self.answers if self.rows_as_answers else self.sample_submission)

    @property
    def grading_key(self) -> Any:
        """What beside a submission decides its grade, as plain data: for a cache."""
        return [self.answers.to_csv(index=False), [list(board.scores) for board in self.leaderboards]]

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what was cached: a metric's class lives in a file, not in an importable module."""
        return {name: self.__dict__[name] for name in self.__dataclass_fields__}

    @cached_property
    def metric_class(self) -> type:
        """The competition's ``CompetitionMetrics`` subclass."""
        return load_metric_class(self.metric_path)

    @cached_property
    def higher_is_better(self) -> bool:
        """Direction of the metric, asked from an instance of it (as MLE-Dojo does)."""
        return bool(self.metric_class().higher_is_better)

    @cached_property
    def metric(self) -> str:
        """Short name of the metric, for example "rmse"."""
        declared = self.metadata.get("metric")
        return str(declared) if declared else metric_name(self.metric_class, self.metric_path, self.description)

    @cached_property
    def description(self) -> str:
        """The whole public description."""
        return self.description_path.read_text(encoding="utf-8", errors="replace")

    @cached_property
    def answers(self) -> pd.DataFrame:
        """The private answers. Hand out copies only: metrics change what they are given."""
        return _read_table(self.name, self.answers_path)

    @cached_property
    def sample_submission(self) -> pd.DataFrame:
        """The public sample submission."""
        return _read_table(self.name, self.public_dir / self.sample_file)

    @cached_property
    def metric_works(self) -> bool:
        """Whether the metric scores the answers themselves; if not, a failing submission proves nothing."""
        from wmrl_gym.envs.mle_dojo.grading import metric_works

        return metric_works(self)

    @cached_property
    def overview(self) -> Overview:
        """The public brief, built on first use.

        Raises:
            OverviewError: if a part of it is missing.
        """
        from wmrl_gym.envs.mle_dojo.overview_building import build_overview

        return build_overview(self)

    def data_digest(self) -> str:
        """Hex SHA-256: tables and texts, answers and leaderboards by content, images by name.

        Images are compressed differently by different versions of Pillow, so their bytes say nothing.
        """
        digest = hashlib.sha256()
        for path in sorted(path for path in self.public_dir.rglob("*") if path.is_file()):
            digest.update(str(path.relative_to(self.public_dir)).encode())
            if path.suffix in (".csv", ".txt", ".json"):
                digest.update(path.read_bytes())
        digest.update(self.answers_path.read_bytes())
        digest.update(repr([list(board.scores) for board in self.leaderboards]).encode())
        return digest.hexdigest()

    def percentile(self, raw_score: float) -> float | None:
        """MLE-Dojo's HumanRank of a raw score, in [0, 1]; None without a leaderboard."""
        return human_rank(raw_score, self.leaderboards, self.higher_is_better)

    def grade(self, submission_csv: bytes) -> Grade:
        """Grade the bytes of a ``submission.csv``. Never raises for what the bytes hold."""
        from wmrl_gym.envs.mle_dojo.grading import grade_submission

        return grade_submission(self, submission_csv)


def default_data_root() -> Path:
    """Where competitions lie: $WMRL_DATA_ROOT, else ``~/.cache/wmrl_gym/competitions``."""
    configured = os.environ.get(DATA_ROOT_VARIABLE)
    return Path(configured) if configured else Path.home() / ".cache" / "wmrl_gym" / "competitions"


def load_competition(
    data_root: str | Path | None,
    name: str,
    competitions_dir: str | Path | None = None,
    *,
    needs_leaderboard: bool = True,
) -> Competition:
    """Load a competition and check that everything needed to play and grade it is there.

    Args:
        data_root: folder of prepared competitions; None is `default_data_root`.
        name: the competition's folder in it.
        competitions_dir: MLE-Dojo's ``mledojo/competitions``, where metrics and leaderboards are looked for that are
            not beside the data.
        needs_leaderboard: whether a leaderboard without scores is an error.

    Raises:
        CompetitionError: if the data root, a file, the metric or the leaderboard's scores are missing.
    """
    root = Path(data_root).expanduser() if data_root is not None else default_data_root()
    home = _home(root, name)
    data = home / "data" if (home / "data").is_dir() else home
    _require_files(name, data)
    package = _package_folders(name, competitions_dir)
    return Competition(
        name=name,
        public_dir=data / "public",
        answers_path=data / "private" / "test_answer.csv",
        metric_path=_find_metric(name, home, package),
        leaderboards=_find_leaderboards(name, data, package, needs_leaderboard),
        metadata=_read_metadata(home / "competition.json"),
    )


def shared_competition(
    data_root: str | Path | None,
    name: str,
    competitions_dir: str | Path | None = None,
    *,
    needs_leaderboard: bool = True,
) -> Competition:
    """`load_competition`, once per process: many environments and workers share one set of answers in memory.

    A competition that was prepared anew since is loaded anew.
    """
    root = Path(data_root).expanduser() if data_root is not None else default_data_root()
    package = None if competitions_dir is None else str(competitions_dir)
    return _shared_competition(str(root), name, package, needs_leaderboard, _stamps(root / name))


def ranked_by_mledojo(competition: Competition, competitions_dir: str | Path | None) -> Competition | None:
    """The same data and answers, with the metric and the leaderboards of MLE-Dojo's package.

    Args:
        competition: one that has no leaderboards of its own.
        competitions_dir: ``mledojo/competitions`` of a check-out; None takes an installed MLE-Dojo.

    Returns:
        None if MLE-Dojo's package has no metric or no leaderboard of that name.

    Raises:
        CompetitionError: if they cannot be read.
    """
    private = competition.answers_path.parent
    package = _package_folders(competition.name, competitions_dir)
    if not any((folder / "utils" / "metric.py").is_file() for folder in package):
        return None
    boards = _find_leaderboards(competition.name, private, package, needed=False)
    if not boards:
        return None
    return Competition(
        name=competition.name,
        public_dir=competition.public_dir,
        answers_path=competition.answers_path,
        metric_path=_find_metric(competition.name, private, package),
        leaderboards=boards,
        sample_file=competition.sample_file,
        rows_as_answers=competition.rows_as_answers,
    )


def _stamps(home: Path) -> tuple[tuple[str, int], ...]:
    """Names and times of change of the files a competition is read from."""
    folders = [home, home / "utils", *(home / data / kind for data in ("data", ".") for kind in ("public", "private"))]
    files = (path for folder in folders if folder.is_dir() for path in folder.iterdir())
    wanted = (path for path in files if path.suffix in (".csv", ".py", ".txt", ".json"))
    return tuple(sorted((str(path), path.stat().st_mtime_ns) for path in wanted))


@lru_cache(maxsize=256)
def _shared_competition(
    root: str, name: str, competitions_dir: str | None, needs_leaderboard: bool, stamps: tuple[tuple[str, int], ...]
) -> Competition:
    return load_competition(root, name, competitions_dir, needs_leaderboard=needs_leaderboard)


def _home(root: Path, name: str) -> Path:
    if not root.is_dir():
        raise CompetitionError(
            f"there is no data root for competition {name!r}\n"
            f"  looked in: {root} (no such folder)\n"
            f"  Run `wmrl competitions prepare`, or name the folder of your prepared MLE-Dojo competitions: "
            f"env.data_root=..., or the variable {DATA_ROOT_VARIABLE}."
        )
    home = root / name
    if not name or not home.is_dir():
        known = sorted(path.name for path in root.iterdir() if path.is_dir() and not path.name.startswith("."))
        shown = ", ".join(known[:20]) + (", ..." if len(known) > 20 else "")
        raise CompetitionError(
            f"there is no competition {name!r}\n"
            f"  looked in: {home} (no such folder)\n"
            f"  this data root holds: {shown or 'no competition'}. "
            f"Run `wmrl competitions prepare {name}`, or correct the name."
        )
    return home


def _require_files(name: str, data: Path) -> None:
    wanted = ("public/description.txt", "public/sample_submission.csv", "private/test_answer.csv")
    missing = [part for part in wanted if not (data / part).is_file()]
    if missing:
        listing = "\n".join(f"  looked for: {data / part} (missing)" for part in missing)
        raise CompetitionError(
            f"competition {name!r} is not completely prepared\n{listing}\n"
            f"  Run `wmrl competitions prepare {name}`, or MLE-Dojo's prepare script for it."
        )


def _package_folders(name: str, competitions_dir: str | Path | None) -> list[Path]:
    """The competition's folders in a named check-out of MLE-Dojo and in an installed one."""
    folders = [Path(competitions_dir).expanduser() / name] if competitions_dir is not None else []
    installed = importlib.util.find_spec("mledojo")
    for location in (installed.submodule_search_locations or []) if installed is not None else []:
        folders.append(Path(location) / "competitions" / name)
    return folders


def _find_metric(name: str, home: Path, package: list[Path]) -> Path:
    candidates = [home / "utils" / "metric.py", home / "metric.py", home / "data" / "utils" / "metric.py"]
    candidates += [folder / "utils" / "metric.py" for folder in package]
    found = next((path for path in candidates if path.is_file()), None)
    listing = "\n".join(f"  looked for: {path} (missing)" for path in candidates)
    if found is None:
        raise CompetitionError(
            f"competition {name!r} has no metric\n{listing}\n"
            f"  Copy its metric.py from MLE-Dojo (mledojo/competitions/{name}/utils/), or set env.competitions_dir to "
            f"the mledojo/competitions folder of a check-out."
        )
    try:
        load_metric_class(found)
    except MetricError as error:
        raise CompetitionError(f"competition {name!r} has a metric that cannot be used\n  {error}") from error
    return found


def _find_leaderboards(name: str, data: Path, package: list[Path], needed: bool) -> tuple[Leaderboard, ...]:
    boards, looked = [], []
    for board in BOARDS:
        for folder in [data / "private", *(path / "info" for path in package)]:
            path = folder / f"{board}_leaderboard.csv"
            if not path.is_file():
                looked.append(f"  looked in: {path} (missing)")
                continue
            leaderboard = _read_board(name, path, board)
            if leaderboard.scores:
                boards.append(leaderboard)
                break
            looked.append(f"  looked in: {path} (found: header {_first_line(path)!r}, 0 scores)")
    if needed and not boards:
        raise CompetitionError(
            f"competition {name!r} has no leaderboard scores\n" + "\n".join(looked) + "\n"
            f"  a percentile needs at least one score. Run `wmrl competitions prepare {name}`, or set env.score=raw."
        )
    return tuple(boards)


def _read_board(name: str, path: Path, board: str) -> Leaderboard:
    try:
        return read_leaderboard(path, board)
    except ValueError as error:
        raise CompetitionError(f"competition {name!r} has a leaderboard that cannot be read\n  {error}") from error


def _read_table(name: str, path: Path) -> pd.DataFrame:
    import pandas as pd

    try:
        table = pd.read_csv(path)
    except (ValueError, OSError) as error:  # pandas' parser errors and bad UTF-8 are ValueErrors
        raise CompetitionError(
            f"competition {name!r} has a table that cannot be read\n  looked in: {path} ({error})\n"
            "  Prepare the competition again, or correct the file."
        ) from error
    if table.empty:
        raise CompetitionError(
            f"competition {name!r} has a table without rows\n  looked in: {path} (found: header "
            f"{','.join(map(str, table.columns))!r})\n  Prepare the competition again, or correct the file."
        )
    return table


def _first_line(path: Path) -> str:
    with path.open(encoding="utf-8-sig", errors="replace") as file:
        return file.readline().strip()


def _read_metadata(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        metadata = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise CompetitionError(f"{path} is not valid JSON: {error}. Correct it, or remove it.") from error
    if not isinstance(metadata, dict):
        raise CompetitionError(f"{path} must hold a JSON object, not a {type(metadata).__name__}")
    return metadata
