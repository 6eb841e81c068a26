"""A trained agent as a folder that other programs load, and the card that says where it comes from."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml

from wmrl_gym.algorithms.checkpoint import checkpoints, load_checkpoint, save_checkpoint
from wmrl_gym.configs import ConfigError, compose_config
from wmrl_gym.policies import CausalLMPolicy, load_causal_lm
from wmrl_gym.policies.nano import NANO_DIRECTORY
from wmrl_gym.runs import RunDirectory, TrainingRun, export

SMALL = [
    "experiment=smoke",
    "algorithm.groups_per_step=2",
    "algorithm.group_size=2",
    "algorithm.learning_rate=3e-3",
    "evaluation.samples=2",
    "threads=1",
    "logger.tensorboard=false",
]
TASK = "titanic_survival"
OTHER_END = 7
"""A token that the base of the adapter's run names as a second end of a turn."""


@pytest.fixture(scope="module")
def trained(smoke_root: Path, tmp_path_factory: pytest.TempPathFactory) -> TrainingRun:
    """A nano agent, all of whose weights were trained for two steps."""
    return train(smoke_root, tmp_path_factory, "algorithm.steps=2", "evaluation.every=1", "evaluation.samples_during=1")


@pytest.fixture(scope="module")
def adapted(smoke_root: Path, tmp_path_factory: pytest.TempPathFactory) -> TrainingRun:
    """An adapter that was trained for a step, over a model whose own generation settings filter tokens."""
    pytest.importorskip("peft")
    base = tmp_path_factory.mktemp("base") / "model"
    shutil.copytree(NANO_DIRECTORY, base)
    settings = {"eos_token_id": [0, OTHER_END], "pad_token_id": 0, "repetition_penalty": 5.0, "do_sample": True}
    (base / "generation_config.json").write_text(json.dumps(settings))
    return train(
        smoke_root,
        tmp_path_factory,
        "algorithm.steps=1",
        "evaluation.before=false",
        "evaluation.after=false",
        "policy=causal_lm",
        f"policy.path={base}",
        "policy.lora_rank=4",
        "policy.max_new_tokens=160",
    )


def train(smoke_root: Path, folders: pytest.TempPathFactory, *overrides: str) -> TrainingRun:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WMRL_DATA_ROOT", str(smoke_root))
        run = TrainingRun.from_config([*SMALL, *overrides, f"runs={folders.mktemp('runs')}"])
        run.train()
    return run


def agent_of(run: TrainingRun) -> CausalLMPolicy:
    """The run's policy with the weights of its newest checkpoint."""
    policy: CausalLMPolicy = run.config.policy.build()
    policy.load_state_dict(load_checkpoint(checkpoints(run.directory.checkpoints)[-1])["policy"])
    return policy


