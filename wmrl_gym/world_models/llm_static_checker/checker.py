"""The paper's world model: a frozen language model, prompted, in place of running the script."""

from __future__ import annotations

import dataclasses
import statistics
import time
from collections.abc import Mapping, Sequence
from typing import Any

from wmrl_gym.core import Outcome, Submission, WorldModel, WorldModelError
from wmrl_gym.engines.engine import Answer, Engine, Sampling
from wmrl_gym.envs.mle_dojo.feedback import render_feedback
from wmrl_gym.envs.mle_dojo.ladder import Status
from wmrl_gym.scriptcheck.verdicts import Verdict
from wmrl_gym.world_models.llm_static_checker.costs import Costs, since, total
from wmrl_gym.world_models.llm_static_checker.judged_script import Case
from wmrl_gym.world_models.llm_static_checker.judging import FailureRates, Judge, Judgement, verdicts_of
from wmrl_gym.world_models.llm_static_checker.prompting import PROMPT_VERSION, Prompter
from wmrl_gym.world_models.llm_static_checker.questions import Question, Reply, ask
from wmrl_gym.world_models.llm_static_checker.sandbox_words import feedback_text
from wmrl_gym.world_models.llm_static_checker.schemas import Mode
from wmrl_gym.world_models.llm_static_checker.settings import AskingSettings, JudgedEnvironment, JudgingSettings

_FAILING = (Status.RUNTIME_ERROR, Status.TIMEOUT, Status.OUT_OF_MEMORY, Status.INVALID_SUBMISSION)


