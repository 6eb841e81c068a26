"""The service in a process of its own: killed, stopped, started again."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tests.integrations.service_world import in_thread, make_service, scoring
from wmrl_gym.integrations import GroupAnswers, ProxyClient
from wmrl_gym.integrations.http.answers import Verdict
from wmrl_gym.integrations.http.server import listen

ROOT = Path(__file__).resolve().parents[2]


@contextmanager
def process(folder: Path, shutdown_seconds: float = 10.0) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The process of a service, and its address."""
    started = subprocess.Popen(
        [sys.executable, "-m", "tests.integrations.service_world", str(folder), str(shutdown_seconds)],
        stdout=subprocess.PIPE, text=True, cwd=ROOT, env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    try:
        assert started.stdout is not None
        url = started.stdout.readline().strip()
        assert url.startswith("http://127.0.0.1:")
        yield started, url
    finally:
        started.kill()
        started.communicate()


def wait_for_depth(url: str, depth: int) -> None:
    """Until so many trajectories are under way."""
    deadline = time.monotonic() + 20
    with httpx.Client() as client:
        while float(client.get(f"{url}/metrics").text.partition("\nwmrl_queue_depth ")[2].splitlines()[0]) < depth:
            assert time.monotonic() < deadline
            time.sleep(0.02)


@pytest.mark.slow
def test_killed_at_any_moment_it_keeps_what_it_answered_and_goes_on(tmp_path: Path) -> None:
    answered: dict[int, Verdict] = {}
    folder = tmp_path / "killed"
    for enough in (7, 40, 90):
        killed = threading.Event()
        with process(folder) as (service, url), ProxyClient(url, deadline=30, backoff=0.01) as client:

            def ask(number: int, service=service, client=client, enough=enough, killed=killed) -> None:
                if killed.is_set():
                    return
                try:
                    told = client.verify("rhyme", f"word{number}", group=f"{number // 4}", member=number)
                except RuntimeError:  # no answer, or the client is closed
                    assert killed.is_set()
                    return
                assert answered.setdefault(number, told) == told
                if len(answered) >= enough:
                    killed.set()
                    service.kill()  # with requests of the other threads at whatever point they are
                    client.close()

            with ThreadPoolExecutor(8) as pool:
                list(pool.map(ask, range(200)))
    assert len(answered) >= 90
    with process(folder) as (_, url), ProxyClient(url, deadline=30) as client:
        for number, told in answered.items():
            assert client.verify("rhyme", f"word{number}", group=f"{number // 4}", member=number) == told
        anchors = {number for number, told in answered.items() if told.is_anchor}
        told_pairs = client.state().metrics["pairs"]
    kept = make_service(folder).book.scoring.proxy
    # What was written and then not told, because of the kill, may be there besides.
    assert len(kept.ledger) == told_pairs and len(anchors) <= told_pairs
    executed = [pair.executed for pair in kept.ledger]
    assert len(set(executed)) == len(executed)
    assert {answered[number].executed for number in anchors} <= set(executed)


def test_killed_in_mid_step_it_scores_the_step_as_if_nothing_had_been(tmp_path: Path) -> None:
    groups = [GroupAnswers(f"{g}:rhyme", "rhyme", [f"{g}-{m}" for m in range(4)]) for g in range(6)]
    keys = [group.group for group in groups]
    with in_thread(make_service(tmp_path / "whole")) as url, ProxyClient(url, deadline=30) as client:
        whole = [client.score(step, groups) for step in range(2)]
    killed = []
    for step in range(2):
        with process(tmp_path / "killed") as (service, url), ProxyClient(url, deadline=30) as client:
            if step:
                killed.append(client.score(step - 1, groups))
            client.open_step(step, keys)
            for item in groups[:3]:
                client.hand_in(step, item.group, item.task, item.answers)
            service.kill()
    with process(tmp_path / "killed") as (_, url), ProxyClient(url, deadline=30) as client:
        assert client.state().missing == keys[3:]
        assert [*killed, client.score(1, groups)] == whole


@pytest.mark.slow
def test_a_stop_finishes_what_runs(tmp_path: Path) -> None:
    with process(tmp_path / "state") as (service, url), ProxyClient(url, deadline=30) as client:
        words = [f"slow{number}" for number in range(12)]
        asked = [word for word in words if scoring().proxy.anchors.draw_episode(0, word)[0]]
        with ThreadPoolExecutor(len(asked)) as pool:
            running = [pool.submit(client.verify, "rhyme", word, group=word) for word in asked]
            wait_for_depth(url, len(asked))
            service.send_signal(signal.SIGTERM)
            told = [future.result() for future in running]
        assert service.wait(20) == 0 and service.stdout is not None and service.stdout.read() == "stopped\n"
        assert all(verdict.executed is not None for verdict in told)
    with process(tmp_path / "state") as (_, url), ProxyClient(url, deadline=30) as client:
        assert [client.verify("rhyme", word, group=word) for word in asked] == told


def test_what_a_stop_cannot_wait_for_is_told_and_not_counted(tmp_path: Path) -> None:
    folder, anchors = tmp_path / "state", scoring().proxy.anchors
    with process(folder, 0.05) as (service, url):
        asking = [{"task": "rhyme", "answer": f"slow{number}", "group": f"{number}"} for number in range(12)]
        asking = [one for one in asking if anchors.draw_episode(0, one["group"])[0]]
        assert len(asking) >= 3
        with ThreadPoolExecutor(len(asking)) as pool:
            running = [pool.submit(httpx.post, f"{url}/v1/verify", json=one, timeout=20) for one in asking]
            wait_for_depth(url, len(asking))
            service.send_signal(signal.SIGTERM)
            codes = [future.result().status_code for future in running]
        assert service.wait(20) == 0
    assert 503 in codes and set(codes) <= {200, 503}
    kept = make_service(folder).book.scoring.proxy
    assert kept.state_dict()["counts"]["groups"] == codes.count(200)


def test_answers_do_not_wait_for_a_full_packet() -> None:
    with listen("127.0.0.1", 0, has_token=False) as listening:
        assert listening.proto == socket.IPPROTO_TCP  # by this asyncio tells that TCP_NODELAY may be set
