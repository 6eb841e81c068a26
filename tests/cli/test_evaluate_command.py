"""`wmrl evaluate` with agents of every kind; chat endpoints have their own file in tests/engines."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from wmrl_gym.algorithms.checkpoint import save_checkpoint
from wmrl_gym.cli.main import main
from wmrl_gym.configs import compose_config, to_dataclass
from wmrl_gym.configs.schema import EvaluateConfig
from wmrl_gym.runs.assembly import Domain
from wmrl_gym.runs.evaluation_key import evaluation_key
from wmrl_gym.runs.records.differences import differences
from wmrl_gym.runs.records.run_directory import RunDirectory

TASK = "tasks.held_out=[titanic_survival]"
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Llama of random weights that reads bytes, as a folder in Hugging Face's layout."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    raw = Tokenizer(models.BPE(vocab={token: i for i, token in enumerate(alphabet)}, merges=[]))
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw.decoder = decoders.ByteLevel()
    raw.add_special_tokens(["<|im_end|>", "<|im_start|>"])
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=raw, eos_token="<|im_end|>", chat_template=TEMPLATE)
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        max_position_embeddings=16_384,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
    )
    folder = tmp_path_factory.mktemp("checkpoint")
    LlamaForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def evaluated(output: Path, *overrides: str) -> dict[str, Any]:
    assert main(["evaluate", "threads=1", f"output={output}", *overrides]) == 0
    data: dict[str, Any] = json.loads((output / "evaluation.json").read_text())
    assert (output / "evaluation.md").read_text().startswith("### ") and (output / "evaluation.tex").is_file()
    return data


@pytest.mark.parametrize("env", ["mle_dojo", "mle_dojo_compact"])
def test_any_hugging_face_checkpoint_is_measured_as_it_is(
    env: str, checkpoint: Path, smoke_data: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Random weights write no script, and are told so every turn."""
    overrides = [f"env={env}", "env.max_turns=2", "policy=causal_lm", f"policy.path={checkpoint}"]
    data = evaluated(tmp_path, *overrides, "policy.max_new_tokens=8", "evaluation.samples=2", TASK)
    assert [record["statuses"] for record in data["records"]] == [["no_code", "no_code"]] * 2
    assert data["scores"] == {"titanic_survival": [0.0, 0.0]} and data["executions"] == 0
    # A title wider than its table is broken, and where depends on the length of the path.
    assert f"causal_lm {checkpoint}".replace(" ", "") in "".join(capsys.readouterr().out.split())


def test_training_competitions_need_not_be_there(checkpoint: Path, smoke_data: None, tmp_path: Path) -> None:
    """The default names 16 of them; only the held-out one of the smoke test is prepared."""
    evaluated(tmp_path, "policy=causal_lm", f"policy.path={checkpoint}", "policy.max_new_tokens=4",
              "env.max_turns=1", "evaluation.samples=1", TASK)  # fmt: skip


@pytest.mark.slow
def test_baselines_pass_through_the_same_evaluation(smoke_data: None, tmp_path: Path) -> None:
    data = evaluated(tmp_path / "random", "policy=random_pipelines", "evaluation.samples=3", "evaluation.k=2", TASK)
    assert data["executions"] == 6 and data["summary"]["k"] == 2
    assert all(record["statuses"] == ["valid", "valid"] for record in data["records"])
    again = evaluated(tmp_path / "again", "policy=random_pipelines", "evaluation.samples=3", TASK)
    assert again["scores"] == data["scores"]
    first, second = data["summary"]["turns"]
    assert (
        0
        < first["best"]["value"]
        <= second["best"]["value"]
        == pytest.approx(sum(data["scores"]["titanic_survival"]) / 3)
    )


