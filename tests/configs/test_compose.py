from __future__ import annotations

from pathlib import Path

import pytest

from wmrl_gym.configs import ConfigError, compose_config, group_choices, to_dataclass
from wmrl_gym.configs.schema import EvaluateConfig


def test_override_of_a_value_and_choice_of_a_member_are_obeyed() -> None:
    config = compose_config("train", ["proxy=no_debias", "proxy.anchors.fraction=0.25", "seed=7"])
    assert config["proxy"]["debiaser"] is None
    assert config["proxy"]["anchors"]["fraction"] == 0.25
    assert config["proxy"]["anchors"]["seed"] == config["seed"] == 7


def test_argument_that_no_file_mentions_is_taken_if_the_class_has_it() -> None:
    assert compose_config("train", ["env.render_mode=ansi"])["env"]["render_mode"] == "ansi"


def test_what_all_tasks_have_can_be_set_where_the_domains_file_does_not_name_it() -> None:
    tasks = compose_config("evaluate", ["env=mle_dojo", "tasks.measure=score", "tasks.also=[percentile]"])["tasks"]
    assert tasks["measure"] == "score" and tasks["also"] == ["percentile"]
    with pytest.raises(ConfigError, match=r"did you mean 'tasks\.measure'"):
        compose_config("evaluate", ["env=mle_dojo", "tasks.measur=score"])


@pytest.mark.parametrize("override", ["tasks.measure=raw_score", "tasks.also=[raw_score]"])
def test_metrics_of_all_kinds_are_no_measure(override: str) -> None:
    with pytest.raises(ConfigError, match="unit and direction differ"):
        to_dataclass(EvaluateConfig, compose_config("evaluate", [override]))


def test_group_can_be_left_out() -> None:
    assert "world_model" not in compose_config("train", ["world_model=null", "proxy=all_executed"])


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("sed=1", "did you mean 'seed'"),
        ("algorithm.leraning_rate=1e-4", "did you mean 'algorithm.learning_rate'"),
        ("proxy.anchors.fractoin=0.5", "did you mean 'proxy.anchors.fraction'"),
        ("env.sandbox_limits.wall_second=5", "did you mean 'env.sandbox_limits.wall_seconds'"),
        ("proxi=wmrl", "did you mean 'proxy'"),
        ("experiment=quikstart", "group 'experiment' has no member 'quikstart': did you mean 'quickstart'"),
        ("proxy=wmlr", "group 'proxy' has no member 'wmlr': did you mean 'wmrl'"),
        ("seed", "an override reads key=value"),
    ],
)
def test_misspelt_override_names_the_nearest_right_one(override: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        compose_config("train", [override])


def test_own_directory_adds_experiments(tmp_path: Path) -> None:
    (tmp_path / "experiment").mkdir()
    (tmp_path / "experiment" / "mine.yaml").write_text("# @package _global_\nseed: 11\nexperiment_name: mine\n")
    assert "mine" in group_choices(tmp_path)["experiment"]
    assert compose_config("train", ["experiment=mine"], tmp_path)["seed"] == 11


def test_number_without_a_dot_in_a_file_is_a_number(tmp_path: Path) -> None:
    (tmp_path / "experiment").mkdir()
    (tmp_path / "experiment" / "mine.yaml").write_text("# @package _global_\nalgorithm:\n  learning_rate: 1e-5\n")
    assert compose_config("train", ["experiment=mine"], tmp_path)["algorithm"]["learning_rate"] == 1e-5


def test_group_that_an_experiment_adds_to_can_be_left_out() -> None:
    assert "world_model" not in compose_config("train", ["experiment=mledojo_qwen35_4b", "world_model=null"])


def test_setting_of_a_group_that_is_left_out_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"'world_model\.quality' cannot be set: world_model=null"):
        compose_config("train", ["world_model=null", "world_model.quality=bucket"])


def test_parts_that_do_not_go_together_are_named() -> None:
    with pytest.raises(ConfigError) as raised:
        compose_config("train", ["env=libero", "world_model=static_analysis"])
    message = str(raised.value)
    assert "'world_model.budget_seconds' is taken from 'env.sandbox_limits.wall_seconds'" in message
    assert "member of 'world_model' does not go with that of 'env'" in message
