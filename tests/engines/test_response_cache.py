from __future__ import annotations

import dataclasses
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from wmrl_gym.engines.engine import Answer, Engine, Message, Prompt, Sampling
from wmrl_gym.engines.response_cache import CachedEngine

SAMPLING = Sampling()


def ask(text: str, schema: dict[str, object] | None = None) -> Prompt:
    return Prompt((Message("user", text),), schema)


class Counting:
    """Answers in capitals and keeps count; texts that begin with "bad" fail."""

    def __init__(self, model: str = "m") -> None:
        self.model = model
        self.asked: list[str] = []
        self.closed = False

    def generate(self, prompts: Sequence[Prompt], sampling: Sampling) -> list[Answer]:
        texts = [prompt.messages[-1].content for prompt in prompts]
        self.asked += texts
        return [
            Answer(None, error="dead") if text.startswith("bad") else Answer(text.upper(), 3, 1, 2, seconds=0.5)
            for text in texts
        ]

    def close(self) -> None:
        self.closed = True


def test_a_second_engine_remembers_what_the_first_was_told(tmp_path: Path) -> None:
    first, second = Counting(), Counting()
    prompts = [ask("a"), ask("é \ud800"), ask("c")]
    fresh = CachedEngine(first, tmp_path).generate(prompts, SAMPLING)
    cached = CachedEngine(second, tmp_path)
    assert isinstance(cached, Engine)
    again = cached.generate([*prompts, ask("d")], SAMPLING)
    assert second.asked == ["d"]
    assert [a.text for a in again] == ["A", "É \ud800", "C", "D"]
    assert [a.from_cache for a in fresh] == [False] * 3
    assert [a.from_cache for a in again] == [True, True, True, False]
    assert again[0] == Answer("A", 3, 1, 2, seconds=0.0, from_cache=True)


def test_errors_are_never_kept(tmp_path: Path) -> None:
    inner = Counting()
    cached = CachedEngine(inner, tmp_path)
    for _ in range(2):
        (answer,) = cached.generate([ask("bad")], SAMPLING)
        assert answer.text is None and answer.error == "dead" and not answer.from_cache
    assert inner.asked == ["bad", "bad"]


@pytest.mark.parametrize(
    "change", ["messages", "schema", "order of the schema", "sampling", "seed", "model", "revision"]
)
def test_whatever_may_change_the_answer_is_part_of_its_address(tmp_path: Path, change: str) -> None:
    schema = {"type": "object", "properties": {"a": {}, "b": {}}}
    prompt, sampling, inner, revision = ask("x", schema), SAMPLING, Counting(), ""
    CachedEngine(Counting(), tmp_path).generate([prompt], SAMPLING)
    if change == "messages":
        prompt = dataclasses.replace(prompt, messages=(Message("system", "x"),))
    elif change == "schema":
        prompt = ask("x")
    elif change == "order of the schema":
        prompt = ask("x", {"type": "object", "properties": {"b": {}, "a": {}}})
    elif change == "sampling":
        sampling = Sampling(max_tokens=7)
    elif change == "seed":
        sampling = Sampling(seed=1)
    elif change == "model":
        inner = Counting("other")
    elif change == "revision":
        revision = "2"
    (answer,) = CachedEngine(inner, tmp_path, revision=revision).generate([prompt], sampling)
    assert not answer.from_cache and inner.asked == ["x"]


def test_of_equal_prompts_one_is_asked_and_one_is_paid_for(tmp_path: Path) -> None:
    inner = Counting()
    answers = CachedEngine(inner, tmp_path).generate([ask("a"), ask("b"), ask("a"), ask("bad"), ask("bad")], SAMPLING)
    assert inner.asked == ["a", "b", "bad"]
    assert [a.text for a in answers] == ["A", "B", "A", None, None]
    assert [a.from_cache for a in answers] == [False, False, True, False, False]


@pytest.mark.parametrize("rubbish", [b"", b"{", b"\xff\xff", b"[]", b'{"text": null}', b'{"text": 5}', b'{"x": 1}'])
def test_a_damaged_file_counts_as_absent_and_is_mended(tmp_path: Path, rubbish: bytes) -> None:
    CachedEngine(Counting(), tmp_path).generate([ask("a")], SAMPLING)
    (file,) = tmp_path.rglob("*.json")
    file.write_bytes(rubbish)
    inner = Counting()
    for _ in range(2):
        assert CachedEngine(inner, tmp_path).generate([ask("a")], SAMPLING)[0].text == "A"
    assert inner.asked == ["a"]


def test_a_directory_that_cannot_be_written_costs_no_answer(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    cached = CachedEngine(Counting(), tmp_path / "file" / "inside")
    with pytest.warns(RuntimeWarning, match="cannot be kept"):
        assert cached.generate([ask("a"), ask("b")], SAMPLING)[1].text == "B"


def test_closing_closes_the_engine_behind(tmp_path: Path) -> None:
    inner = Counting()
    CachedEngine(inner, tmp_path).close()
    assert inner.closed


WRITER = """
import sys
from tests.engines.test_response_cache import Counting, ask, SAMPLING
from wmrl_gym.engines.response_cache import CachedEngine
cached = CachedEngine(Counting(), sys.argv[1], write_every=1)
print("go", flush=True)
for turn in range(int(sys.argv[2])):
    cached.generate([ask(f"{turn} " + "x" * 20_000)], SAMPLING)
"""


def test_processes_share_a_directory_and_a_kill_leaves_nothing_half_written(tmp_path: Path) -> None:
    command = [sys.executable, "-c", WRITER, str(tmp_path)]
    root = Path(__file__).parents[2]
    killed = subprocess.Popen([*command, "1000000"], stdout=subprocess.PIPE, cwd=root)
    assert killed.stdout is not None and killed.stdout.readline() == b"go\n"
    subprocess.run([*command, "60"], check=True, stdout=subprocess.DEVNULL, cwd=root, timeout=120)
    killed.send_signal(signal.SIGKILL)
    killed.wait(10)
    inner = Counting()
    cached = CachedEngine(inner, tmp_path)
    for turn in range(60):
        (answer,) = cached.generate([ask(f"{turn} " + "x" * 20_000)], SAMPLING)
        assert answer.text == f"{turn} " + "X" * 20_000 and answer.from_cache
    files = list(tmp_path.rglob("*.json"))
    assert len(files) >= 60
    assert all(file.read_bytes().endswith(b"}") for file in files)
