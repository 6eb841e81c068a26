"""Every YAML file that ships is composed, checked against its classes, and built."""

from __future__ import annotations

import gymnasium as gym
import pytest

from wmrl_gym.configs import compose_config, group_choices, to_dataclass
from wmrl_gym.configs.capacity_schema import PlanConfig
from wmrl_gym.configs.schema import EvaluateConfig, SupervisedConfig, TrainConfig
from wmrl_gym.runs.assembly import Domain

CHOICES = group_choices()
MEMBERS = [(group, member) for group, members in CHOICES.items() for member in members]
NEEDS = {
    "causal_lm": ["policy.path=somewhere"],
    "causal_lm_vllm": ["policy.path=somewhere"],
    "libero": ["world_model=goal_progress"],
    "endpoint": ["policy.base_url=http://127.0.0.1:1/v1", "policy.model=m"],
    "minivla": ["policy.path=somewhere"],
    "llm_static_checker": ["world_model.engine.path=somewhere"],
}


@pytest.mark.parametrize(("group", "member"), MEMBERS)
def test_every_member_of_every_group_composes_into_typed_sections(group: str, member: str) -> None:
    if group == "capacity":  # of `wmrl plan`
        assert to_dataclass(PlanConfig, compose_config("plan", [f"capacity={member}"])).capacity.steps
        return
    config = TrainConfig.from_mapping(compose_config("train", [f"{group}={member}", *NEEDS.get(member, [])]))
    for name in ("algorithm", "proxy"):
        assert getattr(config, name).build() is not None
    if config.world_model is not None:
        assert config.world_model.build() is not None


def test_settings_of_the_checker_are_overridden_by_group_and_follow_the_environment() -> None:
    words = ["world_model.mode=holistic", "world_model.asking.samples=3", "world_model.judging.default_to=calibrated"]
    words += ["env.sandbox_limits.wall_seconds=7", "env.ladder.valid_base=0.6", "experiment=smollm2"]
    checker = to_dataclass(TrainConfig, compose_config("train", words)).world_model
    assert checker is not None
    given = checker.arguments
    assert (given["asking"].samples, given["asking"].overview_chars) == (3, 1500)
    assert given["judging"].default_to == "calibrated" and given["mode"] == "holistic"
    assert (given["environment"].budget_seconds, given["environment"].ladder.valid_base) == (7.0, 0.6)


def test_every_experiment_keeps_to_its_name_and_trains_on_other_tasks_than_it_measures() -> None:
    for experiment in CHOICES["experiment"]:
        config = TrainConfig.from_mapping(compose_config("train", [f"experiment={experiment}"]))
        assert config.experiment_name == experiment
        domain = Domain(config.env, config.tasks)
        assert domain.train and domain.held_out and not set(domain.train) & set(domain.held_out)


def test_baselines_and_ablations_are_settings_of_the_same_run() -> None:
    def parts(*overrides: str) -> tuple[float, bool, bool]:
        config = TrainConfig.from_mapping(compose_config("train", ["experiment=quickstart", *overrides]))
        proxy = config.proxy.build()
        return proxy.anchors.fraction, proxy.debiaser is not None, proxy.fusion is not None

    assert parts() == (0.1, True, True)
    assert parts("proxy=all_executed", "world_model=null") == (1.0, False, False)
    assert parts("proxy=world_model_only") == (0.0, False, False)
    assert parts("proxy=no_debias") == (0.1, False, True)
    assert parts("proxy=no_fusion") == (0.1, True, False)


def test_environment_of_the_quickstart_is_made_with_its_settings(smoke_data: None) -> None:
    overrides = ["experiment=smoke", "env.sandbox_limits.wall_seconds=7"]
    config = TrainConfig.from_mapping(compose_config("train", overrides))
    domain = Domain(config.env, config.tasks)
    environment = domain.env_fns(domain.train, 1)[0]()
    assert isinstance(environment, gym.Env)
    assert set(environment.competitions) == set(domain.train)
    assert environment.runner.sandbox_limits.wall_seconds == 7.0
    assert environment.reset(options=domain.reset_options(domain.train[1]))[1]["competition"] == domain.train[1]


def test_other_primary_configurations_compose() -> None:
    assert to_dataclass(SupervisedConfig, compose_config("sft")).settings.build().steps > 0
    assert to_dataclass(EvaluateConfig, compose_config("evaluate")).evaluation.samples == 8
