"""The service over HTTP, in this process: what it answers, counts once, refuses, and never makes up."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.integrations.service_world import TASKS, Counting, Guess, asked, make_service, scoring, truth
from wmrl_gym.configs.serve_schema import ServiceLimits
from wmrl_gym.integrations.http.journal import Journal

GROUPS = [f"{number}:rhyme" for number in range(6)]


def words(group: str, step: int) -> list[str]:
    return [f"{group}-{step}-{member}" for member in range(4)]


def run(main: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(main(), 60))  # type: ignore[arg-type]


async def verify(client: httpx.AsyncClient, answer: str, **keys: Any) -> dict[str, Any]:
    answered = await client.post("/v1/verify", json={"task": "rhyme", "answer": answer, **keys})
    assert answered.status_code == 200, answered.text
    told: dict[str, Any] = answered.json()
    return told


async def play(client: httpx.AsyncClient, step: int, groups: list[str] = GROUPS) -> dict[str, Any]:
    await client.put(f"/v1/steps/{step}", json={"groups": GROUPS})
    for group in groups:
        asking = {"group": group, "task": "rhyme", "answers": words(group, step)}
        assert (await client.post(f"/v1/steps/{step}/groups", json=asking)).status_code == 200
    told: dict[str, Any] = (await client.post(f"/v1/steps/{step}/score")).json()
    return told


def test_an_anchor_gets_the_truth_and_another_the_calibrated_prediction(tmp_path: Path) -> None:
    async def main() -> None:
        service = make_service(tmp_path)
        proxy = scoring().proxy
        async with asked(service) as client:
            for number in range(60):
                told = await verify(client, f"word{number}", group=f"g{number}", step=number, member=0)
                executed, predicted = truth("rhyme", f"word{number}"), truth("rhyme", f"word{number}") ** 2
                is_anchor, propensity = proxy.anchors.draw_episode(number, f"g{number}")
                assert (told["is_anchor"], told["propensity"], told["predicted"]) == (is_anchor, propensity, predicted)
                assert told["reward"] == (executed if is_anchor else proxy.calibrate(predicted))
                proxy.record_episode(
                    number, f"g{number}", predicted=predicted, executed=executed if is_anchor else None,
                    is_anchor=is_anchor, propensity=propensity, status="valid" * is_anchor, seconds=0.001 * is_anchor,
                )  # fmt: skip
            assert proxy.debiaser is not None and proxy.debiaser.n_fits_ > 1
            assert service.book.scoring.proxy.state_dict() == proxy.state_dict()

    run(main)


def test_steps_give_what_group_scoring_gives_in_whatever_order_groups_come(tmp_path: Path) -> None:
    async def main() -> None:
        ours = scoring()
        async with asked(make_service(tmp_path)) as client:
            for step in range(5):
                told = await play(client, step, GROUPS[step:] + GROUPS[:step])
                draw = ours.draw(GROUPS)
                executed = [[truth("rhyme", word) for word in words(group, step)] for group in GROUPS]
                predicted = [[score**2 for score in row] for row in executed]
                taught = ours.score(GROUPS, draw.is_anchor, predicted, executed, draw.propensity)
                assert [group["advantages"] for group in told["groups"]] == taught.advantages
                assert [group["rewards"] for group in told["groups"]] == taught.scored.rewards
                assert [group["weight"] for group in told["groups"]] == taught.scored.weights.tolist()
                assert told["metrics"] == taught.scored.metrics
            assert told["metrics"]["rho"] > 1
            assert (await client.get("/v1/state")).json()["step"] == 5

    run(main)


def test_steps_out_of_order_are_refused_and_change_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        service = make_service(tmp_path)
        group = {"group": GROUPS[0], "task": "rhyme", "answers": ["a", "b"]}
        async with asked(service) as client:
            assert (await client.put("/v1/steps/1", json={"groups": GROUPS})).status_code == 409
            assert (await client.post("/v1/steps/0/groups", json=group)).status_code == 409
            assert (await client.post("/v1/steps/0/score")).status_code == 409
            assert (await client.put("/v1/steps/0", json={"groups": GROUPS})).status_code == 200
            assert (await client.put("/v1/steps/0", json={"groups": GROUPS[:2]})).status_code == 409
            assert (await client.put("/v1/steps/1", json={"groups": GROUPS})).status_code == 409
            assert (await client.post("/v1/steps/0/groups", json={**group, "group": "x"})).status_code == 409
            assert (await client.post("/v1/steps/0/groups", json=group)).status_code == 200
            assert (await client.post("/v1/steps/0/groups", json={**group, "answers": ["a"]})).status_code == 409
            refused = await client.post("/v1/steps/0/score")
            assert refused.status_code == 409 and "waits for 5 of 6 groups: '1:rhyme'" in refused.json()["detail"]
            state = (await client.get("/v1/state")).json()
            assert (state["step"], state["groups"], state["missing"]) == (0, GROUPS, GROUPS[1:])
            assert not service.book.scoring.proxy.ledger

    run(main)


def test_a_question_asked_again_is_answered_the_same_and_counted_once(tmp_path: Path) -> None:
    async def main() -> None:
        executor = Counting()
        service = make_service(tmp_path, fraction=1.0, executor=executor)
        async with asked(service) as client:
            asking = {"task": "rhyme", "answer": "word", "step": 2, "group": "g", "member": 1}
            executor.gate.clear()
            together = [asyncio.create_task(client.post("/v1/verify", json=asking)) for _ in range(20)]
            await asyncio.sleep(0.2)
            assert service.depth == 1
            executor.gate.set()
            answers = {(await one).content for one in together}
            answers.add((await client.post("/v1/verify", json=asking)).content)
            assert len(answers) == 1 and executor.executed == ["word"]
            assert len(service.book.scoring.proxy.ledger) == 1
            refused = await client.post("/v1/verify", json={**asking, "answer": "other"})
            assert refused.status_code == 409 and "other content" in refused.json()["detail"]
            first, again = await play(client, 0), await play(client, 0)
            assert first == again and (await client.get("/v1/state")).json()["step"] == 1
            # Without a member the content is the name; without a group each answer is one.
            for answer in ("same", "same", "different"):
                await verify(client, answer, group="h")
                await verify(client, answer)
            assert len(service.book.scoring.proxy.ledger) == 1 + 24 + 2 + 2

    run(main)


def test_what_is_unknown_is_null_and_teaches_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        service = make_service(tmp_path, fraction=1.0)
        async with asked(service) as client:
            told = await verify(client, "fails", group="g", member=0)
            assert (told["reward"], told["executed"], told["status"]) == (None, None, "unknown")
            assert told["predicted"] is not None
            told = await verify(client, "", group="g", member=1)
            assert (told["reward"], told["executed"], told["status"]) == (0.0, 0.0, "nothing")
            told = await verify(client, "half a character", group="g", member=2)
            assert told["feedback"] == "half a character: \\ud800"
            metrics = service.book.scoring.proxy.metrics()
            assert (metrics["anchor_failures"], metrics["pairs"]) == (1.0, 2.0)
        service = make_service(tmp_path / "predicted", fraction=0.0)
        async with asked(service) as client:
            assert (await verify(client, "vague", group="g"))["reward"] is None
            text = (await client.get("/metrics")).text
            assert 'wmrl_unknown_scores_total{source="prediction"} 1.0' in text
            assert "\nwmrl_proxy_bias_after " not in text and "\nwmrl_proxy_rho 1.0" in text

    run(main)


def test_a_world_model_that_is_down_is_told_and_costs_no_execution(tmp_path: Path) -> None:
    async def main() -> None:
        model, executor = Guess(), Counting()
        service = make_service(tmp_path, fraction=1.0, world_model=model, executor=executor)
        async with asked(service) as client:
            model.down = True
            asking = {"task": "rhyme", "answer": "word", "group": "g", "member": 0}
            refused = await client.post("/v1/verify", json=asking)
            assert refused.status_code == 503 and "the model's server is away" in refused.json()["detail"]
            assert int(refused.headers["retry-after"]) > 0
            assert not executor.executed and service.book.scoring.proxy.metrics()["anchor_fraction"] is None
            model.down = False
            assert (await client.post("/v1/verify", json=asking)).status_code == 200
            assert executor.executed == ["word"] and service.depth == 0

    run(main)


def test_execution_that_is_dead_is_refused_until_it_lives(tmp_path: Path) -> None:
    async def main() -> None:
        service = make_service(tmp_path, fraction=1.0)
        async with asked(service) as client:
            codes = []
            for number, word in enumerate(["fails", "fails", "fails", "fails", "works", "fails"]):
                asking = {"task": "rhyme", "answer": word, "group": "g", "member": number}
                codes.append((await client.post("/v1/verify", json=asking)).status_code)
            assert codes == [200, 200, 503, 503, 200, 200]
            assert service.book.scoring.proxy.metrics()["anchor_failures"] == 3.0

    run(main)


def test_no_room_and_no_time_are_told_and_the_work_goes_on(tmp_path: Path) -> None:
    async def main() -> None:
        executor = Counting()
        limits = ServiceLimits(queue=4, members=4, groups=8, request_seconds=0.2)
        service = make_service(tmp_path, fraction=1.0, executor=executor, limits=limits)
        async with asked(service) as client:
            executor.gate.clear()
            asking = [{"task": "rhyme", "answer": f"w{i}", "group": "g", "member": i} for i in range(5)]
            late = await asyncio.gather(*(client.post("/v1/verify", json=one) for one in asking))
            assert sorted(answer.status_code for answer in late) == [429, 503, 503, 503, 503]
            assert all("retry-after" in answer.headers for answer in late)
            executor.gate.set()
            await asyncio.sleep(0.3)
            again = [(await client.post("/v1/verify", json=one)).status_code for one in asking]
            assert again == [200] * 5 and sorted(executor.executed) == [f"w{i}" for i in range(5)]
            too_many = {"group": "g", "task": "rhyme", "answers": ["a"] * 5}
            assert (await client.post("/v1/steps/0/groups", json=too_many)).status_code == 422
            assert (await client.put("/v1/steps/0", json={"groups": list("abcdefghi")})).status_code == 422
            assert (await client.put("/v1/steps/0", json={"groups": ["a", "a"]})).status_code == 422

    run(main)


def test_the_token_is_asked_for_everywhere_but_at_the_door(tmp_path: Path) -> None:
    async def main() -> None:
        async with asked(make_service(tmp_path), token="a-good-long-token") as client:
            assert (await client.get("/healthz")).json() == {"status": "ok"}
            for path in ("/metrics", "/openapi.json", "/v1/state", "/nowhere"):
                assert (await client.get(path)).status_code == 401
            for given in ("Bearer wrong", "Bearer", "Basic a-good-long-token", "Bearer a-good-long-token2", "Bearer ü"):
                headers = [(b"authorization", given.encode("latin-1"))]
                assert (await client.post("/v1/verify", json={}, headers=headers)).status_code == 401
            headers = [(b"authorization", b"Bearer a-good-long-token")]
            assert (await client.get("/v1/state", headers=headers)).status_code == 200
        async with asked(make_service(tmp_path)) as client:
            for host in ("evil.example", "127.0.0.1.evil.example", "evil.example:8080"):
                assert (await client.get("/v1/state", headers={"host": host})).status_code == 401
            for host in ("localhost:1", "127.0.0.1:80", "[::1]:80", "[::1]"):
                assert (await client.get("/v1/state", headers={"host": host})).status_code == 200

    run(main)


ODD: dict[str, tuple[bytes, int]] = {
    "no JSON": (b"{", 422),
    "deep": (b"[" * 100_000 + b"]" * 100_000, 400),
    "deep value": (b'{"task": "rhyme", "answer": ' + b'{"a":' * 50_000 + b"1" + b"}" * 50_000 + b"}", 400),
    "NaN": (b'{"task": "rhyme", "answer": "a", "step": NaN}', 422),
    "infinite": (b'{"task": "rhyme", "answer": "a", "step": 1e999}', 422),
    "huge": (b'{"task": "rhyme", "answer": "a", "step": ' + b"9" * 4000 + b"}", 422),
    "huger": (b'{"task": "rhyme", "answer": "a", "step": ' + b"9" * 50_000 + b"}", 400),
    "beyond": (b'{"task": "rhyme", "answer": "a", "step": 9007199254740992}', 422),
    "negative": (b'{"task": "rhyme", "answer": "a", "step": -1}', 422),
    "a truth": (b'{"task": "rhyme", "answer": "a", "member": true}', 422),
    "half character": (b'{"task": "rhyme", "answer": "\\ud800"}', 422),
    "half group": (b'{"task": "rhyme", "answer": "a", "group": "\\ud800"}', 422),
    "half task": (b'{"task": "\\ud800", "answer": "a"}', 422),
    "half key": (b'{"task": "rhyme", "answer": "a", "\\udfff": 1}', 422),
    "bad UTF-8": (b'{"task": "rhyme", "answer": "\xff"}', 400),
    "other task": (b'{"task": "prose", "answer": "a"}', 404),
    "more": (b'{"task": "rhyme", "answer": "a", "reward": 1}', 422),
    "a list": (b"[]", 422),
    "null": (b"null", 422),
    "nothing": (b"", 422),
    "long group": (json.dumps({"task": "rhyme", "answer": "a", "group": "g" * 301}).encode(), 422),
    "too large": (b'{"task": "rhyme", "answer": "' + b"a" * 300_000 + b'"}', 413),
}


@pytest.mark.parametrize("name", ODD)
def test_odd_json_is_refused_in_json(tmp_path: Path, name: str) -> None:
    async def main() -> None:
        content, code = ODD[name]
        service = make_service(tmp_path, limits=ServiceLimits(body_bytes=250_000 if name == "too large" else 2_000_000))
        async with asked(service) as client:
            headers = {"content-type": "application/json"}
            answered = await client.post("/v1/verify", content=content, headers=headers)
            assert (answered.status_code, set(answered.json())) == (code, {"error", "detail"}), answered.text
            assert len(answered.content) < 2000

            async def in_pieces() -> Any:
                for start in range(0, len(content), 65_536):
                    yield content[start : start + 65_536]

            answered = await client.post("/v1/verify", content=in_pieces(), headers=headers)
            assert answered.status_code == code
            assert service.book.scoring.proxy.metrics()["anchor_fraction"] is None

    run(main)


def test_a_nul_and_every_plane_of_unicode_come_back(tmp_path: Path) -> None:
    async def main() -> None:
        async with asked(make_service(tmp_path)) as client:
            told = await verify(client, "a\0b \U0001f600 \u202e", group="g\0 \U0001f600", member=0)
            assert told["group"] == "g\0 \U0001f600"
            assert await verify(client, "a\0b \U0001f600 \u202e", group="g\0 \U0001f600", member=0) == told

    run(main)


def test_a_journal_that_cannot_be_written_counts_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        service = make_service(tmp_path, fraction=1.0)
        async with asked(service) as client:
            await verify(client, "first", group="g", member=0)
            before = service.book.scoring.proxy.state_dict()
            append = service.book.journal.append

            def full(*arguments: Any) -> None:
                raise sqlite3.OperationalError("database or disk is full")

            monkeypatch.setattr(service.book.journal, "append", full)
            asking = {"task": "rhyme", "answer": "second", "group": "g", "member": 1}
            refused = await client.post("/v1/verify", json=asking)
            assert refused.status_code == 503 and "disk is full" in refused.json()["detail"]
            assert service.book.scoring.proxy.state_dict() == before
            monkeypatch.setattr(service.book.journal, "append", append)
            assert (await client.post("/v1/verify", json=asking)).status_code == 200

    run(main)


def test_one_that_begins_again_goes_on_bit_for_bit(tmp_path: Path) -> None:
    async def main() -> None:
        told: dict[str, list[Any]] = {"whole": [], "cut": []}
        for name, cuts in (("whole", ()), ("cut", (1, 2, 3))):
            service = make_service(tmp_path / name)
            for part in range(4):
                if part in cuts:
                    service = make_service(tmp_path / name)
                async with asked(service) as client:
                    await client.put(f"/v1/steps/{part}", json={"groups": GROUPS})
                    group = {"group": GROUPS[0], "task": "rhyme", "answers": words(GROUPS[0], part)}
                    await client.post(f"/v1/steps/{part}/groups", json=group)
                    told[name] += [await verify(client, f"{part}-{i}", group=f"{part}-{i}") for i in range(10)]
                # Always anew in mid-step; the "cut" one once more between steps.
                service = make_service(tmp_path / name)
                async with asked(service) as client:
                    told[name].append(await play(client, part))
                service = make_service(tmp_path / name)
        assert told["whole"] == told["cut"]
        alone = make_service(tmp_path / "alone")
        async with asked(alone) as client:
            for part in range(4):
                for i in range(10):
                    assert await verify(client, f"{part}-{i}", group=f"{part}-{i}") == told["cut"][11 * part + i]
                assert await play(client, part) == told["cut"][11 * part + 10]
        assert alone.world_model is not None and alone.world_model.asked == 4 * (10 + 24)  # type: ignore[attr-defined]
        service = make_service(tmp_path / "cut")
        async with asked(service):
            assert service.world_model.asked == alone.world_model.asked  # type: ignore[union-attr]

    run(main)


def test_two_services_in_one_process_do_not_meet(tmp_path: Path) -> None:
    async def main() -> None:
        one, other = make_service(tmp_path / "one"), make_service(tmp_path / "other")
        async with asked(one) as first, asked(other) as second:
            await verify(first, "word", group="g")
            assert 'wmrl_requests_total{code="200",endpoint="/v1/verify"} 1.0' in (await first.get("/metrics")).text
            assert "/v1/verify" not in (await second.get("/metrics")).text

    run(main)


def test_a_service_that_would_score_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="proxy=all_executed"):
        make_service(tmp_path, world_model=None)

    async def main() -> None:
        async with asked(make_service(tmp_path, fraction=1.0, world_model=None)) as client:
            told = await verify(client, "word", group="g")
            assert (told["predicted"], told["reward"]) == (None, truth("rhyme", "word"))

    run(main)


def test_a_damaged_journal_is_told(tmp_path: Path) -> None:
    from wmrl_gym.integrations.http.journal import JournalError

    file = tmp_path / "journal.sqlite"
    file.write_bytes(b"no database " * 1000)
    with pytest.raises(JournalError, match="cannot be opened"):
        Journal(file)
    file.unlink()
    journal = Journal(file)
    journal.append((), {"format": 0})
    journal.close()
    with pytest.raises(JournalError, match="format 0"):
        Journal(file)


def test_the_tasks_of_the_service_are_named(tmp_path: Path) -> None:
    async def main() -> None:
        async with asked(make_service(tmp_path)) as client:
            refused = await client.post("/v1/verify", json={"task": "prose", "answer": "a"})
            assert all(task in refused.json()["detail"] for task in TASKS)

    run(main)
