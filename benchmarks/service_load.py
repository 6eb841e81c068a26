"""200 clients at once against the service on loopback: is any outcome lost or doubled, and how long does one wait?

    python benchmarks/service_load.py --clients 200 --requests 4000

World model and execution cost next to nothing here, so the times are those of HTTP, of the queue and of the disk. Every
tenth request is asked twice, as a client does that lost its connection.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from wmrl_gym.core import ExpensiveRewardEnv, Outcome, Submission, fingerprint
from wmrl_gym.envs.unicode_text import UnicodeText
from wmrl_gym.integrations.group_scoring import GroupScoring
from wmrl_gym.integrations.http.journal import Journal
from wmrl_gym.proxy import IsotonicDebiaser, RandomAnchors, RewardProxy

ROOT = Path(__file__).resolve().parents[1]


class Words(ExpensiveRewardEnv[str, str]):
    """Any word is worth what its digest says."""

    observation_space = action_space = UnicodeText(1000)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        return "", {}

    def submit(self, action: str) -> Submission:
        return Submission("words", action)

    def execute(self, submission: Submission) -> Outcome:
        return Outcome(worth(submission), "valid", "executed")

    def advance(self, outcome: Outcome | None) -> tuple[str, float, bool, bool, dict[str, Any]]:
        return "", 0.0, True, False, {}


class Guess:
    """The truth, squared."""

    def predict(self, submissions: Sequence[Submission]) -> list[Outcome]:
        return [Outcome(worth(item) ** 2, "valid", "predicted", source="world_model") for item in submissions]


def worth(submission: Submission) -> float:
    return int(fingerprint(submission.content)[:8], 16) / 0xFFFFFFFF


def scoring() -> GroupScoring:
    return GroupScoring(RewardProxy(RandomAnchors(0.1), IsotonicDebiaser(min_pairs=64, refit_every=64)))


def serve_words(folder: Path) -> None:
    """The service, in a process of its own."""
    from wmrl_gym.execution import LocalExecutor
    from wmrl_gym.integrations.http.book import Book
    from wmrl_gym.integrations.http.forming import Forming
    from wmrl_gym.integrations.http.server import listen, serve
    from wmrl_gym.integrations.http.service import ScoringService

    executor = LocalExecutor(Words().execute, 2)
    with listen("127.0.0.1", 0, has_token=False) as listening:
        forming = Forming(Words(), ["words"], lambda task: {})
        service = ScoringService(forming, Guess(), executor, Book(Journal(folder / "journal.sqlite"), scoring))
        port = listening.getsockname()[1]
        serve(service, listening, None, lambda: print(f"http://127.0.0.1:{port}", flush=True))
    executor.close()


async def load(url: str, clients: int, requests: int) -> tuple[dict[int, dict[str, Any]], list[float]]:
    """Ask `requests` questions; the answer of each by its number, and all seconds waited."""
    answers: dict[int, dict[str, Any]] = {}
    seconds: list[float] = []
    numbers = iter(range(requests))

    async def client() -> None:
        # One connection for each client, as from 200 processes.
        # Without certificates, whose reading 200 times over would be what is measured.
        async with httpx.AsyncClient(base_url=url, trust_env=False, verify=False, timeout=120) as http:
            for number in numbers:
                asked = {"task": "words", "answer": f"word {number}", "group": f"{number // 8}", "member": number}
                for _ in range(2 if number % 10 == 0 else 1):
                    started = time.perf_counter()
                    answered = await http.post("/v1/verify", json=asked)
                    while answered.status_code == 429:
                        await asyncio.sleep(0.05)
                        answered = await http.post("/v1/verify", json=asked)
                    seconds.append(time.perf_counter() - started)
                    answered.raise_for_status()
                    told = answered.json()
                    assert answers.setdefault(number, told) == told, f"two answers to question {number}"

    await asyncio.gather(*(client() for _ in range(clients)))
    return answers, seconds


def check_ledger(folder: Path, answers: dict[int, dict[str, Any]]) -> int:
    """Compare what is on the disk with what clients were told; the number of pairs.

    Raises:
        AssertionError: if an outcome is lost or doubled.
    """
    journal = Journal(folder / "journal.sqlite")
    written = Counter(int(entry.key.member) for entry in journal.entries())
    assert written == Counter(answers.keys()), "an outcome is lost or doubled in the journal"
    proxy = scoring().proxy
    for entry in journal.entries():
        told = answers[int(entry.key.member)]
        assert told["reward"] == (told["executed"] if told["is_anchor"] else proxy.calibrate(told["predicted"]))
        proxy.record_episode(
            0, entry.key.group, predicted=told["predicted"], executed=told["executed"], is_anchor=told["is_anchor"],
            propensity=told["propensity"],
        )  # fmt: skip
    journal.close()
    anchors = sum(told["is_anchor"] for told in answers.values())
    assert len(proxy.ledger) == anchors, "an anchor is lost or doubled in the ledger"
    return anchors


def measure(clients: int, requests: int) -> dict[str, float]:
    """Start a service, load it, compare, and stop it."""
    with tempfile.TemporaryDirectory() as name:
        command = [sys.executable, str(Path(__file__).resolve()), "--serve", name]
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
        service = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
        try:
            assert service.stdout is not None
            url = service.stdout.readline().strip()
            started = time.perf_counter()
            answers, seconds = asyncio.run(load(url, clients, requests))
            total = time.perf_counter() - started
            metrics = httpx.get(f"{url}/v1/state", trust_env=False).json()["metrics"]
        finally:
            service.terminate()
            service.wait(60)
        pairs = check_ledger(Path(name), answers)
        assert metrics["pairs"] == pairs, "the service counted other pairs than clients were told"
    p50, p99 = np.percentile(np.array(seconds) * 1e3, [50, 99])
    return {
        "clients": clients, "requests": len(seconds), "questions": requests, "pairs": pairs,
        "p50_ms": float(p50), "p99_ms": float(p99), "per_second": len(seconds) / total,
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 20, 200])
    parser.add_argument("--requests", type=int, default=4000)
    parser.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve is not None:
        serve_words(options.serve)
        return
    print("| clients | questions | requests | anchors | p50, ms | p99, ms | requests a second |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for clients in options.clients:
        row = measure(clients, options.requests if clients > 1 else min(options.requests, 500))
        cells = [f"{row[name]:.0f}" for name in ("clients", "questions", "requests", "pairs")]
        print(
            f"| {' | '.join(cells)} | {row['p50_ms']:.1f} | {row['p99_ms']:.1f} | {row['per_second']:.0f} |", flush=True
        )


if __name__ == "__main__":
    main()
