"""The engine against a language model's real server, of any make; docs/engines.md has the commands.

Either ``WMRL_TEST_SERVER=http://127.0.0.1:8000/v1`` names a server that runs, or ``WMRL_TEST_SERVER_COMMAND`` starts
one, with ``{port}`` in it where the port belongs. ``WMRL_TEST_SERVER_STRUCTURED`` is how it is told of a schema,
``WMRL_TEST_SERVER_SEED=0`` sends it no seeds. Only a server that was started here is killed here.
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
from pathlib import Path
from typing import Any

import pytest

from wmrl_gym.core import Submission
from wmrl_gym.engines.engine import Sampling
from wmrl_gym.engines.openai_engine import OpenAIEngine
from wmrl_gym.envs.mle_dojo.catalogue import prepare
from wmrl_gym.envs.mle_dojo.competition import load_competition
from wmrl_gym.envs.mle_dojo.overview_building import build_overview
from wmrl_gym.world_models.llm_static_checker import AskingSettings, LLMStaticChecker

from .conftest import VERDICT, checks, prompt

ADDRESS = os.environ.get("WMRL_TEST_SERVER")
COMMAND = os.environ.get("WMRL_TEST_SERVER_COMMAND")
STRUCTURED: Any = os.environ.get("WMRL_TEST_SERVER_STRUCTURED", "response_format")
SEND_SEED = os.environ.get("WMRL_TEST_SERVER_SEED") != "0"
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
        settings = {"structured_outputs": STRUCTURED, "send_seed": SEND_SEED, "concurrency": 8, **settings}
        return OpenAIEngine(self.address, self._models()[0], timeout=600.0, **settings)


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


SCRIPT = """import pandas as pd
train = pd.read_csv(f"{{DATA_DIR}}/train.csv")
test = pd.read_csv(f"{{DATA_DIR}}/test.csv")
out = pd.DataFrame({{"id": test["id"], "progression": {number}.0}})
out.to_csv(SUBMISSION_PATH, index=False)
"""


def test_the_static_checker_end_to_end_and_its_server_killed_in_mid_batch(server: Server, tmp_path: Path) -> None:
    """Scores while it lives, unknown scores and no exception when it dies, scores again afterwards."""
    root = tmp_path / "competitions"
    prepare("diabetes_progression", root)
    overview = build_overview(load_competition(root, "diabetes_progression"))

    def submissions(count: int) -> list[Submission]:
        return [
            Submission("diabetes_progression", SCRIPT.format(number=number), {"overview": overview})
            for number in range(count)
        ]

    engine = server.engine(retries=1, backoff=0.1)
    checker = LLMStaticChecker(engine, asking=AskingSettings(overview_chars=1000), sampling=Sampling(max_tokens=120))
    for outcome in checker.predict(submissions(2)):
        assert outcome.score is not None or outcome.details["abstentions"]
        assert len(outcome.details["verdicts"]) == 8 and outcome.details["model"]
    spent = checker.costs()
    assert spent["answers"] >= 16 and spent["unserved"] == 0 and spent["generated_tokens"] > 0
    if server.process is None:
        return  # not started here, so not killed here
    threading.Timer(4.0, server.kill).start()
    outcomes = checker.predict(submissions(12))
    assert len(outcomes) == 12
    dead = [outcome for outcome in outcomes if outcome.score is None]
    assert dead and all(outcome.status == "unknown" and outcome.source == "world_model" for outcome in dead)
    assert checker.costs()["unserved"] > 0
    server.start()
    again = checker.predict(submissions(2))
    assert checker.costs()["answers"] >= spent["answers"] + 32
    assert all(any(verdict["passed"] is not None for verdict in outcome.details["verdicts"]) for outcome in again)