def observation(run: TrainingRun, smoke_root: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """What an episode of the held-out task begins with."""
    monkeypatch.setenv("WMRL_DATA_ROOT", str(smoke_root))
    environment = run.domain.env_fns([TASK], 1)[0]()
    first, _ = environment.reset(seed=0, options=run.domain.reset_options(TASK))
    environment.close()
    return str(first)


def generated(folder: Path, text: str, limit: int) -> tuple[list[int], list[int]]:
    """Prompt and greedy answer of a folder, by means of `transformers` alone."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model, tokenizer = AutoModelForCausalLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    messages = [{"role": "user", "content": text}]
    prompt = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_tensors="pt")
    out = model.generate(**prompt, do_sample=False, max_new_tokens=limit)
    length = prompt["input_ids"].shape[1]
    return prompt["input_ids"][0].tolist(), out[0, length:].tolist()


def logits(model: Any, ids: np.ndarray) -> torch.Tensor:
    with torch.no_grad():
        found: torch.Tensor = model(torch.from_numpy(ids)[None]).logits
    return found


def contents(folder: Path) -> dict[str, str]:
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def front_matter(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((folder / "README.md").read_text().split("---\n")[1])
    return found


@pytest.mark.parametrize("which", ["trained", "adapted"])
def test_transformers_alone_gives_the_agents_greedy_answer_and_stops_where_it_does(
    which: str, smoke_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    run: TrainingRun = request.getfixturevalue(which)
    before = contents(run.directory.path)
    agent = export(run, tmp_path / "out")
    assert agent.checkpoint == checkpoints(run.directory.checkpoints)[-1]
    assert contents(run.directory.path) == before
    policy, text = agent_of(run), observation(run, smoke_root, monkeypatch)
    [decision] = policy.act([text], histories=[[]], seeds=[(0,)], temperature=0.0)
    assert decision.finished and len(decision.token_ids) > 5
    prompt, answer = generated(agent.folder, text, policy.max_new_tokens)
    assert prompt == decision.prompt_ids.tolist() and answer == decision.token_ids.tolist()
    assert load_causal_lm(agent.folder).conversation.stop_ids == policy.conversation.stop_ids


def test_generation_settings_hold_every_end_of_a_turn_and_no_filter_of_the_base(
    adapted: TrainingRun, tmp_path: Path
) -> None:
    export(adapted, tmp_path / "out")
    settings = json.loads((tmp_path / "out" / "generation_config.json").read_text())
    assert settings["eos_token_id"] == [0, OTHER_END] and "repetition_penalty" not in settings
    assert (settings["temperature"], settings["top_k"], settings["top_p"]) == (0.8, 0, 1.0)


def test_a_merged_model_computes_what_the_adapted_one_does(adapted: TrainingRun, tmp_path: Path) -> None:
    from transformers import AutoModelForCausalLM

    agent = export(adapted, tmp_path / "out")
    assert agent.kind == "merged model" and not (agent.folder / "adapter_config.json").exists()
    policy = agent_of(adapted)
    merged = AutoModelForCausalLM.from_pretrained(agent.folder)
    ids = policy.prompt_ids("a question of some length", [])
    wanted = logits(policy.model, ids)
    assert torch.allclose(logits(merged, ids), wanted, atol=1e-4, rtol=0)
    with policy.model.disable_adapter():  # else the test could not fail
        assert (logits(policy.model, ids) - wanted).abs().max() > 1e-3


def test_an_adapter_alone_names_its_base_and_is_trained_further(adapted: TrainingRun, tmp_path: Path) -> None:
    from peft import AutoPeftModelForCausalLM

    agent = export(adapted, tmp_path / "out", merge=False)
    settings = json.loads((agent.folder / "adapter_config.json").read_text())
    assert settings["base_model_name_or_path"] == adapted.config.policy.arguments["path"]
    assert agent.kind == "adapter" and not (agent.folder / "model.safetensors").exists()
    policy = agent_of(adapted)
    ids = policy.prompt_ids("a question of some length", [])
    further = load_causal_lm(agent.folder)
    for model in (AutoPeftModelForCausalLM.from_pretrained(agent.folder, dtype=torch.float32), further.model):
        assert torch.allclose(logits(model, ids), logits(policy.model, ids), atol=1e-5)
    assert {parameter.dtype for parameter in further.parameters()} == {torch.float32}
    assert sum(p.numel() for p in further.parameters()) == sum(p.numel() for p in policy.parameters()) > 0
    assert front_matter(agent.folder)["library_name"] == "peft"
    assert "its path on the machine" in (agent.folder / "README.md").read_text()


def test_bfloat16_halves_the_weights_and_merges_before_it_rounds(adapted: TrainingRun, tmp_path: Path) -> None:
    from safetensors.torch import load_file

    whole = load_file(export(adapted, tmp_path / "whole").folder / "model.safetensors")
    half = load_file(export(adapted, tmp_path / "half", dtype="bfloat16").folder / "model.safetensors")
    assert half.keys() == whole.keys()
    for name, values in half.items():
        assert torch.equal(values, whole[name].to(torch.bfloat16))
    alone = load_file(
        export(adapted, tmp_path / "alone", merge=False, dtype="bfloat16").folder / "adapter_model.safetensors"
    )
    assert {values.dtype for values in alone.values()} == {torch.bfloat16}


def test_a_merge_into_wider_weights_keeps_all_that_was_learned(adapted: TrainingRun, tmp_path: Path) -> None:
    """Over weights in bfloat16 an adapter's small changes would be rounded away."""
    from safetensors.torch import load_file

    plain = adapted.directory.config()
    plain["policy"]["dtype"] = "bfloat16"
    run = RunDirectory.create(tmp_path / "runs", "narrow", 0, plain)
    shutil.copytree(adapted.directory.checkpoints, run.checkpoints)
    name = "model.layers.0.mlp.down_proj.weight"
    base = load_file(Path(plain["policy"]["path"]) / "model.safetensors")[name].to(torch.bfloat16).float()
    exact = load_file(export(adapted, tmp_path / "exact").folder / "model.safetensors")[name]
    merged = load_file(export(run.path, tmp_path / "merged", dtype="float32").folder / "model.safetensors")[name]
    source = load_file(Path(plain["policy"]["path"]) / "model.safetensors")[name].float()
    assert torch.allclose(merged - base, exact - source, atol=1e-6) and (merged - base).abs().max() > 1e-5
    rounded = load_file(export(run.path, tmp_path / "rounded").folder / "model.safetensors")[name]
    assert rounded.dtype == torch.bfloat16


def test_the_card_tells_what_the_records_say_of_these_weights_alone(trained: TrainingRun, tmp_path: Path) -> None:
    card = (export(trained, tmp_path / "last").folder / "README.md").read_text()
    lines = card.splitlines()
    shares = [record["executed_share"] for record in trained.metrics()]
    assert "- experiment: smoke, seed 0" in lines and "- steps: 2, 4 trajectories each" in lines
    assert "- trained on: diabetes_progression, breast_cancer_diagnosis" in lines and f"- held out: {TASK}" in lines
    assert f"- really executed: {np.mean(shares):.1%} of the trajectories" in lines
    before, after = trained.evaluation("before"), trained.evaluation("after")
    assert before is not None and after is not None
    scores = [f"{found.task_scores()[TASK]:.4g}" for found in (before, after)]
    assert "| task | before training | after 2 steps |" in lines and f"| {TASK} | {' | '.join(scores)} |" in lines
    assert front_matter(tmp_path / "last") == {
        "library_name": "transformers",
        "pipeline_tag": "text-generation",
        "tags": ["reinforcement-learning", "wmrl_gym"],
    }
    # An earlier checkpoint is not said to have what was measured at the end.
    agent = export(trained.directory.path, tmp_path / "first", checkpoint=1)
    assert agent.checkpoint.name == "step-000001"
    card = (tmp_path / "first" / "README.md").read_text()
    assert "- steps: 1 of 2, 4 trajectories each" in card and "| before training | after 1 steps |" in card
    assert "1 after 1 steps" in card and f"- really executed: {shares[0]:.1%}" in card
    weights = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("first", "last")]
    assert weights[0] != weights[1]


