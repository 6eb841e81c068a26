from __future__ import annotations

import pytest

from tests.corpus.made import record
from tests.reporting.fidelity.made import predicted
from wmrl_gym.reporting.fidelity.checks import check_fidelity, true_check
from wmrl_gym.scriptcheck.verdicts import Check


@pytest.mark.parametrize(
    ("status", "exception", "check"),
    [
        ("runtime_error", "NameError", Check.IMPORTS_AND_NAMES),
        ("runtime_error", "TypeError", Check.API_CALLS),
        ("runtime_error", "KeyError", Check.FILES_AND_COLUMNS),
        ("runtime_error", "ValueError", Check.SHAPES_AND_DTYPES),
        ("runtime_error", "ZeroDivisionError", Check.OTHER_RUNTIME),
        ("runtime_error", None, Check.OTHER_RUNTIME),
        ("timeout", "TimeoutError", Check.COMPUTE_BUDGET),
        ("out_of_memory", "MemoryError", Check.COMPUTE_BUDGET),
        ("invalid_submission", None, Check.SUBMISSION),
        ("valid", None, None),
        ("syntax_error", "SyntaxError", None),
    ],
)
def test_failures_are_filed_under_the_check_that_looks_for_them(
    status: str, exception: str | None, check: Check | None
) -> None:
    assert true_check(record(status, exception=exception)) is check


def test_precision_and_recall_of_a_check() -> None:
    names, api = Check.IMPORTS_AND_NAMES.value, Check.API_CALLS.value
    truths = [
        record("runtime_error", exception="NameError"),
        record("runtime_error", exception="TypeError"),
        record("valid"),
        record("runtime_error", exception="NameError"),
        record("valid"),
    ]
    guesses = [
        predicted("runtime_error", failed_checks=(names,), passed_checks=(api,)),
        predicted("runtime_error", failed_checks=(names,), passed_checks=(api,)),
        predicted("runtime_error", failed_checks=(names,), silent_checks=(api,)),
        predicted("valid", passed_checks=(names, api)),
        predicted("valid", passed_checks=(names,), silent_checks=(api,)),
    ]
    found = {check.check: check for check in check_fidelity(truths, guesses)}
    assert list(found) == [names, api, "any"]
    checked = found[names]
    assert (checked.fired, checked.failures, checked.opinions, checked.abstentions) == (3, 2, 5, 0)
    assert checked.precision == pytest.approx(2 / 3)
    assert checked.precision_in_kind == pytest.approx(1 / 3)
    assert checked.recall == pytest.approx(1 / 2)
    silent = found[api]
    assert silent.precision is None and silent.recall == 0.0 and silent.abstentions == 2
    assert found["any"].precision == pytest.approx(2 / 3) and found["any"].recall == pytest.approx(2 / 3)


def test_world_model_without_checks_has_none() -> None:
    assert check_fidelity([record()], [predicted()]) == []
