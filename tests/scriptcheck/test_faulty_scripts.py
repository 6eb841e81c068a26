"""Every fault is found, for the reason and at the line at which Python really stops."""

from __future__ import annotations

import re

import pytest

from tests.scriptcheck.faulty_scripts import FAULTY
from tests.scriptcheck.reality import Reality, run_for_real
from tests.scriptcheck.worlds import World
from wmrl_gym.core import Outcome, Submission
from wmrl_gym.scriptcheck.verdicts import Check
from wmrl_gym.world_models.static_analysis import StaticAnalysis

CASES = [(check, world, script) for check, cases in FAULTY.items() for world, script in cases]


@pytest.fixture(scope="module")
def realities(worlds: dict[str, World], tmp_path_factory: pytest.TempPathFactory) -> list[Reality]:
    folders = [worlds[world].folder for _, world, _ in CASES]
    return run_for_real([script for _, _, script in CASES], folders, tmp_path_factory.mktemp("runs"))


def _predict(worlds: dict[str, World], world: str, script: str) -> Outcome:
    return StaticAnalysis().predict([Submission(world, script, {"overview": worlds[world].overview})])[0]


@pytest.mark.parametrize("number", range(len(CASES)), ids=lambda n: f"{CASES[n][0]}-{n}")
def test_fault_is_found_as_python_finds_it(number: int, worlds: dict[str, World], realities: list[Reality]) -> None:
    check, world, script = CASES[number]
    reality = realities[number]
    assert reality.exception is not None, "the script runs: it does not belong here"
    outcome = _predict(worlds, world, script)
    failing = [verdict for verdict in outcome.details["verdicts"] if verdict["passed"] is False]
    assert outcome.status == "runtime_error", script.splitlines()[-2:]
    assert outcome.score == 0.1
    assert [verdict["check"] for verdict in failing] == [check.value]
    assert outcome.details["exception"] == reality.exception
    assert outcome.details["line"] == reality.line
    if check is not Check.IMPORTS_AND_NAMES:
        start = re.split(r"\d", reality.message.split("\n")[0].strip())[0][:24]
        assert start in outcome.feedback, (reality.message, outcome.feedback)
