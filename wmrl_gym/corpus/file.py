"""A corpus on disk: executed solutions, one JSON object a line, and before them the circumstances they belong to.

A line with the key "corpus" is a header and speaks for the records after it, so that corpora are joined by ``cat``. A
name that ends in ".gz" is compressed.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

FORMAT = 1


class CorpusError(ValueError):
    """A corpus that cannot be used: which file, what is wrong with it, and what to do."""


@dataclass(frozen=True)
class Record:
    """One solution and what became of it."""

    task: str
    script: str
    author: str
    variant: str
    mistake: str | None
    """What was done to a script that would run, where its author knows."""
    episode: int
    """Scripts of one episode are an answer and its revisions: they are no independent draws."""
    turn: int
    status: str
    score: float | None
    """None: execution failed for a reason outside the script."""
    percentile: float | None
    exception: str | None
    line: int | None
    seconds: float
    environment: str
    """Digest of what beside the script decided its outcome: packages, limits, answers, ladder."""


@dataclass(frozen=True)
class Header:
    """What the records after it have in common."""

    config: Mapping[str, Any]
    """How they were drawn: seed, authors, agent."""
    data: Mapping[str, str]
    """Task -> digest of the competition's data; see `Competition.data_digest`."""
    ladder: Mapping[str, float]
    """Scores of the statuses."""
    limits: Mapping[str, float]
    """Of the sandbox."""
    versions: Mapping[str, str]
    """Packages that scripts ran on, Python first."""


@dataclass(frozen=True)
class Corpus:
    """All that a file, or several, hold."""

    headers: tuple[Header, ...]
    records: tuple[Record, ...]

    @property
    def tasks(self) -> list[str]:
        """Names, each once."""
        return sorted({record.task for record in self.records})

    def digest(self) -> str:
        """Hex SHA-256 of all records."""
        text = "\n".join(json.dumps(asdict(record), sort_keys=True) for record in self.records)
        return hashlib.sha256(text.encode()).hexdigest()


def corpus_text(header: Header, records: Iterable[Record]) -> str:
    """The content of a corpus file."""
    lines = [{"corpus": FORMAT, **asdict(header)}, *(asdict(record) for record in records)]
    return "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)


def write_corpus(path: Path, header: Header, records: Iterable[Record]) -> None:
    """Write all or nothing. Equal solutions give equal files: a compressed one holds no time stamp."""
    temporary = path.with_name(path.name + ".tmp")
    content = corpus_text(header, records).encode()
    temporary.write_bytes(gzip.compress(content, mtime=0) if path.suffix == ".gz" else content)
    os.replace(temporary, path)


def read_corpus(*paths: Path) -> Corpus:
    """Read a corpus, or several as one.

    Raises:
        CorpusError: if there is no such file, or it holds something else, or is cut short.
    """
    headers: list[Header] = []
    records: list[Record] = []
    first = 0
    for path in paths:
        for number, line in enumerate(_lines(path), start=1):
            item = _parsed(path, number, line)
            if "corpus" in item:
                headers.append(_header(path, item))
                # Joined corpora number their episodes alike, and must not be taken for one another's revisions.
                first = max((record.episode for record in records), default=-1) + 1
                continue
            if not headers:
                raise CorpusError(_no_corpus(path, "its first line is no header"))
            record = _typed(Record, path, number, item)
            records.append(Record(**{**vars(record), "episode": record.episode + first}))
    if not records:
        raise CorpusError(_no_corpus(paths[0], "it holds no solution"))
    return Corpus(tuple(headers), tuple(records))


def _lines(path: Path) -> list[str]:
    if not path.is_file():
        raise CorpusError(
            f"there is no corpus '{path}'\n"
            f"  write one with: wmrl corpus output={path}, or correct the name in corpus=..."
        )
    try:
        content = path.read_bytes()
        if content[:2] == b"\x1f\x8b":
            content = gzip.decompress(content)
        # Not splitlines: scripts may hold characters that Unicode takes for ends of lines.
        return content.decode("utf-8").removesuffix("\n").split("\n")
    except (EOFError, OSError, UnicodeDecodeError) as error:
        raise CorpusError(_no_corpus(path, f"it cannot be read to its end ({error})")) from error


def _parsed(path: Path, number: int, line: str) -> dict[str, Any]:
    try:
        item = json.loads(line)
    except ValueError as error:
        raise CorpusError(_no_corpus(path, f"line {number} is no JSON ({error})")) from error
    if not isinstance(item, dict):
        raise CorpusError(_no_corpus(path, f"line {number} is no JSON object"))
    return item


def _header(path: Path, item: dict[str, Any]) -> Header:
    if item["corpus"] != FORMAT:
        raise CorpusError(
            f"'{path}' is a corpus of format {item['corpus']!r}, and this version reads {FORMAT}\n"
            "  write it anew with `wmrl corpus`, or read it with the version that wrote it."
        )
    return _typed(Header, path, 1, {key: value for key, value in item.items() if key != "corpus"})


def _typed(cls: Any, path: Path, number: int, item: dict[str, Any]) -> Any:
    wanted, given = {field.name for field in fields(cls)}, set(item)
    if wanted != given:
        lacks = ", ".join(sorted(wanted - given)) or "nothing"
        raise CorpusError(_no_corpus(path, f"line {number} lacks {lacks} and has {sorted(given - wanted)} too many"))
    return cls(**item)


def _no_corpus(path: Path, why: str) -> str:
    return f"'{path}' is no corpus, or a damaged one: {why}\n  give a file that `wmrl corpus` wrote, or write it anew."