class LLMStaticChecker:
    """Predicts what executing a script would give by asking a language model, all questions of a batch at once.

    Code that does not compile is scored without asking. Every other script is put to the model as eight questions, one
    per check ("decomposed", as in the paper), or as one question for the likeliest outcome ("holistic"). The answers
    become verdicts and the verdicts a score by `wmrl_gym.world_models.verdicts.aggregate`.

    A check whose answer cannot be understood is asked once more, and then abstains: it is counted, it is named in
    ``details["abstentions"]``, and ``judging.default_to`` says what it counts as. A script without an opinion on its
    quality, which nothing fails, has an unknown score whatever that says: there is no neutral quality. So has a script
    none of whose questions was answered, for example because the engine is down; the next call tries again, and only
    after ``asking.max_dead_batches`` calls in a row without a single answer it gives up.

    Implements `wmrl_gym.core.WorldModel`. Submissions need ``context["overview"]``.

    Args:
        engine: serves the language model.
        mode: "decomposed" or "holistic".
        asking: how the model is asked; None is as it is by default.
        judging: what becomes of the answers; None is as it is by default.
        environment: what is known of the environment that is foretold; None is as the sandbox is by default.
        sampling: how answers are drawn; None is the paper's way.
        first: a world model that is heard first, `StaticAnalysis` for example. Where it fails a script with
            ``details["confidence"]`` of at least ``judging.first_threshold``, its outcome stands and nothing is asked.

    Raises:
        ValueError: for another mode.
    """

    def __init__(
        self,
        engine: Engine,
        mode: Mode = "decomposed",
        *,
        asking: AskingSettings | None = None,
        judging: JudgingSettings | None = None,
        environment: JudgedEnvironment | None = None,
        sampling: Sampling | None = None,
        first: WorldModel | None = None,
    ) -> None:
        if mode not in ("decomposed", "holistic"):
            raise ValueError(f"mode is {mode!r}: choose 'decomposed' or 'holistic'")
        self.engine, self.mode, self.first = engine, mode, first
        self.asking = asking or AskingSettings()
        self.environment = environment or JudgedEnvironment()
        self.sampling = sampling or Sampling()
        self.judge = Judge(self.environment.ladder, judging or JudgingSettings())
        self.prompter = Prompter(mode, self.asking, self.environment)
        self.rates = FailureRates()
        self.failures = 0
        """Submissions so far that could not be read at all; their outcome is unknown."""
        self.suspicious = 0
        """Strings so far that looked meant for the checker."""
        self._counts = {"submissions": 0, "asked": 0, "decided_first": 0, "unknown": 0}
        self._costs = {name: Costs() for name in self.prompter.questions}
        self._reported: dict[str, float | None] = {}
        self._dead_batches = 0

    def predict(self, submissions: Sequence[Submission]) -> list[Outcome]:
        """One outcome per submission, in order. An item that cannot be judged has the score None.

        Raises:
            WorldModelError: if the engine breaks its contract, or has answered nothing for too long: a run must not go
                on for hours on unknown scores. Whatever else the engine raises is passed on.
        """
        started = time.perf_counter()
        opened = [self._open(submission) for submission in submissions]
        cases = [case for case in opened if isinstance(case, Case)]
        self._hear_first([case for case in cases if case.compiles])
        self._ask([case for case in cases if case.compiles and case.decided is None])
        model = self._model_name()
        outcomes = [self._close(case, model) if isinstance(case, Case) else case for case in opened]
        self._counts["submissions"] += len(outcomes)
        self._counts["unknown"] += sum(outcome.score is None for outcome in outcomes)
        seconds = (time.perf_counter() - started) / max(1, len(outcomes))
        return [dataclasses.replace(outcome, seconds=seconds) for outcome in outcomes]

    def costs(self) -> dict[str, Any]:
        """What has been spent so far, as plain numbers: totals, and the same by question under "questions".

        Tokens are None as long as the engine has not told any.
        """
        return {
            **self._counts,
            "failures": self.failures,
            "suspicious": self.suspicious,
            **dataclasses.asdict(total(list(self._costs.values()))),
            "questions": {name: dataclasses.asdict(costs) for name, costs in self._costs.items()},
        }

    def metrics(self) -> dict[str, float | None]:
        """What has been spent since the last call of this method, flat, for a trainer to log after each step."""
        costs = self.costs()
        by_question = costs.pop("questions")
        flat = costs | {f"abstentions/{name}": of["abstentions"] for name, of in by_question.items()}
        difference = since(flat, self._reported)
        self._reported = flat
        return difference

    def state_dict(self) -> dict[str, Any]:
        """What earlier batches left behind that later predictions depend on: the failure rates of "calibrated"."""
        return {"rates": {name: list(count) for name, count in self.rates.counts.items()}}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` gave."""
        self.rates.counts = {name: list(count) for name, count in state["rates"].items()}

    def _open(self, submission: Submission) -> Case | Outcome:
        """The case, or an unknown outcome if there is no reading the submission."""
        try:
            case = Case.open(submission)
            if case.compiles:
                case.prompts = self.prompter.prompts(case.script, case.overview)
        except Exception as error:  # one bad submission must not cost the batch
            self.failures += 1
            return self._unreadable(error)
        self.suspicious += len(case.suspicious)
        return case

    def _hear_first(self, cases: Sequence[Case]) -> None:
        if self.first is None or not cases:
            return
        try:
            outcomes = self.first.predict([case.submission for case in cases])
        except Exception:  # without the short cut, everything is asked
            return
        for case, outcome in zip(cases, outcomes, strict=False):
            confidence = outcome.details.get("confidence")
            certain = isinstance(confidence, int | float) and confidence >= self.judge.settings.first_threshold
            if certain and outcome.score is not None and outcome.status in _FAILING:
                case.decided = outcome
                self._counts["decided_first"] += 1

    def _ask(self, cases: Sequence[Case]) -> None:
        """Put all questions about all cases to the engine, and keep the replies with the cases."""
        # Cases of one competition side by side: their prompts begin alike.
        cases = sorted(cases, key=lambda case: case.submission.task_id)
        self._counts["asked"] += len(cases)
        names = list(self.prompter.questions)
        questions = [
            Question(name, prompt, len(case.lines))
            for case in cases
            for name, prompt in zip(names, case.prompts, strict=True)
        ]
        for sample in range(self.asking.samples if questions else 0):
            # Equal prompts with equal seeds get equal answers, so each sample is a batch with a seed of its own.
            sampling = dataclasses.replace(self.sampling, seed=self.sampling.seed + sample)
            replies = iter(ask(self.engine, questions, sampling, self._costs))
            for case in cases:
                case.samples.append({name: next(replies) for name in names})
        self._watch([answer for case in cases for answer in case.answers])
        for case in cases:
            self.rates.observe(self.judge.gated(verdicts_of(case.voted())[0]))

    def _watch(self, answers: Sequence[Answer]) -> None:
        """Count calls without any answer, and give up after too many."""
        if not answers:
            return
        self._dead_batches = self._dead_batches + 1 if all(answer.text is None for answer in answers) else 0
        if self._dead_batches >= self.asking.max_dead_batches:
            raise WorldModelError(
                f"the engine answered nothing in {self._dead_batches} batches in a row: {answers[-1].error}\n"
                "  Bring it up again and resume the run, or allow more with asking.max_dead_batches."
            )

    def _close(self, case: Case, model: str | None) -> Outcome:
        record = {
            "prompt_hash": self.prompter.hash,
            "prompt_version": PROMPT_VERSION,
            "mode": self.mode,
            "model": model,
            **case.record(),
        }
        if not case.compiles:
            return self._gate_outcome(case, record)
        if case.decided is not None:
            details = {**case.decided.details, "abstentions": [], "uncertainty": None, **record, "decided_by": "first"}
            return dataclasses.replace(case.decided, details=details)
        readings = case.voted()
        verdicts, bucket = verdicts_of(readings)
        gated = self.judge.gated(verdicts)
        judgement = self.judge.judge(gated, bucket, self.rates, unserved=len(case.unserved()))
        opinions = [
            verdict.as_dict() | {"gated": verdict.passed is False and after.passed is True}
            for verdict, after in zip(verdicts, gated, strict=True)
        ]
        second_status = next((r.second_status for r in readings.values() if r is not None), None)
        details = {
            "verdicts": opinions,
            **_decision(judgement),
            "bucket": bucket,
            "second_status": second_status,
            "abstentions": [name for name, reading in readings.items() if reading is None],
            "uncertainty": self._uncertainty(case.samples),
            **record,
            "decided_by": "model",
        }
        return self._outcome(judgement, case, details)

    def _gate_outcome(self, case: Case, record: Mapping[str, Any]) -> Outcome:
        """No code, or code that does not compile: certain, and free."""
        status = Status.SYNTAX_ERROR if case.has_code else Status.NO_CODE
        judgement = Judgement(status, self.judge.ladder.score(status))
        decision = _decision(judgement) | {"problem": case.problem, "confidence": 1.0}
        if case.problem is not None:
            decision["exception"] = "SyntaxError"
        details = {"verdicts": [], **decision, "abstentions": [], "uncertainty": None, **record, "decided_by": "gate"}
        return self._outcome(judgement, case, details)

    def _outcome(self, judgement: Judgement, case: Case, details: Mapping[str, Any]) -> Outcome:
        feedback = feedback_text(
            judgement,
            case.overview,
            case.lines,
            syntax_problem=case.problem,
            wall_seconds=self.environment.budget_seconds,
            max_chars=self.environment.feedback_chars,
            style=self.environment.feedback_style,
        )
        return Outcome(judgement.score, judgement.status.value, feedback, "world_model", details=details)

    def _unreadable(self, error: Exception) -> Outcome:
        shape = self.environment
        feedback = render_feedback(Status.UNKNOWN, max_chars=shape.feedback_chars, style=shape.feedback_style)
        details = {"error": f"{type(error).__name__}: {error}"}
        return Outcome(None, Status.UNKNOWN.value, feedback, "world_model", details=details)

    def _uncertainty(self, samples: Sequence[Mapping[str, Reply]]) -> float | None:
        """Standard deviation of the scores that each sample alone would give; None for fewer than two."""
        scores = []
        for sample in samples:
            verdicts, bucket = verdicts_of({name: reply.reading for name, reply in sample.items()})
            unserved = sum(reply.unserved for reply in sample.values())
            scores.append(self.judge.judge(self.judge.gated(verdicts), bucket, self.rates, unserved=unserved).score)
        known = [score for score in scores if score is not None]
        return statistics.pstdev(known) if len(known) > 1 else None

    def _model_name(self) -> str | None:
        try:
            return str(self.engine.model)
        except Exception:  # a server that is down may not even know its name
            return None


def _decision(judgement: Judgement) -> dict[str, Any]:
    decisive: Verdict | None = judgement.decisive
    return {
        "exception": None if decisive is None else decisive.exception,
        "second": None if decisive is None else decisive.second,
        "line": None if decisive is None else decisive.line,
        "confidence": None if decisive is None else decisive.confidence,
        "percentile": judgement.percentile,
        "problem": None if decisive is None else decisive.reason,
    }
