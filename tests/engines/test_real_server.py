"""The engine against a language model's real server, of any make; docs/engines.md has the commands.

Either ``WMRL_TEST_SERVER=http://127.0.0.1:8000/v1`` names a server that runs, or ``WMRL_TEST_SERVER_COMMAND`` starts
one, with ``{port}`` in it where the port belongs. ``WMRL_TEST_SERVER_STRUCTURED`` is how it is told of a schema. Only
a server that was started here is killed here.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import socket
import subprocess
import threading
import time
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from wmrl_gym.world_models.engines.engine import Sampling
from wmrl_gym.world_models.engines.openai_engine import OpenAIEngine

from .conftest import VERDICT, checks, prompt

ADDRESS = os.environ.get("WMRL_TEST_SERVER")
COMMAND = os.environ.get("WMRL_TEST_SERVER_COMMAND")
STRUCTURED: Any = os.environ.get("WMRL_TEST_SERVER_STRUCTURED", "response_format")
START_SECONDS = 600

pytestmark = [
    pytest.mark.server,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(not (ADDRESS or COMMAND), reason="neither WMRL_TEST_SERVER nor WMRL_TEST_SERVER_COMMAND is set"),
]


class Server:
    """A server that this test starts and kills, or only talks to."""

    def __init__(self) -> None:
        self.process: subprocess.Popen[bytes] | None = None
        self.address = ADDRESS or ""
        if not ADDRESS:
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", 0))
                self.port = probe.getsockname()[1]
            self.address = f"http://127.0.0.1:{self.port}/v1"
            self.start()

    def start(self) -> None:
        command = shlex.split(str(COMMAND).replace("{port}", str(self.port)))
        self.process = subprocess.Popen(command, start_new_session=True)
        deadline = time.monotonic() + START_SECONDS
        while not self._models():
            assert self.process.poll() is None, f"the server ended with code {self.process.returncode}"
            assert time.monotonic() < deadline, f"the server did not answer within {START_SECONDS} seconds"
            time.sleep(1)

    def kill(self) -> None:
        if self.process is not None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait(30)

    def _models(self) -> list[str]:
        try:
            with urllib.request.urlopen(f"{self.address}/models", timeout=5) as reply:
                return [entry["id"] for entry in json.load(reply)["data"]]
        except OSError:
            return []

    def engine(self, **settings: Any) -> OpenAIEngine:
        return OpenAIEngine(
            self.address, self._models()[0], structured_outputs=STRUCTURED, concurrency=8, timeout=600.0, **settings
        )


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    running = Server()
    yield running
    running.kill()


def test_verdicts_come_back_in_the_shape_asked_for(server: Server) -> None:
    answers = server.engine().generate(checks(schema=VERDICT), Sampling(max_tokens=120))
    for answer in answers:
        assert answer.text is not None, answer.error
        assert answer.finished
        verdict = json.loads(answer.text)
        assert set(verdict) == {"passed", "exception", "reason"}
        assert isinstance(verdict["passed"], bool) and verdict["exception"] in ("KeyError", "ValueError", None)
        assert answer.prompt_tokens and answer.generated_tokens


def test_free_text_and_cut_answers(server: Server) -> None:
    free, cut = (
        server.engine().generate([prompt("Say hello.")], Sampling(temperature=0, max_tokens=tokens))[0]
        for tokens in (200, 2)
    )
    assert free.text and cut.text is not None and not cut.finished and cut.generated_tokens == 2


def test_a_prompt_that_is_too_long_costs_only_itself(server: Server) -> None:
    good, bad = server.engine(retries=0).generate(
        [prompt("Say hello."), prompt("word " * 200_000)], Sampling(max_tokens=5)
    )
    assert good.text is not None
    assert bad.text is None and bad.error


def test_killed_in_mid_batch_it_yields_unknowns_and_recovers(server: Server) -> None:
    if server.process is None:
        pytest.skip("the server was not started here, so it is not killed here")
    engine = server.engine(retries=1, backoff=0.1)
    threading.Timer(4.0, server.kill).start()
    answers = engine.generate([prompt(f"Tell the story number {i}.") for i in range(64)], Sampling(max_tokens=300))
    unknown = [answer for answer in answers if answer.text is None]
    assert unknown and all(answer.error for answer in unknown)
    server.start()
    assert all(answer.text is not None for answer in engine.generate(checks(schema=VERDICT), Sampling(max_tokens=120)))
