"""A domain of words that costs nothing, and services of it: in this process, in a thread, in a process of its own."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from concurrent.futures import Future
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import httpx
import uvicorn

from wmrl_gym.configs.serve_schema import ServiceLimits
from wmrl_gym.core import ExpensiveRewardEnv, Outcome, Submission, fingerprint
from wmrl_gym.envs.unicode_text import UnicodeText
from wmrl_gym.execution import LocalExecutor
from wmrl_gym.integrations import GroupScoring
from wmrl_gym.integrations.http.app import make_app
from wmrl_gym.integrations.http.book import Book
from wmrl_gym.integrations.http.forming import Forming
from wmrl_gym.integrations.http.journal import Journal
from wmrl_gym.integrations.http.server import listen, serve
from wmrl_gym.integrations.http.service import ScoringService
from wmrl_gym.proxy import InverseVarianceFusion, IsotonicDebiaser, RandomAnchors, RewardProxy

TASKS = ("rhyme", "reason")


def truth(task: str, word: str) -> float:
    """Between 0 and 1, the same in every process."""
    return int(fingerprint((task, word))[:8], 16) / 0xFFFFFFFF


class WordEnv(ExpensiveRewardEnv[str, str]):
    """Any word is worth something; the empty one hands nothing in."""

    def __init__(self) -> None:
        self.observation_space = self.action_space = UnicodeText(10_000)
        self.task = ""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        self.task = (options or {})["task"]
        return self.task, {}

    def submit(self, action: str) -> Submission | None:
        return Submission(self.task, action) if action else None

    def execute(self, submission: Submission) -> Outcome:
        word = submission.content
        if word.startswith("fails"):
            return Outcome(None, "unknown", "the machine broke")
        if word.startswith("slow"):
            time.sleep(1.5)
        if word.startswith("half"):
            return Outcome(0.5, "valid", "half a character: \ud800")
        return Outcome(truth(submission.task_id, word), "valid", f"executed {word[:20]}", seconds=0.001)

    def advance(self, outcome: Outcome | None) -> tuple[str, float, bool, bool, dict[str, Any]]:
        if outcome is not None:
            return outcome.feedback, outcome.score or 0.0, True, False, {}
        judged = Outcome(0.0, "nothing", "nothing was handed in", source="environment")
        return judged.feedback, 0.0, True, False, {"outcome": judged}


class Guess:
    """Sees the truth squared. It remembers how often it was asked, and can be down."""

    def __init__(self) -> None:
        self.down = False
        self.asked = 0

    def predict(self, submissions: Sequence[Submission]) -> list[Outcome]:
        if self.down:
            raise ConnectionError("the model's server is away")
        self.asked += len(submissions)
        return [
            Outcome(None, "unknown", "cannot tell", source="world_model")
            if item.content.startswith("vague")
            else Outcome(truth(item.task_id, item.content) ** 2, "valid", "predicted", source="world_model")
            for item in submissions
        ]

    def state_dict(self) -> dict[str, Any]:
        return {"asked": self.asked}

    def load_state_dict(self, state: Any) -> None:
        self.asked = state["asked"]


class Counting:
    """An executor that says what it executed, and waits while `gate` is closed."""

    capacity = 2

    def __init__(self) -> None:
        self.executed: list[str] = []
        self.gate = threading.Event()
        self.gate.set()
        self._inner = LocalExecutor(self._execute, 2)

    def _execute(self, submission: Submission) -> Outcome:
        self.executed.append(submission.content)
        assert self.gate.wait(20)
        return WordEnv().execute(submission)

    def submit(self, submission: Submission) -> Future[Outcome]:
        return self._inner.submit(submission)

    def close(self) -> None:
        self.gate.set()
        self._inner.close()


def scoring(fraction: float = 0.4) -> GroupScoring:
    proxy = RewardProxy(
        RandomAnchors(fraction), IsotonicDebiaser(min_pairs=8, refit_every=4), InverseVarianceFusion(warmup=1)
    )
    return GroupScoring(proxy)


def make_service(
    folder: Path,
    *,
    fraction: float = 0.4,
    limits: ServiceLimits | None = None,
    world_model: Any = "guess",
    executor: Any = None,
) -> ScoringService:
    folder.mkdir(exist_ok=True)
    return ScoringService(
        Forming(WordEnv(), TASKS, lambda task: {"task": task}),
        Guess() if world_model == "guess" else world_model,
        Counting() if executor is None else executor,
        Book(Journal(folder / "journal.sqlite"), lambda: scoring(fraction)),
        limits,
        max_consecutive_failures=3,
    )


@asynccontextmanager
async def asked(service: ScoringService, token: str | None = None) -> AsyncIterator[httpx.AsyncClient]:
    """A client of the application in this process."""
    app = make_app(service, token)
    transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
    try:
        async with (
            app.router.lifespan_context(app),
            httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client,
        ):
            yield client
    finally:
        service.executor.close()


@contextmanager
def in_thread(service: ScoringService, token: str | None = None) -> Iterator[str]:
    """The application behind a socket; gives its address."""
    listening = listen("127.0.0.1", 0, has_token=False)
    config = uvicorn.Config(make_app(service, token), log_level="warning", access_log=False)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[listening])))
    thread.start()
    try:
        deadline = time.monotonic() + 20
        while not server.started:
            assert thread.is_alive() and time.monotonic() < deadline
            time.sleep(0.01)
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        service.executor.close()
        server.should_exit = True
        thread.join(20)
        assert not thread.is_alive()


if __name__ == "__main__":  # a service in a process of its own: folder, seconds of a stop
    own_executor = LocalExecutor(WordEnv().execute, 2)
    with listen("127.0.0.1", 0, has_token=False) as own_socket:
        own = make_service(
            Path(sys.argv[1]), limits=ServiceLimits(shutdown_seconds=float(sys.argv[2])), executor=own_executor
        )
        port = own_socket.getsockname()[1]
        serve(own, own_socket, None, lambda: print(f"http://127.0.0.1:{port}", flush=True))
    own_executor.close()
    print("stopped", flush=True)
