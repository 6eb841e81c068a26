"""Whatever a model can write is survived: read where it is unambiguous, refused where it is not."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.scriptcheck.worlds import World
from tests.world_models.scripted_engine import KEY_ERROR, MID, PASS, VALID, ScriptedEngine
from wmrl_gym.core import Submission
from wmrl_gym.engines.engine import Answer
from wmrl_gym.scriptcheck.verdicts import Check
from wmrl_gym.world_models.llm_static_checker import LLMStaticChecker
from wmrl_gym.world_models.llm_static_checker.schemas import answer_schema, questions
from wmrl_gym.world_models.llm_static_checker.understood_answer import Reading, read_answer

FAIL = json.dumps(KEY_ERROR)
OK = json.dumps(PASS)


def _read(answer: object, *, finished: bool = True, question: str = "api_calls") -> Reading | None:
    return read_answer(question, answer, 100, finished=finished)


def _with(**changes: object) -> str:
    return json.dumps({**KEY_ERROR, **changes})


def test_answer_as_asked_for_is_read_whole() -> None:
    assert _read(FAIL) == Reading(
        "fail", 0.9, KEY_ERROR["reason"], "KeyError", "AttributeError", None, 6, "KeyError: 'pricee'"
    )
    assert _read(json.dumps(MID), question="quality") == Reading("mid", 0.6, "A forest.", bucket="mid")
    holistic = _read(json.dumps({**VALID, "status": "runtime_error", "exception": "KeyError"}), question="holistic")
    assert holistic is not None
    assert (holistic.label, holistic.exception, holistic.second_status, holistic.bucket) == (
        "runtime_error",
        "KeyError",
        "runtime_error",
        "fair",
    )


UNAMBIGUOUS = {
    "prose around": f"Let me see.\n{FAIL}\nI hope this helps!",
    "fence": f"```json\n{FAIL}\n```",
    "prose with braces": f"The set {{a, b}} and {{}} are fine. {FAIL}",
    "twice the same": f"{FAIL}\n{FAIL}",
    "template echoed first": '{"verdict": "pass or fail", "confidence": "0 to 1"}\n' + FAIL,
    "list of one": f"[{FAIL}]",
    "nested": f'{{"answer": {{"result": {FAIL}}}}}',
    "thoughts before": f"<think>Perhaps {OK}? No.</think>{FAIL}",
    "only the end of thoughts": f"Perhaps {OK}? No.</think>{FAIL}",
    "equal duplicate keys": FAIL[:-1] + ', "verdict": "fail"}',
    "python": str(KEY_ERROR),
    "trailing comma": FAIL[:-1] + ",}",
    "brace forgotten": FAIL[:-1],
    "capitals": _with(verdict=" FAIL. "),
    "participle": _with(verdict="Failed"),
    "number as text": _with(confidence="0.9", line="6"),
    "percentage": _with(confidence="90%"),
    "line in words": _with(line="line 6"),
    "line as a float": _with(line=6.0),
    "module of the class": _with(exception="builtins.KeyError"),
    "message with the class": _with(exception="KeyError: 'pricee'"),
    "raw newline in a string": FAIL.replace("The table", "The\ntable"),
    "byte order mark": "\ufeff" + FAIL,
    "unknown keys": _with(severity="high", notes=[1, 2]),
}


@pytest.mark.parametrize("name", UNAMBIGUOUS)
def test_what_is_unambiguous_is_repaired(name: str) -> None:
    reading = _read(UNAMBIGUOUS[name])
    assert reading is not None
    assert (reading.label, reading.confidence, reading.exception, reading.line) == ("fail", 0.9, "KeyError", 6)


HOPELESS = {
    "empty": "",
    "blank": " \n\t ",
    "refusal": "I cannot help with that.",
    "no object": '"pass"',
    "null": "null",
    "number": "1",
    "empty list": "[]",
    "wrong enum": _with(verdict="maybe"),
    "both": _with(verdict="pass/fail"),
    "verdict is a list": _with(verdict=["pass"]),
    "verdict is true": _with(verdict=True),
    "verdict is null": _with(verdict=None),
    "no verdict": json.dumps({"confidence": 1.0}),
    "no confidence": json.dumps({"verdict": "pass"}),
    "confidence in words": _with(confidence="high"),
    "confidence too large": _with(confidence=95),
    "confidence negative": _with(confidence=-0.1),
    "confidence true": _with(confidence=True),
    "confidence nan": FAIL.replace("0.9", "NaN"),
    "confidence infinite": FAIL.replace("0.9", "Infinity"),
    "confidence overflows": FAIL.replace("0.9", "1e999"),
    "confidence of 400 digits": FAIL.replace("0.9", "1" + "0" * 400),
    "confidence of 10,000 digits": FAIL.replace("0.9", "9" * 10_000),
    "contradicting duplicate keys": FAIL[:-1] + ', "verdict": "pass"}',
    "contradiction that is no JSON": FAIL[:-1] + ', "verdict": pass}',
    "two answers": f"{OK}\n{FAIL}",
    "list of two": f"[{OK}, {FAIL}]",
    "deep nesting": '{"a":' * 50_000 + "1" + "}" * 50_000,
    "deep lists": '{"verdict": ' + "[" * 50_000,
    "deep python": "{'verdict': " + "(" * 50_000 + ")" * 50_000 + "}",
    "braces": "{" * 100_000,
    "quotes": '{"' * 50_000,
    "backslashes": '{"verdict": "' + "\\" * 99_999,
    "drafts of unfinished thoughts": f"<think>Perhaps {OK}",
    "zero byte": "\x00" * 100,
    "python expression": "{'verdict': __import__('os').getcwd(), 'confidence': 1}",
}


@pytest.mark.parametrize("name", HOPELESS)
@pytest.mark.timeout(20)
def test_what_takes_guessing_is_not_read(name: str) -> None:
    assert _read(HOPELESS[name]) is None
    if name != "contradiction that is no JSON":  # cut off, it reads like any answer that lost its end
        assert _read(HOPELESS[name], finished=False) is None


def test_answer_cut_off_anywhere_is_never_misread() -> None:
    for text, label in ((FAIL, "fail"), (OK, "pass")):
        whole = _read(text)
        assert whole is not None
        for end in range(len(text)):
            reading = _read(text[:end], finished=False)
            if reading is not None:
                assert (reading.label, reading.confidence) == (label, 0.9)
                assert reading.exception in (None, whole.exception) and reading.line in (None, whole.line)
        # Once verdict and confidence are complete, what follows may be missing.
        assert _read(text[: text.index('"exception"')], finished=False) is not None
        assert _read(text[: text.index('"confidence"')], finished=False) is None


def test_number_that_may_go_on_is_not_taken_for_whole() -> None:
    assert _read('{"verdict": "fail", "confidence": 0', finished=False) is None
    assert _read('{"verdict": "fail", "confidence": 0.75, "rea', finished=False) is not None


def test_fields_that_decide_nothing_are_dropped_when_they_are_wrong() -> None:
    reading = _read(_with(reason=7, exception=["KeyError"], second={}, line=-3, feedback=None))
    assert reading == Reading("fail", 0.9)
    for line in (0, 101, 6.5, True, "six", 10**400, [6]):
        assert _read(_with(line=line)) is not None and _read(_with(line=line)).line is None  # type: ignore[union-attr]
    for name in ("None", "null", "", "not a class", "a b", "Ä"):
        assert _read(_with(exception=name)).exception is None, name  # type: ignore[union-attr]


def test_long_texts_are_clipped_and_surrogates_replaced() -> None:
    reading = _read(_with(reason="x" * 10_000, feedback="y" * 10_000))
    assert reading is not None and len(reading.reason) <= 600 and len(reading.feedback) <= 2000
    reading = _read('{"verdict": "fail", "confidence": 0.9, "reason": "\\ud800 a", "feedback": "\udcff"}')
    assert reading is not None
    (reading.reason + reading.feedback).encode("utf-8")


def test_bytes_that_are_no_utf_8_are_read_as_far_as_they_go() -> None:
    reading = _read(FAIL.encode().replace(b"The table", b"\xff\xfe table"))
    assert reading is not None and reading.label == "fail"
    assert _read(b"\xff\xfe\x00") is None
    assert _read(12) is None


@settings(max_examples=200, deadline=None)
@given(st.one_of(st.text(), st.binary(), st.text(alphabet="{}[]\":,\\verdict pass.019'")), st.booleans())
def test_no_text_raises(answer: object, finished: bool) -> None:
    for question in ("api_calls", "quality", "holistic"):
        _read(answer, finished=finished, question=question)


@settings(max_examples=200, deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from([*VALID, *PASS, "x"]), inner),
    )
)
def test_no_json_raises_and_what_is_read_is_in_range(value: object) -> None:
    for question in ("api_calls", "quality", "holistic"):
        reading = _read(json.dumps(value), question=question)
        if reading is not None:
            assert 0 <= reading.confidence <= 1 and reading.label


@pytest.mark.parametrize("name", HOPELESS)
@pytest.mark.parametrize("mode", ["decomposed", "holistic"])
def test_checker_abstains_on_nonsense_and_never_raises(worlds: dict[str, World], name: str, mode: str) -> None:
    answers = dict.fromkeys((check.value for check in Check), HOPELESS[name]) | {"holistic": HOPELESS[name]}
    engine = ScriptedEngine(**answers)
    checker = LLMStaticChecker(engine, mode)  # type: ignore[arg-type]
    submission = Submission("houses", "x = 1\n", {"overview": worlds["houses"].overview})
    outcome = checker.predict([submission])[0]
    assert (outcome.status, outcome.score, len(engine.calls)) == ("unknown", None, 2)
    assert len(outcome.details["abstentions"]) == len(questions(mode))  # type: ignore[arg-type]
    assert checker.costs()["abstentions"] == len(questions(mode))  # type: ignore[arg-type]


def test_repaired_and_cut_off_answers_are_counted(worlds: dict[str, World]) -> None:
    engine = ScriptedEngine(api_calls=UNAMBIGUOUS["fence"], submission=Answer(OK[:-5], finished=False))
    checker = LLMStaticChecker(engine)
    checker.predict([Submission("houses", "x = 1\n", {"overview": worlds["houses"].overview})])
    questions_ = checker.costs()["questions"]
    assert (questions_["api_calls"]["repaired"], questions_["submission"]["repaired"]) == (1, 1)
    assert (questions_["submission"]["cut_off"], questions_["quality"]["repaired"]) == (1, 0)


def test_schema_admits_what_the_reader_reads_and_puts_the_reason_first() -> None:
    for mode in ("decomposed", "holistic"):
        for question in questions(mode):
            schema = answer_schema(question)
            example = {"quality": MID, "holistic": VALID}.get(question, PASS)
            assert next(iter(schema["properties"])) == "reason"
            assert set(schema["properties"]) == set(example) == set(schema["required"])
            for key, rule in schema["properties"].items():
                assert "enum" not in rule or example[key] in rule["enum"]
            assert _read(json.dumps(example), question=question) is not None
