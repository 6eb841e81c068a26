"""The client against a service behind a socket, and against servers that misbehave."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.integrations.service_world import Counting, in_thread, make_service, scoring, truth
from wmrl_gym.configs.serve_schema import ServiceLimits
from wmrl_gym.integrations import GroupAnswers, ProxyClient, ProxyError

GROUPS = [GroupAnswers(f"{g}:rhyme", "rhyme", [f"{g}-{member}" for member in range(4)]) for g in range(6)]


@contextmanager
def misbehaving(answer: Any) -> Iterator[tuple[str, list[str]]]:
    """A server whose every answer is the caller's; gives its address and the paths that were asked for."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked.append(self.path)
            self.rfile.read(int(self.headers["content-length"]))
            answer(self, len(asked))

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", asked
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def send(handler: BaseHTTPRequestHandler, code: int, body: bytes, **headers: str) -> None:
    handler.send_response(code)
    handler.send_header("content-length", str(len(body)))
    for name, value in headers.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.end_headers()
    handler.wfile.write(body)


def test_a_whole_step_comes_back_typed_and_as_group_scoring_has_it(tmp_path: Path) -> None:
    with in_thread(make_service(tmp_path), token="a-good-long-token") as url:
        with ProxyClient(url, "a-good-long-token", deadline=30) as client:
            scores = client.score(0, GROUPS)
            assert client.score(0, GROUPS) == scores
            keys = [item.group for item in GROUPS]
            draw = scoring().draw(keys)
            executed = [[truth("rhyme", answer) for answer in item.answers] for item in GROUPS]
            taught = scoring().score(keys, draw.is_anchor, [[s**2 for s in row] for row in executed], executed)
            assert [group.advantages for group in scores.groups] == taught.advantages
            assert scores.metrics == taught.scored.metrics
            verdict = client.verify("rhyme", "word", group="0:rhyme")
            assert verdict.predicted == truth("rhyme", "word") ** 2
            assert client.state().step == 1
        with ProxyClient(url, "wrong", deadline=30) as client, pytest.raises(ProxyError, match="401") as refused:
            client.state()
        assert refused.value.status == 401


def test_two_clients_at_once_lose_and_double_nothing(tmp_path: Path) -> None:
    service = make_service(tmp_path, fraction=1.0, limits=ServiceLimits(queue=8, members=8))
    with in_thread(service) as url, ProxyClient(url, deadline=60, backoff=0.01) as one, ProxyClient(url) as other:
        with ThreadPoolExecutor(32) as pool:
            asking = [(client, number) for number in range(60) for client in (one, other)]
            told = list(pool.map(lambda item: item[0].verify("rhyme", f"{item[1]}", group="g", member=item[1]), asking))
        assert told[0::2] == told[1::2]
        ledger = service.book.scoring.proxy.ledger
        assert sorted(pair.executed for pair in ledger) == sorted(truth("rhyme", f"{i}") for i in range(60))


def test_work_that_takes_longer_than_a_request_is_waited_for(tmp_path: Path) -> None:
    executor = Counting()
    limits = ServiceLimits(request_seconds=0.1)
    with in_thread(make_service(tmp_path, fraction=1.0, executor=executor, limits=limits)) as url:
        executor.gate.clear()
        threading.Timer(1.5, executor.gate.set).start()
        with ProxyClient(url, deadline=30) as client:
            assert client.verify("rhyme", "word").reward == truth("rhyme", "word")
            assert executor.executed == ["word"]
            with pytest.raises(ProxyError, match="no task 'prose'"):
                client.verify("prose", "word")


def test_a_refusal_for_good_is_not_asked_again_and_one_for_now_is() -> None:
    def answer(handler: BaseHTTPRequestHandler, number: int) -> None:
        if number == 1:
            handler.connection.close()
        elif number <= 3:
            send(handler, 429 if number == 2 else 503, b'{"error": "busy", "detail": "no room"}', retry_after="0")
        else:
            send(handler, 409, b'{"error": "conflict", "detail": "the same key"}')

    with misbehaving(answer) as (url, asked), ProxyClient(url, deadline=30, backoff=0.01) as client:
        with pytest.raises(ProxyError, match="409, the same key") as refused:
            client.verify("rhyme", "word")
        assert refused.value.status == 409 and len(asked) == 4


@pytest.mark.parametrize(
    ("body", "told"),
    [(b"{}", "does not answer as"), (b"[" * 100_000, "does not answer as"), (b"x" * 3000, "max_response_bytes=2000")],
)
def test_an_answer_that_is_none_is_told(body: bytes, told: str) -> None:
    with (
        misbehaving(lambda handler, number: send(handler, 200, body)) as (url, asked),
        ProxyClient(url, deadline=10, max_response_bytes=2000 if len(body) == 3000 else 10**6) as client,
    ):
        with pytest.raises(ProxyError, match=told):
            client.verify("rhyme", "word")
        assert len(asked) == 1


def test_the_deadline_holds_for_silence_for_trickling_and_for_nobody() -> None:
    is_over = threading.Event()

    def trickle(handler: BaseHTTPRequestHandler, number: int) -> None:
        handler.send_response(200)
        handler.send_header("content-length", "1000")
        handler.end_headers()
        while not is_over.wait(0.05):
            try:
                handler.wfile.write(b" ")
            except OSError:
                return

    for answer in (trickle, lambda handler, number: is_over.wait(20)):
        with misbehaving(answer) as (url, _), ProxyClient(url, deadline=0.6) as client:
            started = time.monotonic()
            with pytest.raises(ProxyError, match=r"within 0\.6 seconds"):
                client.verify("rhyme", "word")
            assert time.monotonic() - started < 10
            is_over.set()
        is_over.clear()
    started = time.monotonic()
    with ProxyClient(url, deadline=0.6, backoff=0.1) as client, pytest.raises(ProxyError, match="ConnectError"):
        client.verify("rhyme", "word")
    assert time.monotonic() - started < 10


@pytest.mark.parametrize("url", ["127.0.0.1:80", "ftp://x", "http://", "http://me:secret@x", "http://x?y"])
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="http://host:port"):
        ProxyClient(url)
