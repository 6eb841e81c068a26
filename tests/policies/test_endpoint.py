"""A chat endpoint as an agent, against a real HTTP server on the loopback interface."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.engines.chat_server import ChatServer, Handler, completion, echo, serving, slow_echo
from wmrl_gym.algorithms.evaluation import Evaluation, EvaluationSettings, evaluate
from wmrl_gym.cli.main import main
from wmrl_gym.configs.compose import compose_config
from wmrl_gym.configs.schema import EvaluateConfig
from wmrl_gym.configs.validation import build, to_dataclass
from wmrl_gym.core import Decision, Outcome, Submission
from wmrl_gym.envs.mle_dojo.catalogue import prepare
from wmrl_gym.envs.mle_dojo.env import MLEDojoEnv
from wmrl_gym.policies.acting import IncompleteDecision, NotTrainable, UnansweredDecision
from wmrl_gym.policies.endpoint import NO_TEXT, EndpointError, EndpointPolicy

pytest.importorskip("openai")

SCRIPT = """Here it is.
```python
import pandas as pd
sample = pd.read_csv(f"{DATA_DIR}/sample_submission.csv")
sample.to_csv(SUBMISSION_PATH, index=False)
```
"""


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with serving() as running:
        yield running


def policy(server: ChatServer, **settings: Any) -> EndpointPolicy:
    return EndpointPolicy(server.url, "m", **{"retries": 1, **settings})


def act(agent: EndpointPolicy, observations: list[str], **given: Any) -> list[Any]:
    count = len(observations)
    streams = {"histories": [[]] * count, "seeds": [(0, index) for index in range(count)]}
    return agent.act(observations, **{**streams, **given})


def test_an_episode_is_one_conversation(server: ChatServer) -> None:
    agent = policy(server, system_prompt="Compete.", max_new_tokens=77)
    [first] = act(agent, ["overview"])
    [second] = act(agent, ["feedback"], histories=[[first]], temperature=0.25)
    assert (first.action, second.action) == ("overview", "feedback")
    request = server.requests[-1]
    assert [(m["role"], m["content"]) for m in request["messages"]] == [
        ("system", "Compete."),
        ("user", "overview"),
        ("assistant", "overview"),
        ("user", "feedback"),
    ]
    assert (request["temperature"], request["max_tokens"], request["presence_penalty"]) == (0.25, 77, 0.0)
    assert "top_k" not in request and "chat_template_kwargs" not in request


def test_episodes_that_saw_the_same_are_sampled_apart_and_repeatably(server: ChatServer) -> None:
    agent = policy(server)
    for _ in range(2):
        act(agent, ["same"] * 4)
    seeds = [request["seed"] for request in server.requests]
    assert len(set(seeds)) == 4 and sorted(seeds[:4]) == sorted(seeds[4:])


def test_what_may_pass_is_tried_again_and_requests_at_a_time_are_bounded() -> None:
    seen: list[str] = []

    def stumble_once(handler: Handler, body: dict[str, Any]) -> None:
        text = body["messages"][-1]["content"]
        if text not in seen:
            seen.append(text)
            handler.send({"error": "busy"}, 503, {"Retry-After": "0"})
        else:
            slow_echo(handler, body)

    with serving(stumble_once) as server:
        decisions = act(policy(server, concurrency=2), [str(index) for index in range(6)])
        assert [decision.action for decision in decisions] == [str(index) for index in range(6)]
        assert server.most_running == 2


def test_an_answer_cut_at_its_limit_is_not_finished() -> None:
    choice = {"index": 0, "message": {"role": "assistant", "content": "half"}, "finish_reason": "length"}
    with serving(lambda handler, body: handler.send(completion("", choices=[choice]))) as server:
        [decision] = act(policy(server), ["x"])
    assert decision.action == "half" and not decision.finished


class OneScriptEnv(MLEDojoEnv):
    def __init__(self, root: Path) -> None:
        super().__init__("titanic_survival", root, max_turns=2, runner=lambda submission: _graded(submission))


def _graded(submission: Submission) -> Outcome:
    return Outcome(0.75, "valid", "fine", details={"percentile": 0.5})


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("competitions")
    prepare("titanic_survival", folder)
    return folder


def test_an_episode_without_an_answer_is_left_out_and_not_asked_for_again(root: Path) -> None:
    """The second episode's first request fails for good; the others are measured as if it had not been there."""
    refused: list[int] = []

    def refuse_one_seed(handler: Handler, body: dict[str, Any]) -> None:
        if not refused or body["seed"] in refused:
            refused.append(body["seed"])
            handler.send({"error": "no such field"}, 400)
        else:
            handler.send(completion(SCRIPT))

    with serving(refuse_one_seed) as server:
        agent = policy(server, concurrency=1)
        assert agent.concurrency == 1
        result = evaluate(agent, [lambda: OneScriptEnv(root)] * 4, ["titanic_survival"], EvaluationSettings(4))
        assert len(server.requests) == 1 + 3 * 2
    assert result.unknown == 1 and result.scores() == {"titanic_survival": [0.5] * 3}


SPENT = {"index": 0, "message": {"role": "assistant", "content": None}, "finish_reason": "length"}