def test_what_is_unknown_is_left_out_of_the_card(trained: TrainingRun, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(trained.directory.path, run)
    circumstances = json.loads((run / "circumstances.json").read_text())
    assert f"wmrl_gym: {circumstances['versions']['wmrl-gym']}" in exported_card(run, tmp_path / "known")
    for name in ("circumstances.json", "metrics.jsonl", "before.json", "after.json"):
        (run / name).unlink()
    card = exported_card(run, tmp_path / "out")
    for word in ("wmrl_gym:", "commit", "executed", "Evaluation", "None", "null", "NaN"):
        assert word not in card, word
    assert "- experiment: smoke, seed 0" in card


def exported_card(run: Path, output: Path) -> str:
    return (export(run, output).folder / "README.md").read_text()


def test_a_system_prompt_and_a_hubs_name_are_told() -> None:
    from wmrl_gym.runs.model_card import ModelFacts, Provenance, model_card

    origin = Provenance("mine", 0, 1, 1, 4, ["a"], [], None, None, None, False, {})
    model = ModelFacts(
        "adapter",
        1.0,
        base="Qwen/Qwen3-0.6B",
        pipeline_tag="text-generation",
        system_prompt="Write a ```python block.",
        template_arguments={"enable_thinking": False},
    )
    card = model_card(model, origin)
    head = yaml.safe_load(card.split("---\n")[1])
    assert head["base_model"] == "Qwen/Qwen3-0.6B" and "lora" in head["tags"]
    assert "````\nWrite a ```python block.\n````" in card and "`enable_thinking=False`" in card
    assert "its path on the machine" not in card and "held out" not in card


def test_an_output_that_is_not_free_is_refused_before_anything_is_loaded(
    trained: TrainingRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wmrl_gym.configs.validation.Component.build", lambda *_, **__: pytest.fail("was built"))
    (tmp_path / "file").write_text("mine")
    for name, what in ((".", "not empty"), ("file", "is a file"), ("file/below", "no folder to write in")):
        with pytest.raises(ConfigError, match=what):
            export(trained, tmp_path / name)
    with pytest.raises(ValueError, match="no floating-point type"):
        export(trained, tmp_path / "out", dtype="int8")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_missing_checkpoint_names_those_that_are_there(trained: TrainingRun, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="there are those after 1, 2"):
        export(trained, tmp_path / "out", checkpoint=7)
    run = RunDirectory.create(tmp_path / "runs", "none", 0, trained.directory.config())
    with pytest.raises(FileNotFoundError, match="no checkpoint yet"):
        export(run.path, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_what_a_policy_cannot_do_is_refused_and_leaves_nothing(trained: TrainingRun, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="has no adapter"):
        export(trained, tmp_path / "out", merge=False)
    plain = trained.directory.config()
    plain["policy"] = {"_target_": "tests.runs.test_exporting.Bare"}
    run = RunDirectory.create(tmp_path / "runs", "bare", 0, plain)
    save_checkpoint(run.checkpoints, 2, {"policy": {}})
    with pytest.raises(ConfigError, match=r"a Bare .* no save_pretrained"):
        export(run.path, tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["runs"]


class Bare:
    """A policy that cannot be written."""

    def load_state_dict(self, state: Any) -> None:
        """Nothing to load."""


def test_an_agent_trained_on_a_device_that_is_missing_is_written_on_the_cpu(
    trained: TrainingRun, tmp_path: Path
) -> None:
    if torch.cuda.is_available():
        pytest.skip("there is one")
    plain = trained.directory.config()
    plain["policy"]["device"] = "cuda"
    run = RunDirectory.create(tmp_path / "runs", "far", 0, plain)
    shutil.copytree(trained.directory.checkpoints, run.checkpoints)
    assert (export(run.path, tmp_path / "out").folder / "model.safetensors").is_file()


def test_an_agent_that_acted_through_vllm_is_written_without_it(trained: TrainingRun, tmp_path: Path) -> None:
    plain = trained.directory.config()
    target = "wmrl_gym.policies.load_vllm_policy"
    plain["policy"] = {
        "_target_": target,
        "path": str(NANO_DIRECTORY),
        "send_seed": False,
        "max_observation_tokens": 99,
    }
    run = RunDirectory.create(tmp_path / "runs", "served", 0, plain)
    shutil.copytree(trained.directory.checkpoints, run.checkpoints)
    card = exported_card(run.path, tmp_path / "out")
    assert "512 of an answer; 99 of an observation, the middle of longer ones left out." in card
    weights = [folder / "model.safetensors" for folder in (tmp_path / "out", export(trained, tmp_path / "own").folder)]
    assert weights[0].read_bytes() == weights[1].read_bytes()


def test_a_robots_policy_is_written_as_its_own_loader_reads_it(tmp_path: Path) -> None:
    from safetensors.torch import load_file

    from wmrl_gym.policies import load_minivla, load_tiny_minivla

    policy = load_tiny_minivla(seed=3)
    plain = compose_config("train", ["experiment=libero_tiny", "policy=minivla_tiny"])
    run = RunDirectory.create(tmp_path / "runs", "robot", 0, plain)
    save_checkpoint(run.checkpoints, 5, {"policy": policy.state_dict()})
    agent = export(run.path, tmp_path / "out", dtype="bfloat16")
    again = load_minivla(agent.folder, train_vision=True).state_dict()
    for name, values in policy.state_dict().items():
        assert torch.equal(again[name], values.to(torch.bfloat16).float()), name
    assert {v.dtype for v in load_file(agent.folder / "model.safetensors").values()} == {torch.bfloat16}
    assert front_matter(agent.folder)["pipeline_tag"] == "robotics"
    with pytest.raises(ConfigError, match="always written whole"):
        export(run.path, tmp_path / "other", merge=False)


@pytest.mark.slow
def test_a_kill_leaves_nothing_under_the_name_and_the_next_export_clears_up(
    trained: TrainingRun, tmp_path: Path
) -> None:
    code = (
        "import os, signal, sys\n"
        "from wmrl_gym.runs import exporting\n"
        "exporting.model_card = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"
        "exporting.export(sys.argv[1], sys.argv[2])\n"
    )
    output = tmp_path / "out"
    command = [sys.executable, "-c", code, str(trained.directory.path), str(output)]
    assert subprocess.run(command, capture_output=True, timeout=120).returncode == -9
    [remains] = tmp_path.iterdir()
    assert remains.name.startswith(".out.") and (remains / "model.safetensors").is_file()
    export(trained, output)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_a_trainer_of_trl_takes_the_folder(trained: TrainingRun, tmp_path: Path) -> None:
    trl = pytest.importorskip("trl")
    from datasets import Dataset

    folder = export(trained, tmp_path / "out").folder
    common: dict[str, Any] = {"output_dir": str(tmp_path / "trl"), "report_to": "none", "use_cpu": True, "bf16": False}
    questions = Dataset.from_dict({"prompt": [[{"role": "user", "content": "titanic"}]] * 4})
    grpo = trl.GRPOTrainer(
        model=str(folder),
        reward_funcs=lambda completions, **_: [0.0] * len(completions),
        args=trl.GRPOConfig(**common, per_device_train_batch_size=2, num_generations=2, max_completion_length=8),
        train_dataset=questions,
    )
    conversation = [{"role": "user", "content": "titanic"}, {"role": "assistant", "content": "Ridge()"}]
    sft = trl.SFTTrainer(
        model=str(folder),
        args=trl.SFTConfig(**common, max_length=64),
        train_dataset=Dataset.from_dict({"messages": [conversation] * 2}),
    )
    wanted = agent_of(trained).state_dict()
    for trainer in (grpo, sft):
        for name, values in trainer.model.state_dict().items():
            assert torch.equal(values.float(), wanted[name]), name
    assert grpo.processing_class.eos_token_id in agent_of(trained).conversation.stop_ids
