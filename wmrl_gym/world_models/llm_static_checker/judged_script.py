"""One submission on its way through the checker."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from wmrl_gym.core import Outcome, Submission
from wmrl_gym.engines.engine import Answer, Prompt
from wmrl_gym.envs.mle_dojo.runner import syntax_problem
from wmrl_gym.scriptcheck.overview import Overview
from wmrl_gym.world_models.llm_static_checker.injection import suspicious_strings
from wmrl_gym.world_models.llm_static_checker.listing import source_lines
from wmrl_gym.world_models.llm_static_checker.questions import Reply
from wmrl_gym.world_models.llm_static_checker.understood_answer import Reading
from wmrl_gym.world_models.llm_static_checker.voting import vote

_SHOWN_STRINGS = 5


@dataclasses.dataclass
class Case:
    """A submission, what is asked about it, and what is answered."""

    submission: Submission
    overview: Overview
    script: str
    lines: list[str]
    has_code: bool
    problem: str | None
    """Why it does not compile."""
    suspicious: list[str]
    """Strings that seem meant for the checker."""
    prompts: list[Prompt] = dataclasses.field(default_factory=list)
    decided: Outcome | None = None
    """The outcome, where no language model is needed."""
    samples: list[dict[str, Reply]] = dataclasses.field(default_factory=list)
    """Per sample: question -> reply."""

    @classmethod
    def open(cls, submission: Submission) -> Case:
        """Read a submission.

        Raises:
            TypeError: if its context holds no overview.
        """
        overview = submission.context.get("overview")
        if not isinstance(overview, Overview):
            raise TypeError("the LLM static checker needs submission.context['overview'], an Overview")
        script = str(submission.content)
        has_code = bool(script.strip())
        return cls(
            submission,
            overview,
            script,
            source_lines(script.rstrip()),
            has_code,
            syntax_problem(script) if has_code else None,
            suspicious_strings(script),
        )

    @property
    def compiles(self) -> bool:
        """Whether there is anything to ask about."""
        return self.has_code and self.problem is None

    @property
    def answers(self) -> list[Answer]:
        """Every answer, retries included."""
        return [answer for sample in self.samples for reply in sample.values() for answer in reply.answers]

    def voted(self) -> dict[str, Reading | None]:
        """Question -> what the samples agree on."""
        return {name: vote([sample[name].reading for sample in self.samples]) for name in self._names()}

    def unserved(self) -> list[str]:
        """Questions that have no answer because the engine gave none."""
        return [
            name
            for name in self._names()
            if all(sample[name].reading is None for sample in self.samples)
            and any(sample[name].unserved for sample in self.samples)
        ]

    def _names(self) -> list[str]:
        return list(self.samples[0]) if self.samples else []

    def record(self) -> Mapping[str, Any]:
        """What is worth keeping about how the case was heard."""
        answers = self.answers
        return {
            "tokens": {
                "prompt": _sum([answer.prompt_tokens for answer in answers]),
                "cached": _sum([answer.cached_tokens for answer in answers]),
                "generated": _sum([answer.generated_tokens for answer in answers]),
            },
            "answers_from_cache": sum(answer.from_cache for answer in answers),
            "retries": sum(len(reply.answers) - 1 for sample in self.samples for reply in sample.values()),
            "suspicious": len(self.suspicious),
            "suspicious_strings": self.suspicious[:_SHOWN_STRINGS],
            "error": next((answer.error for answer in answers if answer.text is None), None),
        }


def _sum(counts: list[int | None]) -> int | None:
    """Their sum; None if there are none, or one of them is not known."""
    known = [count for count in counts if count is not None]
    return sum(known) if known and len(known) == len(counts) else None
