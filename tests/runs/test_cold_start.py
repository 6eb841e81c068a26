"""A cold start from Python."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from tests.runs.test_training import Told
from wmrl_gym.configs import compose_config
from wmrl_gym.configs.schema import TrainConfig
from wmrl_gym.policies.nano import NANO_DIRECTORY, load_nano_agent
from wmrl_gym.runs import ColdStart


def test_the_nano_agent_goes_on_learning_and_its_overrides_choose_what_was_written(
    smoke_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from wmrl_gym.corpus.generator import tasks

    monkeypatch.setattr(tasks, "train_competitions", lambda: ["diabetes_progression"])
    words = [f"start={NANO_DIRECTORY}", f"data_root={smoke_root}", f"output={tmp_path / 'agent'}"]
    start = ColdStart.from_config([*words, "settings.steps=3", "settings.batch_size=2"])
    told = Told()
    begun: list[Any] = []
    agent = start.train(told, lambda *what: begun.append(what))
    assert told.steps == [0, 1, 2] and "making the agent" in told.stages
    assert begun == [("1 competitions", sum(parameter.numel() for parameter in agent.policy.parameters()))]

    plain = compose_config("train", ["experiment=smoke", *agent.overrides])
    loaded = TrainConfig.from_mapping(plain).policy.build()
    before = load_nano_agent().state_dict()
    written, trained = loaded.state_dict(), agent.policy.state_dict()
    for name, values in written.items():  # in the file they have 16 bits
        torch.testing.assert_close(values, trained[name].to(torch.float16).to(values.dtype))
    assert any(not torch.equal(values, before[name]) for name, values in written.items())


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["demonstrations=[x]"], "no policy that could be trained"),
        (["demonstrations=[x]", "policy=minivla_tiny", "examples=null"], "'examples' is null"),
        (["overview_style=full"], "nano agent cannot read"),
        (["policy=random_pipelines"], "cannot be trained"),
        (["settings.steps=0"], "steps is 0"),
    ],
)
def test_what_cannot_be_right_makes_no_folder(words: list[str], told: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=told):
        ColdStart.from_config([*words, f"output={tmp_path / 'out'}"])
    assert not list(tmp_path.iterdir())
