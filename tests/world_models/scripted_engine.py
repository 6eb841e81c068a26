"""An engine that answers what a test tells it to, and remembers what it was asked."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Sequence
from typing import Any

from wmrl_gym.engines.engine import Answer, Prompt, Sampling
from wmrl_gym.world_models.llm_static_checker import (
    AskingSettings,
    JudgedEnvironment,
    JudgingSettings,
    LLMStaticChecker,
)
from wmrl_gym.world_models.llm_static_checker.prompting import prompt_text
from wmrl_gym.world_models.llm_static_checker.schemas import questions

HEADINGS = {prompt_text(name).splitlines()[0]: name for mode in ("decomposed", "holistic") for name in questions(mode)}

PASS = {
    "reason": "Nothing fails.",
    "verdict": "pass",
    "confidence": 0.9,
    "exception": None,
    "second": None,
    "line": None,
    "feedback": "",
}
KEY_ERROR = {
    "reason": "The table has no column 'pricee'.",
    "verdict": "fail",
    "confidence": 0.9,
    "exception": "KeyError",
    "second": "AttributeError",
    "line": 6,
    "feedback": "KeyError: 'pricee'",
}
MID = {"reason": "A forest.", "bucket": "mid", "confidence": 0.6}
VALID = {
    "reason": "It ends.",
    "status": "valid",
    "exception": None,
    "second_status": "runtime_error",
    "second": "ValueError",
    "confidence": 0.7,
    "line": None,
    "feedback": "",
    "bucket": "fair",
}

Script = Callable[[str, Prompt, Sampling], Any]
"""(question, prompt, sampling) -> text, an `Answer`, or plain data that becomes JSON."""


def question_of(prompt: Prompt) -> str:
    """Which question a prompt asks: the last heading in it."""
    headings = [line for line in prompt.messages[-1].content.splitlines() if line in HEADINGS]
    return HEADINGS[headings[-1]]


class ScriptedEngine:
    """Answers with `answers[question]` (a value, or a function of prompt and sampling), else kindly."""

    model = "scripted"

    def __init__(self, **answers: Any) -> None:
        self.answers = answers
        self.calls: list[tuple[list[Prompt], Sampling]] = []
        self.dead = False

    @property
    def asked(self) -> list[str]:
        """Questions of all calls, in order."""
        return [question_of(prompt) for prompts, _ in self.calls for prompt in prompts]

    def generate(self, prompts: Sequence[Prompt], sampling: Sampling) -> list[Answer]:
        self.calls.append((list(prompts), sampling))
        if self.dead:
            return [Answer(None, error="connection refused") for _ in prompts]
        return [self._answer(prompt, sampling) for prompt in prompts]

    def close(self) -> None:
        pass

    def _answer(self, prompt: Prompt, sampling: Sampling) -> Answer:
        question = question_of(prompt)
        benign = {"quality": MID, "holistic": VALID}.get(question, PASS)
        value = self.answers.get(question, benign)
        if callable(value):
            value = value(prompt, sampling)
        if isinstance(value, Answer):
            return value
        text = value if isinstance(value, str | bytes) else json.dumps(value)
        return Answer(text, prompt_tokens=1000, cached_tokens=900, generated_tokens=50, seconds=0.25)  # type: ignore[arg-type]


GROUPS = {"asking": AskingSettings, "judging": JudgingSettings, "environment": JudgedEnvironment}


def checker(engine: Any, mode: Any = "decomposed", *, first: Any = None, **settings: Any) -> LLMStaticChecker:
    """A checker with the settings of whatever group, by name."""
    groups = {}
    for name, group in GROUPS.items():
        own = {field.name for field in dataclasses.fields(group)} & set(settings)
        groups[name] = group(**{key: settings.pop(key) for key in own})
    return LLMStaticChecker(engine, mode, first=first, **groups, **settings)
