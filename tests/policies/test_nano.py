"""The agent that ships: small, offline, writes parsable scripts, and copies the names that its prompt gives it."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import numpy as np
import pytest

from wmrl_gym.core import Decision
from wmrl_gym.corpus.generator.conversations import draw_conversation
from wmrl_gym.corpus.generator.facts import TaskFacts
from wmrl_gym.corpus.generator.naming import rename
from wmrl_gym.envs.mle_dojo.actions import parse_action
from wmrl_gym.policies.causal_lm import CausalLMPolicy
from wmrl_gym.policies.nano import NANO_DIRECTORY, load_nano_agent

TASKS = (
    TaskFacts("tabular", "rmse", "patient_id", "progression", 300, 140, ("age", "bmi"), ("sex",), missing=True),
    TaskFacts("text", "auc", "name_id", "is_female", 1000, 500, text_column="name"),
    TaskFacts("image", "accuracy", "image_id", "digit", 1000, 500, image_size=(8, 8)),
)


@pytest.fixture(scope="module")
def agent() -> CausalLMPolicy:
    return load_nano_agent()


@pytest.fixture(scope="module")
def renamed() -> list[TaskFacts]:
    """Competitions under names that were invented here and now, so that none can be known by heart."""
    rng = np.random.default_rng(2718)
    return [rename(TASKS[i % 3], rng) for i in range(24)]


@pytest.fixture(scope="module")
def scripts(agent: CausalLMPolicy, renamed: list[TaskFacts]) -> list[Decision]:
    """One sample for each renamed competition, twice."""
    observations = [facts.render() for facts in renamed] * 2
    count = len(observations)
    return agent.act(observations, histories=[()] * count, seeds=[(5, i) for i in range(count)])


def test_checkpoint_is_small_and_has_two_to_five_million_parameters(agent: CausalLMPolicy) -> None:
    assert sum(path.stat().st_size for path in NANO_DIRECTORY.iterdir()) <= 10_000_000
    assert 2e6 <= sum(parameter.numel() for parameter in agent.parameters()) <= 5e6


def test_most_answers_are_scripts_that_parse(scripts: list[Decision]) -> None:
    parsed = 0
    for decision in scripts:
        action = parse_action(decision.action)
        try:
            ast.parse(action.code)
        except SyntaxError:
            continue
        parsed += decision.finished and action.kind == "execute"
    assert parsed >= 0.7 * len(scripts)


def test_target_id_and_text_column_are_copied_from_the_prompt(
    renamed: list[TaskFacts], scripts: list[Decision]
) -> None:
    copied, uses = 0, 0
    for facts, decision in zip([*renamed, *renamed], scripts, strict=True):
        target = re.search(r'^y\w* = \w+\["(.*?)"\]|^labels = \w+\["(.*?)"\]', decision.action, re.MULTILINE)
        used = [(target and (target[1] or target[2]), facts.target)]
        identifier = re.search(r'DataFrame\(\{"(.*?)": ', decision.action)
        used += [(identifier[1], facts.id_column)] if identifier else []
        text = re.search(r'vec\.fit_transform\(\w+\[+"(.*?)"\]', decision.action)
        used += [(text[1], facts.text_column)] if text else []
        copied += sum(found == expected for found, expected in used)
        uses += len(used)
    assert copied >= 0.75 * uses


def test_it_reads_the_metric_and_the_modality(renamed: list[TaskFacts], scripts: list[Decision]) -> None:
    right = 0
    for facts, decision in zip([*renamed, *renamed], scripts, strict=True):
        marks = {"text": "vec.fit_transform", "image": "Image.open", "tabular": "drop(columns"}
        fits = marks[facts.modality] in decision.action or "cols = [" in decision.action
        wrong = "Classifier(" if facts.regression else "Regressor("
        right += fits and wrong not in decision.action
    assert right >= 0.85 * len(scripts)


def test_a_reported_mistake_is_often_mended_and_never_by_forgetting_the_task(agent: CausalLMPolicy) -> None:
    rng = np.random.default_rng(11)
    told: list[tuple[str, Decision, str]] = []
    while len(told) < 24:
        first, second = draw_conversation(TASKS, rng, turns=2)
        complaint = re.match(r"error NameError: name '(\w+)' is not defined", second.observation)
        if complaint is None or not complaint[1].endswith(("Regressor", "Classifier", "SVC", "SVR", "NB")):
            continue
        prompt = agent.prompt_ids(first.observation, ())
        ids = np.asarray([*agent.tokenizer(first.response)["input_ids"], agent.tokenizer.eos_token_id], np.int64)
        decision = Decision(first.observation, first.response, prompt, ids, np.zeros(len(ids), np.float32))
        told.append((second.observation, decision, complaint[1]))
    answers = agent.act(
        [observation for observation, _, _ in told],
        histories=[(decision,) for _, decision, _ in told],
        seeds=[(6, i) for i in range(len(told))],
    )
    mended = [
        name not in answer.action or re.search(rf"import .*\b{name}\b", answer.action) is not None
        for answer, (_, _, name) in zip(answers, told, strict=True)
    ]
    assert np.mean(mended) >= 0.4
    targets = [re.search(r"target (\S+)", decision.observation) for _, decision, _ in told]
    kept = [match is not None and match[1] in answer.action for match, answer in zip(targets, answers, strict=True)]
    assert np.mean(kept) >= 0.75


def test_missing_checkpoint_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"train_nano_agent"):
        load_nano_agent(tmp_path)
