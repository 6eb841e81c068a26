"""What used to fail late, or with somebody else's words, is refused at once and leaves nothing behind."""

from __future__ import annotations

from pathlib import Path

import pytest

from wmrl_gym.cli.main import main
from wmrl_gym.configs import ConfigError, compose_config
from wmrl_gym.configs.schema import TrainConfig
from wmrl_gym.core import Submission
from wmrl_gym.envs.mle_dojo.env import MAX_ACTION_CHARS, MLEDojoEnv
from wmrl_gym.runs.records.run_directory import RunDirectory

ENGINES = "wmrl_gym.engines"
CHECKER = "world_model=llm_static_checker"


@pytest.mark.parametrize(
    "override",
    [
        "algorithm.group_size=1", "algorithm.steps=0", "seed=-1", "proxy.anchors.fraction=1.5", "threads=0",
        "runs=null", "experiment_name=../elsewhere", "tasks.train=[no_such_competition]",
        "tasks.train=diabetes_progression",
    ],
)  # fmt: skip
def test_settings_that_cannot_train_leave_no_run_folder(
    smoke_data: None, tmp_path: Path, capsys: pytest.CaptureFixture[str], override: str
) -> None:
    runs = tmp_path / "runs"
    assert main(["train", "experiment=smoke", f"runs={runs}", override]) == 2
    message = capsys.readouterr().err
    assert message.startswith("wmrl: ") and "unexpected" not in message
    assert not runs.exists()
    assert not list(tmp_path.rglob("config.yaml"))


@pytest.mark.parametrize("setting", ["tasks.measure=percentil", "tasks.also=[percentil]"])
@pytest.mark.parametrize(
    "words",
    [
        ["train", "experiment=smoke", "runs={0}"],
        ["compare", "experiment=smoke", "runs={0}", "only=[wmrl]"],
        ["evaluate", "policy=fixed_pipeline", "output={0}"],
    ],
    ids=lambda words: words[0],
)
def test_a_measure_that_the_domain_does_not_know_leaves_no_folder(
    smoke_data: None, tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], setting: str
) -> None:
    """The score would be taken for it, and the report would carry a name that nothing was measured by."""
    folder = tmp_path / "folder"
    assert main([*(word.format(folder) for word in words), setting, "tasks.held_out=[titanic_survival]"]) == 2
    message = capsys.readouterr().err
    where = setting.partition("=")[0]
    assert message.startswith(f"wmrl: '{where}' names 'percentil': MLEDojoEnv has no measure 'percentil'")
    assert "choose percentile or score" in message and not folder.exists()


def test_overrides_may_stand_before_and_after_an_option(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["train", "experiment=smoke", "--show", "seed=7"]) == 0
    assert "seed: 7" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["train", "experiment=smoke", "--no-such-option"])


@pytest.mark.parametrize(
    "overrides",
    [
        [f"world_model.engine={{_target_: {ENGINES}.openai_engine.OpenAIEngine, base_url: 'http://x/v1', model: m}}"],
        [
            f"world_model.engine._target_={ENGINES}.openai_engine.OpenAIEngine",
            "world_model.engine.base_url=http://x/v1",
            "world_model.engine.model=m",
        ],
    ],
)
def test_another_class_takes_a_components_place_without_the_arguments_of_the_old_one(overrides: list[str]) -> None:
    plain = compose_config("train", [CHECKER, *overrides])
    engine = {"_target_": f"{ENGINES}.openai_engine.OpenAIEngine", "base_url": "http://x/v1", "model": "m"}
    assert plain["world_model"]["engine"] == engine
    config = TrainConfig.from_mapping(plain)
    assert config.world_model is not None and config.world_model.build().engine.model == "m"


def test_another_class_keeps_what_it_takes_too_and_is_checked_by_its_own_arguments() -> None:
    target = f"world_model.engine._target_={ENGINES}.vllm_engine.VLLMEngine"
    plain = compose_config("train", [CHECKER, target, "world_model.engine.path=/a/model"])
    assert plain["world_model"]["engine"]["path"] == "/a/model"
    openai = f"world_model.engine._target_={ENGINES}.openai_engine.OpenAIEngine"
    with pytest.raises(ConfigError, match=r"did you mean 'world_model.engine.base_url'"):
        compose_config("train", [CHECKER, openai, "world_model.engine.base_ur=x"])


@pytest.mark.parametrize(
    "command",
    [
        ["sft", "settings.steps=1", "output={file}"],
        ["train", "experiment=smoke", "runs={file}"],
        ["train", "experiment=smoke", "runs={file}/below"],
        ["compare", "experiment=smoke", "folder={file}"],
        ["corpus", "output={file}/solutions.jsonl.gz"],
        ["evaluate", "tasks.held_out=[diabetes_progression]", "output={file}"],
    ],
)
def test_a_file_in_the_place_of_an_output_folder_is_refused_before_any_work(
    smoke_data: None, tmp_path: Path, capsys: pytest.CaptureFixture[str], command: list[str]
) -> None:
    file = tmp_path / "file"
    file.write_text("precious")
    words = [part.format(file=file) for part in command]
    assert main(words) == 2
    message = capsys.readouterr().err
    key, value = words[-1].split("=")
    assert message.startswith(f"wmrl: '{key}' is {value}, ")
    assert "no folder to write in" in message and "name another" in message
    assert file.read_text() == "precious"


def test_for_a_run_that_cannot_be_written_in_the_remedy_is_an_output(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(**settings: object) -> None:
        raise PermissionError(13, "Permission denied")

    run = RunDirectory.create(tmp_path, "smoke", 0, compose_config("train", ["experiment=smoke"])).path
    monkeypatch.setattr("tempfile.TemporaryFile", refused)
    assert main(["evaluate", f"run={run}"]) == 2
    message = capsys.readouterr().err
    assert message.startswith(f"wmrl: 'run' is {run}, which is no folder to write in")
    assert "output=" in message and "name another" not in message


def test_an_answer_longer_than_the_action_space_holds_is_no_code(smoke_root: Path) -> None:
    env = MLEDojoEnv(competition="diabetes_progression", data_root=smoke_root)
    env.reset(seed=0)
    script = "```python\nx = 1\n" + "x = 1\n" * (MAX_ACTION_CHARS // 6) + "```"
    assert env.submit(script) is None
    observation, reward, _, _, info = env.advance(None)
    assert info["status"] == "no_code" and reward == 0.0 and str(MAX_ACTION_CHARS) in observation
    assert isinstance(env.submit("```python\nx = 1\n```"), Submission)
