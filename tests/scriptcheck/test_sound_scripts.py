"""Scripts that run must not be failed: the analysis is certain or it is silent."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.scriptcheck.reality import run_for_real
from tests.scriptcheck.sound_scripts import SOUND
from tests.scriptcheck.worlds import World
from wmrl_gym.core import Submission
from wmrl_gym.world_models.static_analysis import StaticAnalysis


@pytest.mark.parametrize("name", SOUND)
def test_sound_script_is_valid(name: str, worlds: dict[str, World]) -> None:
    world, script = SOUND[name]
    submission = Submission(world, script, {"overview": worlds[world].overview})
    outcome = StaticAnalysis().predict([submission])[0]
    assert outcome.status == "valid", outcome.details["problem"] or outcome.details
    assert 0.5 <= outcome.score <= 1.0


def test_sound_scripts_really_are_sound(worlds: dict[str, World], tmp_path: Path) -> None:
    scripts = [script for _, script in SOUND.values()]
    happened = run_for_real(scripts, [worlds[world].folder for world, _ in SOUND.values()], tmp_path)
    for (name, (world, _)), reality in zip(SOUND.items(), happened, strict=True):
        assert reality.exception is None, (name, reality)
        contract = worlds[world].overview.contract
        assert (reality.header or "").split(",") == list(contract.columns), name
        assert reality.rows == contract.rows, name