def test_other_data_under_the_same_names_are_told_apart(smoke_root: Path, tmp_path: Path) -> None:
    root = Path(shutil.copytree(smoke_root, tmp_path / "data"))
    plain = compose_config("evaluate", [f"env.data_root={root}", TASK])
    config = to_dataclass(EvaluateConfig, plain)

    def found() -> dict[str, Any]:
        domain = Domain(config.env, replace(config.tasks, train=config.tasks.held_out))
        return evaluation_key(config, plain, domain, threads=1, checkpoint=None)

    before = found()
    assert json.loads(json.dumps(before)) == before == found()
    (table,) = (root / "titanic_survival").rglob("train.csv")
    table.write_text(table.read_text() + "\n")
    assert [line.partition(":")[0] for line in differences(before, found())] == ["data.titanic_survival"]


def test_a_runs_agent_is_measured_on_its_own_tasks_or_elsewhere(
    smoke_data: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from wmrl_gym.policies.nano import load_nano_agent

    config = compose_config("train", ["experiment=smoke", "evaluation.temperature=0.3"])
    run = RunDirectory.create(tmp_path, "smoke", 0, config)
    save_checkpoint(run.checkpoints, 3, {"policy": load_nano_agent().state_dict()})
    settings = ["evaluation.samples=1", "threads=1", f"run={run.path}"]
    capsys.readouterr()
    assert main(["evaluate", *settings, "--show"]) == 0
    shown = yaml.safe_load(capsys.readouterr().out)
    assert shown["tasks"] == config["tasks"] and shown["env"] == config["env"]
    assert shown["evaluation"]["temperature"] == 0.3 and shown["evaluation"]["samples"] == 1
    assert main(["evaluate", *settings]) == 0
    for ending in ("json", "md", "tex"):
        assert (run.path / f"evaluation-step-000003-s0.{ending}").is_file()
    own = json.loads((run.path / "evaluation-step-000003-s0.json").read_text())
    assert set(own["scores"]) == {"titanic_survival"}
    assert own["settings"]["policy"] == config["policy"] and own["settings"]["tasks"] == config["tasks"]
    assert own["settings"]["evaluation"]["samples"] == 1
    assert own["settings"]["evaluation"]["temperature"] == own["temperature"] == 0.3
    assert "temperature 0.3" in (run.path / "evaluation-step-000003-s0.md").read_text()
    asked = ["evaluation.temperature=1.0", f"output={tmp_path / 'asked'}"]
    assert main(["evaluate", *settings, *asked]) == 0
    assert json.loads((tmp_path / "asked" / "evaluation-step-000003-s0.json").read_text())["temperature"] == 1.0
    elsewhere = ["tasks_of=configuration", "tasks.held_out=[breast_cancer_diagnosis]", f"output={tmp_path / 'out'}"]
    assert main(["evaluate", *settings, *elsewhere]) == 0
    other = json.loads((tmp_path / "out" / "evaluation-step-000003-s0.json").read_text())
    assert set(other["scores"]) == {"breast_cancer_diagnosis"}


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("evaluation.k=9", "at most evaluation.samples=8"),
        ("evaluation.success=often", "evaluation.success"),
        ("tasks.held_out=[]", "name the tasks to evaluate on"),
        ("output=/dev/null/x", "name another"),
    ],
)
def test_settings_that_cannot_be_right_are_refused(
    override: str, words: str, smoke_data: None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["evaluate", "tasks.held_out=[diabetes_progression]", override]) == 2
    assert words in capsys.readouterr().err


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (["policy=fixed_pipeline"], "policy cannot be set beside run="),
        (["env.max_turns=1", "tasks.also=[percentile]"], "env.max_turns, tasks.also cannot be set beside run="),
        (["tasks_of=configuration", "policy.max_new_tokens=3", "output=x"], "policy.max_new_tokens cannot be set"),
        (["tasks_of=configuration", "tasks.held_out=[x]"], "output is null with tasks_of=configuration"),
    ],
)
def test_settings_that_a_run_would_silently_replace_are_refused(
    overrides: list[str], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["evaluate", f"run={tmp_path}", *overrides]) == 2
    assert words in capsys.readouterr().err


def test_a_baseline_in_the_full_style_is_told_what_to_choose(
    smoke_data: None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["evaluate", "env=mle_dojo", "policy=fixed_pipeline", "evaluation.samples=1", "threads=1", TASK]) == 2
    assert "env=mle_dojo_compact" in capsys.readouterr().err
