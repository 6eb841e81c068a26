"""The checker as a whole, over an engine whose answers are known."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.scriptcheck.sound_scripts import HEAD
from tests.scriptcheck.worlds import World
from tests.world_models.scripted_engine import KEY_ERROR, MID, PASS, VALID, ScriptedEngine, checker
from wmrl_gym.core import Outcome, Submission, WorldModel, WorldModelError
from wmrl_gym.engines.engine import Answer, Engine, Sampling
from wmrl_gym.scriptcheck.verdicts import Check
from wmrl_gym.world_models.llm_static_checker import AskingSettings, JudgingSettings, LLMStaticChecker
from wmrl_gym.world_models.llm_static_checker.understood_answer import Reading
from wmrl_gym.world_models.llm_static_checker.voting import vote
from wmrl_gym.world_models.static_analysis import StaticAnalysis

SOUND = HEAD + "out = test[['id']].assign(price=1.0)\nout.to_csv(SUBMISSION_PATH, index=False)\n"
NO_SENSE = "I am not sure about this one."


def _submission(worlds: dict[str, World], script: str = SOUND, world: str = "houses") -> Submission:
    return Submission(world, script, {"overview": worlds[world].overview})


def _predict(worlds: dict[str, World], engine: ScriptedEngine, script: str = SOUND, **options: Any) -> Outcome:
    return checker(engine, **options).predict([_submission(worlds, script)])[0]


def _fail(exception: str, line: int | None, confidence: float = 0.9, **more: object) -> dict[str, object]:
    return {**KEY_ERROR, "exception": exception, "line": line, "confidence": confidence, "feedback": "", **more}


def test_it_is_a_world_model_and_the_scripted_engine_an_engine() -> None:
    assert isinstance(LLMStaticChecker(ScriptedEngine()), WorldModel)
    assert isinstance(ScriptedEngine(), Engine)


# Aggregation --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("bucket", "score"), [("low", 0.525), ("fair", 0.6), ("mid", 0.725), ("high", 0.875)])
def test_script_that_passes_every_check_scores_by_its_bucket(
    worlds: dict[str, World], bucket: str, score: float
) -> None:
    outcome = _predict(worlds, ScriptedEngine(quality={**MID, "bucket": bucket}))
    assert (outcome.status, outcome.source) == ("valid", "world_model")
    assert outcome.score == pytest.approx(score)


def test_each_runtime_check_that_fires_costs_the_script_its_score(worlds: dict[str, World]) -> None:
    for check in Check:
        if check in (Check.QUALITY, Check.SUBMISSION):
            continue
        outcome = _predict(worlds, ScriptedEngine(**{check.value: KEY_ERROR}))
        assert outcome.score == 0.1, check
        assert outcome.status == ("timeout" if check is Check.COMPUTE_BUDGET else "runtime_error")


def test_failing_submission_check_scores_below_valid_and_tells_why(worlds: dict[str, World]) -> None:
    fault = _fail("ValueError", None, feedback="missing column 'price'")
    outcome = _predict(worlds, ScriptedEngine(submission=fault))
    assert (outcome.status, outcome.score) == ("invalid_submission", 0.2)
    assert "missing column 'price'" in outcome.feedback


def test_memory_error_of_the_budget_check_is_out_of_memory(worlds: dict[str, World]) -> None:
    assert _predict(worlds, ScriptedEngine(compute_budget=_fail("MemoryError", 3))).status == "out_of_memory"


def test_of_several_faults_the_script_dies_of_the_first_line(worlds: dict[str, World]) -> None:
    engine = ScriptedEngine(
        imports_and_names=_fail("NameError", 9),
        api_calls=_fail("TypeError", 2),
        other_runtime=_fail("IndexError", None),
    )
    details = _predict(worlds, engine).details
    assert (details["exception"], details["line"]) == ("TypeError", 2)


def test_feedback_is_the_sandbox_s_traceback_with_the_script_s_own_line(worlds: dict[str, World]) -> None:
    script = HEAD + "y = train['pricee']\n"
    outcome = _predict(worlds, ScriptedEngine(files_and_columns=KEY_ERROR), script)
    executed = StaticAnalysis().predict([_submission(worlds, script)])[0]
    assert outcome.feedback == executed.feedback  # static analysis speaks as the sandbox does
    compact = _predict(worlds, ScriptedEngine(files_and_columns=KEY_ERROR), script, feedback_style="compact")
    assert compact.feedback == "error KeyError: 'pricee'\nline 6: y = train['pricee']"


def test_line_behind_the_end_of_the_script_is_not_believed(worlds: dict[str, World]) -> None:
    script = HEAD + "y = train['pricee']\n\n\n"
    engine = ScriptedEngine(files_and_columns={**KEY_ERROR, "line": 7})
    assert _predict(worlds, engine, script).details["line"] is None


def test_prose_in_place_of_an_error_line_gets_its_exception_in_front(worlds: dict[str, World]) -> None:
    fault = {**KEY_ERROR, "feedback": "there is no column pricee"}
    outcome = _predict(worlds, ScriptedEngine(files_and_columns=fault), feedback_style="compact")
    assert outcome.feedback.startswith("error KeyError: there is no column pricee\n")


def test_confidence_gate_silences_unsure_failures_and_says_so(worlds: dict[str, World]) -> None:
    engine = ScriptedEngine(api_calls=_fail("TypeError", 2, confidence=0.4))
    assert _predict(worlds, engine, confidence_gate=0.4).status == "runtime_error"
    outcome = _predict(worlds, engine, confidence_gate=0.41)
    verdict = next(v for v in outcome.details["verdicts"] if v["check"] == "api_calls")
    assert outcome.status == "valid"
    assert (verdict["passed"], verdict["gated"], verdict["exception"]) == (False, True, "TypeError")


@pytest.mark.parametrize(
    ("answer", "status", "score"),
    [
        ({}, "valid", 0.6),
        ({"status": "runtime_error", "exception": "ValueError", "line": 6}, "runtime_error", 0.1),
        ({"status": "timeout"}, "timeout", 0.1),
        ({"status": "out_of_memory"}, "out_of_memory", 0.1),
        ({"status": "invalid_submission"}, "invalid_submission", 0.2),
        ({"status": "runtime_error", "confidence": 0.3}, "valid", 0.6),
    ],
)
def test_holistic_mode_asks_once_and_scores_the_likeliest_outcome(
    worlds: dict[str, World], answer: dict[str, object], status: str, score: float
) -> None:
    engine = ScriptedEngine(holistic={**VALID, **answer})
    outcome = _predict(worlds, engine, mode="holistic")
    assert engine.asked == ["holistic"]
    assert (outcome.status, outcome.score) == (status, pytest.approx(score))
    assert outcome.details["second_status"] == "runtime_error"


# The gate, and who is heard first -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("script", "status"), [("  \n", "no_code"), ("x = (\n", "syntax_error")])
def test_what_does_not_compile_is_scored_without_asking(worlds: dict[str, World], script: str, status: str) -> None:
    engine = ScriptedEngine()
    outcome = _predict(worlds, engine, script)
    assert (outcome.status, outcome.score, engine.calls) == (status, 0.0, [])
    assert outcome.details["decided_by"] == "gate" and outcome.details["prompt_hash"]


def test_static_analysis_first_spares_the_model_what_is_certain(worlds: dict[str, World]) -> None:
    engine = ScriptedEngine()
    checker = LLMStaticChecker(engine, first=StaticAnalysis())
    broken, sound = checker.predict([_submission(worlds, HEAD + "y = train['pricee']\n"), _submission(worlds)])
    assert (broken.status, broken.details["exception"], broken.details["decided_by"]) == (
        "runtime_error",
        "KeyError",
        "first",
    )
    assert sound.details["decided_by"] == "model" and len(engine.asked) == 8
    # Below the threshold it is only a guess, and the model is asked.
    unsure = LLMStaticChecker(engine, first=StaticAnalysis(), judging=JudgingSettings(first_threshold=0.99))
    assert unsure.predict([_submission(worlds, HEAD + "y = train['pricee']\n")])[0].status == "valid"


def test_first_that_breaks_down_leaves_everything_to_the_model(worlds: dict[str, World]) -> None:
    class Broken:
        def predict(self, submissions: object) -> list[Outcome]:
            raise RuntimeError("no")

    assert _predict(worlds, ScriptedEngine(), first=Broken()).status == "valid"


def test_a_bad_submission_is_unknown_and_spoils_no_other(worlds: dict[str, World]) -> None:
    checker = LLMStaticChecker(ScriptedEngine())
    outcomes = checker.predict([Submission("houses", SOUND, {}), _submission(worlds), Submission("x", None, {})])
    assert [outcome.status for outcome in outcomes] == ["unknown", "valid", "unknown"]
    assert "overview" in outcomes[0].details["error"] and checker.failures == 2


# Abstention ---------------------------------------------------------------------------------------------------------


def test_nonsense_is_asked_again_once_in_one_batch_with_another_seed(worlds: dict[str, World]) -> None:
    def second_time(prompt: object, sampling: Sampling) -> object:
        return NO_SENSE if sampling.seed == 5 else PASS

    engine = ScriptedEngine(api_calls=second_time, submission=second_time)
    checker = LLMStaticChecker(engine, sampling=Sampling(seed=5, temperature=0.0))
    outcomes = checker.predict([_submission(worlds), _submission(worlds, SOUND + "print(1)\n")])
    assert [outcome.status for outcome in outcomes] == ["valid", "valid"]
    assert [len(prompts) for prompts, _ in engine.calls] == [16, 4]
    assert engine.calls[1][1].seed != 5 and engine.calls[1][1].temperature > 0
    assert checker.costs()["retries"] == 4 and checker.costs()["abstentions"] == 0
    assert outcomes[0].details["retries"] == 2


def test_check_that_stays_silent_abstains_and_is_counted_by_name(worlds: dict[str, World]) -> None:
    engine = ScriptedEngine(api_calls=NO_SENSE)
    checker = LLMStaticChecker(engine)
    outcome = checker.predict([_submission(worlds)])[0]
    assert outcome.details["abstentions"] == ["api_calls"]
    assert next(v for v in outcome.details["verdicts"] if v["check"] == "api_calls")["passed"] is None
    assert checker.costs()["questions"]["api_calls"]["abstentions"] == 1
    assert checker.metrics()["abstentions/api_calls"] == 1
    assert len(engine.calls) == 2


def test_too_many_abstentions_make_the_score_unknown(worlds: dict[str, World]) -> None:
    silent = dict.fromkeys(["api_calls", "submission"], NO_SENSE)
    assert _predict(worlds, ScriptedEngine(**silent), max_abstentions=2).status == "valid"
    outcome = _predict(worlds, ScriptedEngine(**silent), max_abstentions=1)
    assert (outcome.status, outcome.score) == ("unknown", None)


@pytest.mark.parametrize("default_to", ["pass", "fail", "calibrated"])
def test_without_an_opinion_on_quality_only_a_failing_script_has_a_score(
    worlds: dict[str, World], default_to: str
) -> None:
    silent = ScriptedEngine(quality=NO_SENSE)
    assert _predict(worlds, silent, default_to=default_to).score is None
    failing = ScriptedEngine(quality=NO_SENSE, api_calls=_fail("TypeError", 2))
    assert _predict(worlds, failing, default_to=default_to).score == 0.1


def test_holistic_nonsense_is_unknown(worlds: dict[str, World]) -> None:
    outcome = _predict(worlds, ScriptedEngine(holistic=NO_SENSE), mode="holistic", default_to="fail")
    assert (outcome.score, outcome.details["abstentions"]) == (None, ["holistic"])


def test_default_to_fail_holds_silence_of_the_model_against_the_script(worlds: dict[str, World]) -> None:
    crashed = _predict(worlds, ScriptedEngine(api_calls=NO_SENSE), default_to="fail")
    invalid = _predict(worlds, ScriptedEngine(submission=NO_SENSE), default_to="fail")
    assert (crashed.status, crashed.score) == ("runtime_error", 0.1)
    assert (invalid.status, invalid.score) == ("invalid_submission", 0.2)


def test_default_to_fail_never_holds_a_fault_of_the_engine_against_the_script(worlds: dict[str, World]) -> None:
    engine = ScriptedEngine(api_calls=Answer(None, error="time-out"))
    assert _predict(worlds, engine, default_to="fail").score is None
    assert len(engine.calls) == 1  # what the engine did not answer is not nonsense: it is not asked again


def test_calibrated_score_is_the_mixture_by_the_checks_own_failure_rates(worlds: dict[str, World]) -> None:
    turn = iter([_fail("TypeError", 2), PASS, PASS, PASS])
    engine = ScriptedEngine(api_calls=lambda *_: next(turn, NO_SENSE))
    checker = LLMStaticChecker(engine, judging=JudgingSettings(default_to="calibrated"))
    checker.predict([_submission(worlds, SOUND + f"print({i})\n") for i in range(4)])
    outcome = checker.predict([_submission(worlds)])[0]
    crash = (1 + 1) / (4 + 2)
    assert outcome.score == pytest.approx(crash * 0.1 + (1 - crash) * 0.725)
    assert outcome.status == "valid"
    resumed = LLMStaticChecker(ScriptedEngine(api_calls=NO_SENSE), judging=JudgingSettings(default_to="calibrated"))
    resumed.load_state_dict(json.loads(json.dumps(checker.state_dict())))
    assert resumed.predict([_submission(worlds)])[0].score == outcome.score


def test_calibrated_mixture_follows_the_ladder_and_its_likeliest_case(worlds: dict[str, World]) -> None:
    engine = ScriptedEngine(api_calls=NO_SENSE, shapes_and_dtypes=NO_SENSE, submission=NO_SENSE)
    outcome = _predict(worlds, engine, default_to="calibrated")
    crash = 1 - 0.5 * 0.5
    assert outcome.score == pytest.approx(crash * 0.1 + (1 - crash) * (0.5 * 0.2 + 0.5 * 0.725))
    assert (outcome.status, outcome.details["percentile"]) == ("runtime_error", None)


# The engine ---------------------------------------------------------------------------------------------------------


def test_all_checks_of_64_submissions_are_one_batch_with_neighbours_side_by_side(worlds: dict[str, World]) -> None:
    engine = ScriptedEngine()
    names = ("houses", "churn")
    submissions = [_submission(worlds, SOUND + f"print({i})\n", names[i % 2]) for i in range(64)]
    outcomes = LLMStaticChecker(engine).predict(submissions)
    assert len(outcomes) == 64 and len(engine.calls) == 1
    prompts = engine.calls[0][0]
    assert len(prompts) == 64 * 8
    for start in range(0, len(prompts), 8):
        eight = [prompt.messages for prompt in prompts[start : start + 8]]
        assert len({messages[0].content for messages in eight}) == 1
        assert len({messages[1].content.partition("# Check: ")[0] for messages in eight}) == 1
    tasks = ["competition: houses" in prompt.messages[1].content for prompt in prompts]
    assert tasks == sorted(tasks)  # one competition after the other
    # Order is kept: each script's own line is in its own place.
    engine.answers["api_calls"] = lambda prompt, _: (
        _fail("TypeError", 2) if "print(7)" in prompt.messages[1].content else PASS
    )
    again = LLMStaticChecker(engine).predict(submissions)
    assert [i for i, outcome in enumerate(again) if outcome.score == 0.1] == [7]


def test_dead_engine_gives_unknown_scores_and_recovers(worlds: dict[str, World]) -> None:
    engine = ScriptedEngine()
    checker = LLMStaticChecker(engine, judging=JudgingSettings(default_to="fail", max_abstentions=100))
    engine.dead = True
    outcome = checker.predict([_submission(worlds)])[0]
    assert (outcome.score, outcome.status) == (None, "unknown")
    assert "connection refused" in outcome.details["error"] and "machine failed" in outcome.feedback
    assert checker.costs()["generated_tokens"] is None and checker.costs()["unserved"] == 8
    engine.dead = False
    assert checker.predict([_submission(worlds)])[0].score == pytest.approx(0.725)


def test_engine_that_stays_dead_stops_the_run_and_an_answer_in_between_starts_the_count_anew(
    worlds: dict[str, World],
) -> None:
    engine = ScriptedEngine()
    checker = LLMStaticChecker(engine, asking=AskingSettings(max_dead_batches=3))
    for dead in (True, True, False, True, True):
        engine.dead = dead
        checker.predict([_submission(worlds)])
    assert checker.predict([_submission(worlds, "x = (")])[0].score == 0.0  # asks nothing, so it says nothing
    with pytest.raises(WorldModelError, match="3 batches in a row: connection refused"):
        checker.predict([_submission(worlds)])


def test_engine_killed_in_mid_batch_leaves_later_submissions_unknown(worlds: dict[str, World]) -> None:
    class Killed(ScriptedEngine):
        def generate(self, prompts: object, sampling: Sampling) -> list[Answer]:
            answers = super().generate(prompts, sampling)  # type: ignore[arg-type]
            return answers[:8] + [Answer(None, error="killed")] * (len(answers) - 8)

    checker = LLMStaticChecker(Killed())
    outcomes = checker.predict([_submission(worlds, SOUND + f"print({i})\n") for i in range(3)])
    assert [outcome.score for outcome in outcomes] == [pytest.approx(0.725), None, None]


def test_engine_that_breaks_its_contract_or_is_set_up_wrongly_is_an_error(worlds: dict[str, World]) -> None:
    class Short(ScriptedEngine):
        def generate(self, prompts: object, sampling: Sampling) -> list[Answer]:
            return super().generate(prompts, sampling)[1:]  # type: ignore[arg-type]

    class NotInstalled(ScriptedEngine):
        def generate(self, prompts: object, sampling: Sampling) -> list[Answer]:
            raise ImportError("install the extra")

    with pytest.raises(WorldModelError, match=r"Short gave 7 answers .* to 8 prompts"):
        _predict(worlds, Short())
    with pytest.raises(ImportError, match="install the extra"):
        _predict(worlds, NotInstalled())


# Voting -------------------------------------------------------------------------------------------------------------


def test_majority_of_samples_decides_and_their_spread_is_the_uncertainty(worlds: dict[str, World]) -> None:
    votes = {0: _fail("TypeError", 2, 1.0), 1: PASS, 2: PASS}
    engine = ScriptedEngine(api_calls=lambda _, sampling: votes[sampling.seed])
    outcome = _predict(worlds, engine, samples=3)
    assert [sampling.seed for _, sampling in engine.calls] == [0, 1, 2]
    assert outcome.status == "valid"
    verdict = next(v for v in outcome.details["verdicts"] if v["check"] == "api_calls")
    assert verdict["confidence"] == pytest.approx(2 * 0.9 / 3)
    scores = [0.1, 0.725, 0.725]
    mean = sum(scores) / 3
    assert outcome.details["uncertainty"] == pytest.approx((sum((s - mean) ** 2 for s in scores) / 3) ** 0.5)


def test_votes_count_before_confidence_and_confidence_before_the_benefit_of_the_doubt() -> None:
    def winner(*votes: tuple[str, float]) -> str:
        voted = vote([None, *(Reading(label, confidence) for label, confidence in votes)])
        assert voted is not None
        return voted.label

    assert winner(("fail", 1.0), ("pass", 0.3), ("pass", 0.3)) == "pass"
    assert winner(("fail", 0.8), ("pass", 0.7)) == "fail"
    assert winner(("fail", 0.7), ("pass", 0.7)) == "pass"
    assert vote([None, None]) is None


def test_one_sample_claims_no_certainty(worlds: dict[str, World]) -> None:
    assert _predict(worlds, ScriptedEngine()).details["uncertainty"] is None
    assert _predict(worlds, ScriptedEngine(), samples=2).details["uncertainty"] == 0.0


# Accounting ---------------------------------------------------------------------------------------------------------


def test_costs_add_up_and_metrics_are_what_came_since(worlds: dict[str, World]) -> None:
    checker = LLMStaticChecker(ScriptedEngine())
    outcome = checker.predict([_submission(worlds)])[0]
    assert outcome.details["tokens"] == {"prompt": 8000, "cached": 7200, "generated": 400}
    assert checker.metrics()["prompt_tokens"] == 8000
    checker.predict([_submission(worlds), _submission(worlds, "")])
    costs, metrics = checker.costs(), checker.metrics()
    assert (costs["prompt_tokens"], costs["cached_tokens"], costs["generated_tokens"]) == (16000, 14400, 800)
    assert (costs["seconds"], costs["submissions"], costs["asked"]) == (4.0, 3, 2)
    assert costs["questions"]["quality"]["generated_tokens"] == 100
    assert (metrics["prompt_tokens"], metrics["submissions"], metrics["asked"]) == (8000, 2, 1)
    json.dumps([costs, metrics])


def test_tokens_that_no_engine_told_are_none_and_remembered_answers_cost_none(worlds: dict[str, World]) -> None:
    silent = LLMStaticChecker(ScriptedEngine(holistic=Answer(json.dumps(VALID))), mode="holistic")
    silent.predict([_submission(worlds)])
    assert silent.costs()["prompt_tokens"] is None and silent.costs()["uncounted_answers"] == 1
    assert silent.metrics()["prompt_tokens"] is None
    remembered = Answer(json.dumps(VALID), prompt_tokens=7, generated_tokens=7, from_cache=True)
    cached = LLMStaticChecker(ScriptedEngine(holistic=remembered), mode="holistic")
    outcome = cached.predict([_submission(worlds)])[0]
    assert cached.costs()["generated_tokens"] is None and cached.costs()["answers_from_cache"] == 1
    assert outcome.details["answers_from_cache"] == 1


def test_details_are_plain_data(worlds: dict[str, World]) -> None:
    for options in ({}, {"mode": "holistic"}, {"first": StaticAnalysis()}):
        checker = LLMStaticChecker(ScriptedEngine(api_calls=KEY_ERROR), **options)  # type: ignore[arg-type]
        scripts = [SOUND, HEAD + "y = train['pricee']\n", "", "x ="]
        for outcome in checker.predict([_submission(worlds, script) for script in scripts]):
            json.dumps(outcome.details, allow_nan=False)
            assert {"prompt_hash", "prompt_version", "model", "mode", "tokens", "suspicious", "decided_by"} <= set(
                outcome.details
            )


@pytest.mark.parametrize(
    "options",
    [
        {"mode": "whole"},
        {"default_to": "maybe"},
        {"samples": 0},
        {"confidence_gate": 1.5},
        {"max_abstentions": -1},
        {"code_chars": 10},
        {"max_dead_batches": 0},
    ],
)
def test_settings_out_of_range_are_refused_by_name(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(options))):
        checker(ScriptedEngine(), **options)
