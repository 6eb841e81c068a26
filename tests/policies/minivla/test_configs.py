"""The policy's configuration files build it."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest

from wmrl_gym.configs import compose_config
from wmrl_gym.configs.schema import TrainConfig
from wmrl_gym.policies.minivla import load_minivla, load_tiny_minivla, tiny_minivla


def test_the_tiny_policy_is_new_or_what_a_folder_holds(tmp_path: Path) -> None:
    overrides = ["policy=minivla_tiny", "seed=4"]
    new = TrainConfig.from_mapping(compose_config("train", overrides)).policy.build()
    assert new.codec.actions_per_decision == 8
    new.save_pretrained(tmp_path)
    stored = TrainConfig.from_mapping(compose_config("train", [*overrides, f"policy.path={tmp_path}"])).policy.build()
    assert stored.train_vision
    for name, values in new.state_dict().items():
        assert values.equal(stored.state_dict()[name])


def test_the_real_policy_s_file_builds_what_it_points_to(tmp_path: Path) -> None:
    tiny_minivla(image_size=28, width=64, layers=1).save_pretrained(tmp_path)
    overrides = ["policy=minivla", f"policy.path={tmp_path}", "policy.device=cpu", "policy.lora_rank=2"]
    policy = TrainConfig.from_mapping(compose_config("train", overrides)).policy.build()
    assert next(policy.model.parameters()).dtype.is_floating_point
    assert any("lora_" in name for name in policy.state_dict())


@pytest.mark.parametrize(("name", "function"), [("minivla", load_minivla), ("minivla_tiny", load_tiny_minivla)])
def test_every_setting_in_the_file_is_one_of_the_function_s(name: str, function: object) -> None:
    settings = compose_config("train", [f"policy={name}", "policy.path=somewhere"])["policy"]
    assert {str(key) for key in settings} - {"_target_"} <= set(inspect.signature(function).parameters)  # type: ignore[arg-type]
