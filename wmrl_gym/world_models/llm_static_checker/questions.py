"""Putting questions to an engine in one batch, and once more where an answer made no sense."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from wmrl_gym.core import WorldModelError
from wmrl_gym.engines.engine import Answer, Engine, Prompt, Sampling
from wmrl_gym.world_models.llm_static_checker.costs import Costs
from wmrl_gym.world_models.llm_static_checker.understood_answer import Reading, read_answer

_RETRY_SEED = 1_000_003
_RETRY_TEMPERATURE = 0.5


@dataclasses.dataclass(frozen=True)
class Question:
    """One question about one submission."""

    name: str
    prompt: Prompt
    lines: int
    """Number of lines of the script."""


@dataclasses.dataclass(frozen=True)
class Reply:
    """What came of it."""

    reading: Reading | None
    answers: tuple[Answer, ...]
    """The answer, and the second one if there was a retry."""

    @property
    def unserved(self) -> bool:
        """Whether the engine, and not the model, is the reason that there is no reading."""
        return self.reading is None and self.answers[-1].text is None


def ask(engine: Engine, questions: Sequence[Question], sampling: Sampling, costs: Mapping[str, Costs]) -> list[Reply]:
    """One reply per question, in order.

    What an engine raises is passed on: it answers ``text=None`` while it cannot be reached, so raising means that it
    is set up wrongly, and trying again would only hide that.

    Args:
        engine: who answers.
        questions: all of them, those with equal beginnings side by side.
        sampling: how answers are drawn.
        costs: by question name; what is spent is added.

    Raises:
        WorldModelError: if the engine does not give one answer per prompt.
    """
    answers = _generate(engine, [question.prompt for question in questions], sampling)
    replies = [_reply(question, (answer,), costs) for question, answer in zip(questions, answers, strict=True)]
    again = [i for i, reply in enumerate(replies) if reply.reading is None and not reply.unserved]
    if again:
        second = _generate(engine, [questions[i].prompt for i in again], _other(sampling))
        for i, answer in zip(again, second, strict=True):
            costs[questions[i].name].retries += 1
            replies[i] = _reply(questions[i], (*replies[i].answers, answer), costs)
    for question, reply in zip(questions, replies, strict=True):
        cost = costs[question.name]
        cost.abstentions += reply.reading is None
        cost.repaired += reply.reading is not None and reply.reading.repaired
    return replies


def _other(sampling: Sampling) -> Sampling:
    """Settings under which the answer may come out differently: a greedy one would repeat itself."""
    temperature = sampling.temperature if sampling.temperature > 0 else _RETRY_TEMPERATURE
    return dataclasses.replace(sampling, seed=sampling.seed + _RETRY_SEED, temperature=temperature)


def _reply(question: Question, answers: tuple[Answer, ...], costs: Mapping[str, Costs]) -> Reply:
    newest = answers[-1]
    costs[question.name].count(newest)
    reading = None
    if newest.text is not None:
        reading = read_answer(question.name, newest.text, question.lines, finished=newest.finished)
    return Reply(reading, answers)


def _generate(engine: Engine, prompts: Sequence[Prompt], sampling: Sampling) -> list[Answer]:
    answers = list(engine.generate(prompts, sampling) or ())
    if len(answers) != len(prompts) or not all(isinstance(answer, Answer) for answer in answers):
        types = ", ".join(sorted({type(answer).__name__ for answer in answers})) or "nothing"
        raise WorldModelError(
            f"engine {type(engine).__name__} gave {len(answers)} answers ({types}) to {len(prompts)} prompts\n"
            "  It must return one Answer for each prompt, in order; text=None where there is none."
        )
    return answers
