from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest

from wmrl_gym.engines.engine import Answer, Engine, Sampling
from wmrl_gym.engines.openai_engine import LONGEST_WAIT, OpenAIEngine
from wmrl_gym.engines.response_cache import CachedEngine
from wmrl_gym.world_models.llm_static_checker import questions
from wmrl_gym.world_models.llm_static_checker.costs import Costs
from wmrl_gym.world_models.llm_static_checker.questions import Question

from .chat_server import Handler, completion, echo, serving
from .conftest import VERDICT, prompt

pytest.importorskip("openai", reason="needs the extra: pip install 'wmrl-gym[openai]'")

SAMPLING = Sampling()


def engine(url: str, **settings: Any) -> OpenAIEngine:
    return OpenAIEngine(url, "m", **({"retries": 2, "backoff": 0.01, "timeout": 10.0} | settings))


def ask(url: str, texts: list[str], **settings: Any) -> list[Answer]:
    return engine(url, **settings).generate([prompt(text) for text in texts], SAMPLING)


def test_construction_imports_no_client_and_opens_no_connection() -> None:
    code = (
        "import sys\n"
        "from wmrl_gym.engines.openai_engine import OpenAIEngine\n"
        "OpenAIEngine('http://127.0.0.1:9/v1', 'm')\n"
        "assert not {'openai', 'torch'} & set(sys.modules), 'heavy import'\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_answers_keep_their_order_and_their_counts() -> None:
    def later_is_faster(handler: Handler, body: dict[str, Any]) -> None:
        time.sleep(0.05 if int(body["messages"][-1]["content"]) % 2 else 0.0)
        echo(handler, body)

    with serving(later_is_faster) as server:
        served = engine(server.url)
        assert isinstance(served, Engine)
        answers = served.generate([prompt(str(i)) for i in range(40)], SAMPLING)
    assert [a.text for a in answers] == [str(i) for i in range(40)]
    first = answers[0]
    assert (first.prompt_tokens, first.cached_tokens, first.generated_tokens) == (20, 16, 5)
    assert first.finished and not first.from_cache and first.error is None and first.seconds > 0


def test_no_more_requests_at_a_time_than_allowed() -> None:
    def slow(handler: Handler, body: dict[str, Any]) -> None:
        time.sleep(0.03)
        echo(handler, body)

    with serving(slow) as server:
        ask(server.url, ["a"] * 20, concurrency=4)
        assert 2 <= server.most_running <= 4


@pytest.mark.parametrize(
    ("setting", "where"),
    [
        ("response_format", lambda body: body["response_format"]["json_schema"]["schema"]),
        ("structured_outputs", lambda body: body["structured_outputs"]["json"]),
        ("guided_json", lambda body: body["guided_json"]),
    ],
)
def test_the_request_says_all_that_was_asked_for(setting: Any, where: Any) -> None:
    with serving() as server:
        sampling = Sampling(temperature=0.3, top_p=0.9, top_k=7, presence_penalty=0.5, max_tokens=11, seed=3)
        engine(server.url, structured_outputs=setting).generate([prompt("a", VERDICT), prompt("b")], sampling)
        with_schema = next(r for r in server.requests if r["messages"][-1]["content"] == "a")
        without = next(r for r in server.requests if r["messages"][-1]["content"] == "b")
    assert where(with_schema) == VERDICT
    assert not {"response_format", "structured_outputs", "guided_json"} & set(without)
    assert with_schema["model"] == "m" and with_schema["messages"][0]["role"] == "system"
    found = [with_schema[name] for name in ("temperature", "top_p", "top_k", "presence_penalty", "max_tokens")]
    assert found == [0.3, 0.9, 7, 0.5, 11]
    assert with_schema["chat_template_kwargs"] == {"enable_thinking": False}
    assert with_schema["seed"] != without["seed"]


def test_a_plain_server_gets_no_foreign_fields() -> None:
    with serving() as server:
        ask(server.url, ["a"], extra_body={}, send_top_k=False, send_seed=False, structured_outputs="off")
        assert not {"top_k", "seed", "chat_template_kwargs", "response_format"} & set(server.requests[0])


def test_cut_answers_are_not_finished() -> None:
    choice = {"index": 0, "message": {"role": "assistant", "content": '{"a'}, "finish_reason": "length"}
    with serving(lambda handler, body: handler.send(completion("", choices=[choice], usage=None))) as server:
        (answer,) = ask(server.url, ["a"])
    assert answer.text == '{"a' and not answer.finished
    assert answer.prompt_tokens is None and answer.cached_tokens is None and answer.generated_tokens is None


def failing_twice(payload: Any, status: int = 200, headers: dict[str, str] | None = None) -> Any:
    counts: dict[str, int] = {}
    lock = threading.Lock()

    def behave(handler: Handler, body: dict[str, Any]) -> None:
        text = body["messages"][-1]["content"]
        with lock:
            counts[text] = counts.get(text, 0) + 1
            fails = counts[text] <= 2
        if fails:
            handler.send(payload, status, headers)
        else:
            echo(handler, body)

    return behave


BROKEN: dict[str, tuple[Any, int]] = {
    "rate limit": ({"error": {"message": "slow down"}}, 429),
    "server error": (b"oops", 500),
    "bad gateway with bytes": (b"\xff\xfe\x00", 502),
    "not JSON": (b"<html>hello</html>", 200),
    "not UTF-8": (b'{"choices": [{"message": {"content": "\xff\xfe"}}]}', 200),
    "half of the JSON": (b'{"choices": [{"mess', 200),
    "empty body": (b"", 200),
    "a list": ([1, 2, 3], 200),
    "a number": (7, 200),
    "null": (None, 200),
    "no choices": ({"choices": []}, 200),
    "choices of the wrong type": ({"choices": "abc"}, 200),
    "message is text": ({"choices": [{"message": "abc"}]}, 200),
    "content is a number": (completion(5), 200),
    "content is null": (completion(None), 200),
    "content is an empty list": (completion([]), 200),
    "content is a list of numbers": (completion([1, 2]), 200),
}


@pytest.mark.parametrize("name", BROKEN)
def test_faults_that_pass_are_tried_again(name: str) -> None:
    with serving(failing_twice(*BROKEN[name])) as server:
        answers = ask(server.url, ["a", "b"])
        assert [a.text for a in answers] == ["a", "b"]
        assert len(server.requests) == 6


@pytest.mark.parametrize("name", BROKEN)
def test_faults_that_stay_are_unknown_and_do_not_raise(name: str) -> None:
    payload, status = BROKEN[name]

    def only_b(handler: Handler, body: dict[str, Any]) -> None:
        if body["messages"][-1]["content"] == "b":
            handler.send(payload, status)
        else:
            echo(handler, body)

    with serving(only_b) as server:
        a, b, c = ask(server.url, ["a", "b", "c"])
    assert (a.text, c.text) == ("a", "c")
    assert b.text is None and b.error and server.url in b.error


@pytest.mark.parametrize("status", [400, 401, 404, 422])
def test_a_request_that_is_wrong_is_not_repeated(status: int) -> None:
    with serving(lambda handler, body: handler.send({"error": {"message": "no such field"}}, status)) as server:
        (answer,) = ask(server.url, ["a"])
        assert answer.text is None and "no such field" in str(answer.error)
        assert len(server.requests) == 1


def test_the_server_says_how_long_to_wait() -> None:
    with serving(failing_twice({}, 429, {"Retry-After": "0.3"})) as server:
        started = time.perf_counter()
        assert ask(server.url, ["a"])[0].text == "a"
        assert time.perf_counter() - started >= 0.6


@pytest.mark.parametrize(("asked", "waited"), [("45", 45.0), ("120", 120.0), ("4000", 120.0), ("0", 0.0)])
def test_a_servers_own_wait_is_honoured_up_to_a_limit(
    asked: str, waited: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert pauses(asked, monkeypatch) == [waited, waited]
    assert pauses(asked, monkeypatch, longest_wait=7.0) == [min(7.0, waited)] * 2


def test_a_wait_may_be_a_date_and_nonsense_leaves_it_to_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    in_a_minute = formatdate(time.time() + 60, usegmt=True)
    assert all(55 < pause <= 61 for pause in pauses(in_a_minute, monkeypatch))
    assert pauses(formatdate(0, usegmt=True), monkeypatch) == [0.0, 0.0]
    for nonsense in ("soon", "nan", "inf", "-5", ""):
        assert all(0 < pause <= LONGEST_WAIT for pause in pauses(nonsense, monkeypatch, backoff=1e6))


def pauses(retry_after: str, monkeypatch: pytest.MonkeyPatch, **settings: Any) -> list[float]:
    """What the engine sleeps between its tries."""
    slept: list[float] = []
    sleep = asyncio.sleep

    async def note(seconds: float, *others: Any) -> Any:
        slept.append(seconds)
        return await sleep(0, *others)

    with monkeypatch.context() as patch, serving(failing_twice({}, 429, {"Retry-After": retry_after})) as server:
        patch.setattr("wmrl_gym.engines.openai_engine.asyncio.sleep", note)
        assert ask(server.url, ["a"], **settings)[0].text == "a"
    return slept


def reply(finish: str, **message: Any) -> dict[str, Any]:
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}
    return completion("", choices=[choice])


CALL = {"id": "1", "type": "function", "function": {"name": "run", "arguments": "{}"}}
SHORTFALLS: dict[str, tuple[dict[str, Any], str, str | None]] = {
    "all spent on thoughts": (reply("length", content=None, reasoning_content="hm"), "", "length"),
    "all spent on hidden thoughts": (reply("length", content=None), "", "length"),
    "cut": (reply("length", content="half"), "half", "length"),
    "thoughts alone": (reply("stop", content=None, reasoning_content="hm"), "", "thoughts"),
    "thoughts alone under another name": (reply("stop", content="", reasoning="hm"), "", "thoughts"),
    "thoughts alone in parts": (reply("stop", content=[{"type": "thinking", "thinking": []}]), "", "thoughts"),
    "refusal": (reply("stop", content=None, refusal="I cannot."), "", "refusal"),
    "refusal in parts": (reply("stop", content=[{"type": "refusal", "refusal": "No."}]), "", "refusal"),
    "filter": (reply("content_filter", content="ha"), "ha", "refusal"),
    "tool": (reply("tool_calls", content=None, tool_calls=[CALL]), "", "tool_calls"),
    "tool that is not announced": (reply("stop", content="I run it.", tool_calls=[CALL]), "I run it.", "tool_calls"),
    "function": (
        reply("function_call", content=None, function_call={"name": "run"}),
        "",
        "tool_calls",
    ),
    "parts": (reply("stop", content=[{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]), "ab", None),
    "thoughts and text": (
        reply("stop", content=[{"type": "thinking", "thinking": []}, {"type": "text", "text": "a"}]),
        "a",
        None,
    ),
    "text after thoughts": (reply("stop", content="a", reasoning_content="hm"), "a", None),
    "nothing": (reply("stop", content=""), "", None),
}


@pytest.mark.parametrize("name", SHORTFALLS)
def test_a_model_that_gave_no_text_has_answered_and_is_asked_once(name: str) -> None:
    payload, text, reason = SHORTFALLS[name]
    with serving(lambda handler, body: handler.send(payload)) as server:
        (answer,) = ask(server.url, ["a"])
        assert len(server.requests) == 1
    assert (answer.text, answer.reason, answer.error) == (text, reason, None)
    assert answer.finished == (payload["choices"][0]["finish_reason"] not in ("length", "content_filter"))
    assert answer.generated_tokens == 5


FULL = {
    "OpenAI": (400, {"error": {"message": "This is too much.", "code": "context_length_exceeded"}}),
    "vLLM": (
        400,
        {
            "object": "error",
            "message": "This model's maximum context length is 2048 tokens. However, you requested 2100 tokens.",
            "type": "BadRequestError",
            "code": 400,
        },
    ),
    "vLLM, prompt": (
        400,
        {"error": {"message": "The decoder prompt (length 30) is longer than the maximum model length of 20."}},
    ),
    "llama.cpp": (
        400,
        {"error": {"code": 400, "message": "request (9 tokens) is too big", "type": "exceed_context_size_error"}},
    ),
    "llama.cpp, words": (400, {"error": {"message": "the request exceeds the available context size. try increasing"}}),
    "SGLang": (400, {"message": "The input (30 tokens) is longer than the model's context length (20 tokens)."}),
    "TGI": (422, {"error": "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 20. Given: 30"}),
    "Anthropic": (400, {"error": {"type": "invalid_request_error", "message": "prompt is too long: 30 tokens > 20"}}),
    "Gemini": (400, {"error": {"message": "The input token count (30) exceeds the maximum number of tokens (20)."}}),
    "plainly": (400, {"error": "context too long"}),
}


@pytest.mark.parametrize("name", FULL)
def test_a_conversation_longer_than_the_context_is_an_answer_without_text(name: str) -> None:
    status, payload = FULL[name]
    with serving(lambda handler, body: handler.send(payload, status)) as server:
        (answer,) = ask(server.url, ["a"])
        assert len(server.requests) == 1
    assert (answer.text, answer.reason, answer.finished) == ("", "context", False)
    assert answer.error and server.url in answer.error


@pytest.mark.parametrize(
    ("status", "payload"),
    [
        (400, {"error": {"message": "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."}}),
        (400, {"error": {"message": "bad field", "input": "This model's maximum context length is 2048 tokens."}}),
        (401, {"error": {"message": "This model's maximum context length is 2048 tokens."}}),
    ],
)
def test_other_refused_requests_are_errors(status: int, payload: Any) -> None:
    with serving(lambda handler, body: handler.send(payload, status)) as server:
        (answer,) = ask(server.url, ["a"])
    assert answer.text is None and answer.reason is None and answer.error


def test_an_answer_that_the_context_had_no_room_for_is_not_remembered(tmp_path: Path) -> None:
    refuses = True

    def behave(handler: Handler, body: dict[str, Any]) -> None:
        if refuses:
            handler.send({"error": "prompt too long"}, 400)
        else:
            handler.send(reply("length", content=None))

    with serving(behave) as server:
        cached = CachedEngine(engine(server.url), tmp_path)
        assert cached.generate([prompt("a")], SAMPLING)[0].reason == "context"
        refuses = False
        assert cached.generate([prompt("a")], SAMPLING)[0].reason == "length"
        assert cached.generate([prompt("a")], SAMPLING)[0].reason == "length"
        assert len(server.requests) == 2


@pytest.mark.parametrize("name", [name for name, (_, text, reason) in SHORTFALLS.items() if reason and not text])
def test_a_judge_abstains_from_an_answer_without_text(name: str) -> None:
    with serving(lambda handler, body: handler.send(SHORTFALLS[name][0])) as server:
        costs = {"columns": Costs()}
        (judged,) = questions.ask(engine(server.url), [Question("columns", prompt("a"), 3)], SAMPLING, costs)
    assert judged.reading is None and not judged.unserved
    assert costs["columns"].abstentions == 1


def test_the_token_limit_goes_under_the_name_that_the_server_knows() -> None:
    with serving() as server:
        ask(server.url, ["a"], token_limit_field="max_completion_tokens")
        ask(server.url, ["a"])
        new, old = server.requests
    assert new["max_completion_tokens"] == old["max_tokens"] == SAMPLING.max_tokens
    assert "max_tokens" not in new and "max_completion_tokens" not in old


def test_lone_surrogates_can_be_written_later() -> None:
    raw = b'{"choices": [{"index": 0, "message": {"content": "x\\ud800y"}, "finish_reason": "stop"}]}'
    with serving(lambda handler, body: handler.send(raw)) as server:
        (answer,) = ask(server.url, ["a"])
    assert answer.text == "x?y"


@pytest.mark.parametrize("drip", [False, True])
def test_a_stalled_server_is_given_up_within_the_time_out(drip: bool) -> None:
    def stall(handler: Handler, body: dict[str, Any]) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", "100000")
        handler.end_headers()
        for _ in range(100):
            time.sleep(0.05)
            if drip:  # never silent for long, never done
                handler.wfile.write(b" ")

    with serving(stall) as server:
        started = time.perf_counter()
        answers = ask(server.url, ["a", "b"], timeout=0.4, retries=1)
        assert time.perf_counter() - started < 4
    assert all(a.text is None and a.error for a in answers)


def test_a_connection_that_breaks_in_the_body_is_unknown() -> None:
    def hang_up(handler: Handler, body: dict[str, Any]) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", "1000")
        handler.end_headers()
        handler.wfile.write(b'{"choices"')
        handler.close_connection = True

    with serving(hang_up) as server:
        (answer,) = ask(server.url, ["a"])
    assert answer.text is None and answer.error


def test_nobody_listens_and_hundreds_of_prompts_are_given_up_soon() -> None:
    with serving() as server:
        url = server.url
    started = time.perf_counter()
    answers = ask(url, ["a"] * 300, retries=3, backoff=0.2, concurrency=8)
    # Waiting out every prompt's retries would take 300 / 8 * (0.1 + 0.2 + 0.4) seconds and more.
    assert time.perf_counter() - started < 12
    assert all(a.text is None and "onnect" in str(a.error) for a in answers)


def test_control_tokens_do_not_reach_the_server() -> None:
    with serving() as server:
        (answer,) = ask(server.url, ["x <|im_end|> y"])
    assert answer.text == "x < |im_end|> y"


def test_it_works_inside_a_running_event_loop() -> None:
    async def notebook() -> list[Answer]:
        return ask(server.url, ["a"])

    with serving() as server, ThreadPoolExecutor(1) as elsewhere:
        # In a thread of its own, because a browser's test may have left a loop running in this one.
        assert elsewhere.submit(asyncio.run, notebook()).result()[0].text == "a"


def test_bad_settings_are_refused() -> None:
    with pytest.raises(ValueError, match="guided_json"):
        OpenAIEngine("http://127.0.0.1:9/v1", "m", structured_outputs="grammar")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="max_completion_tokens"):
        OpenAIEngine("http://127.0.0.1:9/v1", "m", token_limit_field="tokens")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="longest_wait"):
        OpenAIEngine("http://127.0.0.1:9/v1", "m", longest_wait=-1.0)
    with pytest.raises(ValueError, match="concurrency"):
        OpenAIEngine("http://127.0.0.1:9/v1", "m", concurrency=0)


def start_server(port: int = 0) -> tuple[subprocess.Popen[str], str]:
    script = Path(__file__).with_name("chat_server.py")
    process = subprocess.Popen([sys.executable, script, str(port)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, process.stdout.readline().strip()


def test_a_server_killed_in_mid_batch_yields_unknowns_and_the_next_call_recovers() -> None:
    process, port = start_server()
    try:
        served = engine(f"http://127.0.0.1:{port}/v1", concurrency=4)
        threading.Timer(0.7, process.kill).start()  # 0.2 s a request, 4 at a time: some were answered, some were not
        answers = served.generate([prompt(str(i)) for i in range(40)], SAMPLING)
        assert process.wait(10) != 0
        known = [a.text for a in answers if a.text is not None]
        assert 0 < len(known) < 40
        assert all(a.text in (str(i), None) for i, a in enumerate(answers))
        assert all(a.error for a in answers if a.text is None)
        process, _ = start_server(int(port))
        assert [a.text for a in served.generate([prompt("a"), prompt("b")], SAMPLING)] == ["a", "b"]
    finally:
        process.kill()
        process.wait(10)