def test_an_episode_whose_answers_hold_no_text_is_measured_as_one_without_code(root: Path) -> None:
    """One episode's model spends all tokens on thoughts, then its conversation outgrows the context: it scores 0."""
    spent: list[int] = []

    def behave(handler: Handler, body: dict[str, Any]) -> None:
        turns = len(body["messages"])
        if not spent:
            spent.append(body["seed"])
            handler.send(completion("", choices=[SPENT]))
        elif turns > 1 and body["messages"][1]["content"] == NO_TEXT:
            handler.send({"error": {"message": "too long", "code": "context_length_exceeded"}}, 400)
        else:
            handler.send(completion(SCRIPT))

    with serving(behave) as server:
        agent = policy(server, concurrency=1, retries=4, max_consecutive_failures=1)
        result = evaluate(agent, [lambda: OneScriptEnv(root)] * 2, ["titanic_survival"], EvaluationSettings(2))
        assert len(server.requests) == 4
    assert result.unknown == 0 and result.scores() == {"titanic_survival": [0.0, 0.5]}
    assert result.records[0].statuses == ("no_code", "no_code")
    assert result.records[0].shortfalls == ("length", "context") and not result.records[1].shortfalls
    assert Evaluation.from_dict(json.loads(json.dumps(result.to_dict()))) == result


def test_a_decision_says_why_it_holds_no_text(server: ChatServer) -> None:
    server.behaviour = lambda handler, body: handler.send(completion("", choices=[SPENT]))
    [decision] = act(policy(server), ["x"])
    assert isinstance(decision, IncompleteDecision)
    assert (decision.action, decision.reason, decision.finished) == ("", "length", False)
    server.behaviour = echo
    [later] = act(policy(server), ["y"], histories=[[decision]])
    assert type(later) is Decision
    assert server.requests[-1]["messages"][1] == {"role": "assistant", "content": NO_TEXT}


def test_conversations_that_never_fit_end_the_evaluation_with_advice(server: ChatServer) -> None:
    """As many as that, before anything was answered, tell of a limit set too high and not of the agent."""

    def full(handler: Handler, body: dict[str, Any]) -> None:
        handler.send({"error": "context too long"}, 400)

    server.behaviour = full
    agent = policy(server, max_consecutive_failures=3)
    assert [type(decision) for decision in act(agent, ["a", "b"])] == [IncompleteDecision] * 2
    with pytest.raises(EndpointError, match=r"policy\.max_new_tokens"):
        act(agent, ["c"])
    server.behaviour = echo
    agent = policy(server, max_consecutive_failures=3)
    act(agent, ["a"])
    server.behaviour = full
    assert all(decision.reason == "context" for decision in act(agent, ["b"] * 5))


def test_an_endpoint_is_configured_for_reasoning_models(server: ChatServer) -> None:
    overrides = ["policy=endpoint", f"policy.base_url={server.url}", "policy.model=m"]
    overrides += ["policy.token_limit_field=max_completion_tokens", "policy.longest_wait=7"]
    agent = build(to_dataclass(EvaluateConfig, compose_config("evaluate", overrides)).policy)
    act(agent, ["x"])
    assert server.requests[-1]["max_completion_tokens"] == 4096 and "max_tokens" not in server.requests[-1]
    assert agent.engine.longest_wait == 7


def test_a_dead_server_ends_the_evaluation_with_its_reason() -> None:
    with serving() as server:
        url = server.url
    agent = EndpointPolicy(url, "m", retries=0, max_consecutive_failures=3)
    decisions = act(agent, ["a", "b"])
    assert all(isinstance(decision, UnansweredDecision) and url in decision.reason for decision in decisions)
    with pytest.raises(EndpointError, match="3 requests in a row"):
        act(agent, ["c"])


def test_failures_in_a_row_are_forgotten_at_an_answer() -> None:
    def refuse_a(handler: Handler, body: dict[str, Any]) -> None:
        handler.send({"error": "no"}, 400) if body["messages"][-1]["content"] == "a" else echo(handler, body)

    with serving(refuse_a) as server:
        agent = policy(server, max_consecutive_failures=2)
        for _ in range(3):
            act(agent, ["a"])
            act(agent, ["b"])


def test_it_cannot_be_trained(server: ChatServer) -> None:
    agent = policy(server)
    for attempt in (agent.parameters, agent.state_dict, lambda: agent.log_probs(act(agent, ["x"]))):
        with pytest.raises(NotTrainable, match="policy=causal_lm"):
            attempt()


@pytest.mark.parametrize("command", ["train", "sft"])
def test_commands_that_train_refuse_it_before_anything_is_made(
    command: str, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("WMRL_DATA_ROOT", str(root))
    monkeypatch.chdir(tmp_path)
    overrides = ["policy=endpoint", "policy.base_url=http://127.0.0.1:1/v1", "policy.model=m"]
    if command == "train":
        overrides += ["tasks.train=[titanic_survival]", "tasks.held_out=[titanic_survival]"]
    assert main([command, *overrides]) == 2
    assert "cannot be trained" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_evaluate_command_measures_an_endpoint(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The sample submission is handed in for real: valid, and no better than a constant."""
    monkeypatch.setenv("WMRL_DATA_ROOT", str(root))
    with serving(lambda handler, body: handler.send(completion(SCRIPT))) as server:
        overrides = ["policy=endpoint", f"policy.base_url={server.url}", "policy.model=served", "env=mle_dojo"]
        overrides += ["tasks.train=[titanic_survival]", "tasks.held_out=[titanic_survival]", "env.max_turns=2"]
        overrides += ["evaluation.samples=2", "threads=1", f"output={tmp_path / 'out'}", "env.sandbox_start=warm"]
        assert main(["evaluate", *overrides]) == 0
        assert len(server.requests) == 4
    printed = capsys.readouterr().out
    assert "EndpointPolicy served" in printed and "titanic_survival" in printed
    assert (tmp_path / "out" / "evaluation.tex").is_file()
