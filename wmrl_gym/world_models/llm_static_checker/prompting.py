"""From a submission to the prompts about it.

All prompts about one submission agree to the letter up to the question, which comes last: an engine with a prefix
cache reads the sandbox, the overview and the script once for all eight. Prompts about one competition agree up to the
script.
"""

from __future__ import annotations

import dataclasses
import platform
from collections.abc import Mapping
from importlib import resources
from string import Template
from typing import Any

from wmrl_gym.core import fingerprint
from wmrl_gym.engines.engine import Message, Prompt
from wmrl_gym.envs.mle_dojo.feedback import clip_middle
from wmrl_gym.envs.mle_dojo.overview_text import render_overview
from wmrl_gym.scriptcheck.overview import Overview
from wmrl_gym.world_models.llm_static_checker.injection import defang
from wmrl_gym.world_models.llm_static_checker.listing import listing
from wmrl_gym.world_models.llm_static_checker.schemas import Mode, answer_schema, questions
from wmrl_gym.world_models.llm_static_checker.settings import AskingSettings, JudgedEnvironment

PROMPT_VERSION = 1
"""Raised by hand whenever a text in ``prompts/`` changes its meaning."""

_WHOLE = 1_000_000


def prompt_text(name: str) -> str:
    """One of the texts in ``prompts/``."""
    return resources.files(__package__).joinpath("prompts", f"{name}.txt").read_text(encoding="utf-8")


class Prompter:
    """Writes prompts.

    Args:
        mode: eight questions, or one.
        asking: how much of overview and code is shown.
        environment: the limits of its sandbox are told.
        versions: distribution -> version in the sandbox, None where it is not installed; by default what is installed
            here, because the sandbox runs this interpreter.
    """

    def __init__(
        self,
        mode: Mode,
        asking: AskingSettings,
        environment: JudgedEnvironment,
        versions: Mapping[str, str | None] | None = None,
    ) -> None:
        self.asking = asking
        self.system = _system_message(environment, _versions() if versions is None else versions)
        self.questions: dict[str, str] = {question: _question_text(question) for question in questions(mode)}
        self._schemas: dict[str, Mapping[str, Any]] = {question: answer_schema(question) for question in self.questions}
        self._case = Template(prompt_text("case"))
        settings = (asking.overview_chars, asking.code_chars, asking.strip_comments)
        texts = (self.system, self._case.template, self.questions, self._schemas)
        self.hash = fingerprint((PROMPT_VERSION, texts, settings))[:16]
        """Identifies all that the model is told beside the case itself: texts, schemas, packages, limits, lengths."""

    def prompts(self, script: str, overview: Overview) -> list[Prompt]:
        """One prompt per question about a script that compiles, in the order of `questions`."""
        shared = self._shared(script, overview)
        system = Message("system", self.system)
        return [
            Prompt((system, Message("user", shared + text)), self._schemas[question])
            for question, text in self.questions.items()
        ]

    def _shared(self, script: str, overview: Overview) -> str:
        code = listing(script, self.asking.code_chars, strip_comments=self.asking.strip_comments)
        return self._case.substitute(
            overview=defang(overview_text(overview, self.asking.overview_chars)),
            script=code,
            # A script cannot contain the digest of itself, so it cannot write the line that ends the listing.
            mark=fingerprint(code)[:8],
        )


def overview_text(overview: Overview, max_chars: int) -> str:
    """The overview in full, cut in the middle: of the description first, of the facts only where that is not enough."""
    text = render_overview(overview, max_chars=_WHOLE)
    surplus = len(text) - max_chars
    if surplus > 0:
        shorter = clip_middle(overview.description, max(200, len(overview.description) - surplus))
        text = render_overview(dataclasses.replace(overview, description=shorter), max_chars=_WHOLE)
    return clip_middle(text, max_chars)


def _question_text(question: str) -> str:
    template = Template(prompt_text(question))
    return template.substitute(verdict_format=prompt_text("verdict_format")).rstrip() + "\n"


def _system_message(environment: JudgedEnvironment, versions: Mapping[str, str | None]) -> str:
    installed = [f"{name} {version}" for name, version in versions.items() if version is not None]
    missing = [name for name, version in versions.items() if version is None]
    text = Template(prompt_text("system")).substitute(
        python=platform.python_version(),
        installed=", ".join(installed) or "nothing beside the standard library",
        missing=", ".join(missing) or "any other package",
        wall_seconds=f"{environment.budget_seconds:g}",
        memory_mb=f"{environment.memory_mb:g}",
    )
    return text.rstrip()


def _versions() -> dict[str, str | None]:
    from wmrl_gym.execution.environment import SCIENTIFIC_STACK, installed_versions

    installed = installed_versions()
    return {name: installed.get(name) for name in SCIENTIFIC_STACK}
