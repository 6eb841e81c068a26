"""Files that were cut, joined, mixed up or written by something else."""

from __future__ import annotations

import dataclasses
import gzip
import json
from pathlib import Path

import pytest

from tests.corpus.made import header, record
from wmrl_gym.corpus.file import CorpusError, read_corpus, write_corpus


@pytest.mark.parametrize("name", ["corpus.jsonl", "corpus.jsonl.gz"])
def test_corpus_comes_back_as_it_was_written(tmp_path: Path, name: str) -> None:
    records = [record(), record("runtime_error", episode=3, script="é = '\u2028\u2029\x85\x0c\x1c\r\n'\n")]
    write_corpus(tmp_path / name, header(), records)
    assert read_corpus(tmp_path / name).records == tuple(records)
    assert read_corpus(tmp_path / name).headers == (header(),)


def test_equal_solutions_give_equal_files(tmp_path: Path) -> None:
    for name in ("one.gz", "other.gz"):
        write_corpus(tmp_path / name, header(), [record()])
    assert (tmp_path / "one.gz").read_bytes() == (tmp_path / "other.gz").read_bytes()


def test_joined_corpora_keep_their_episodes_apart(tmp_path: Path) -> None:
    one, other = tmp_path / "one.gz", tmp_path / "other.gz"
    write_corpus(one, header(), [record(episode=0), record(episode=4)])
    write_corpus(other, header(config={"seed": 1}), [record(episode=0), record(episode=0, turn=1)])
    (tmp_path / "both.gz").write_bytes(one.read_bytes() + other.read_bytes())
    for corpus in (read_corpus(tmp_path / "both.gz"), read_corpus(one, other)):
        assert [item.episode for item in corpus.records] == [0, 4, 5, 5]
        assert len(corpus.headers) == 2


def test_what_is_no_corpus_is_named_with_the_reason(tmp_path: Path) -> None:
    path = tmp_path / "corpus.jsonl.gz"
    with pytest.raises(CorpusError, match="there is no corpus"):
        read_corpus(path)
    write_corpus(path, header(), [record(script=str(i)) for i in range(200)])
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(CorpusError, match="cannot be read to its end"):
        read_corpus(path)
    path.write_bytes(gzip.compress(b'{"competition": "t", "script": "x"}\n'))
    with pytest.raises(CorpusError, match="first line is no header"):
        read_corpus(path)
    path.write_text("a,b\n1,2\n")
    with pytest.raises(CorpusError, match="line 1 is no JSON"):
        read_corpus(path)
    write_corpus(path, header(), [])
    with pytest.raises(CorpusError, match="no solution"):
        read_corpus(path)
    path.write_text(json.dumps({"corpus": 99}) + "\n")
    with pytest.raises(CorpusError, match="format 99"):
        read_corpus(path)
    row = dataclasses.asdict(record())
    del row["author"]
    path.write_text(json.dumps({"corpus": 1, **dataclasses.asdict(header())}) + "\n" + json.dumps(row) + "\n")
    with pytest.raises(CorpusError, match="line 2 lacks author"):
        read_corpus(path)
