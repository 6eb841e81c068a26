"""The paper's experiments as they ship, with a tiny random model of the paper's family in place of its backbone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.cli.test_train_command import finish, only_run, start
from tests.engines.chat_families import family
from tests.policies.families import tiny
from wmrl_gym.algorithms.checkpoint import load_latest_checkpoint
from wmrl_gym.configs import compose_config
from wmrl_gym.configs.schema import TrainConfig

pytestmark = pytest.mark.timeout(600)

SMALL = (
    "policy.device=cpu",
    "policy.max_new_tokens=16",
    "tasks.train=[diabetes_progression,breast_cancer_diagnosis]",
    "tasks.held_out=[titanic_survival]",
    "tasks.categories=null",
    "algorithm.groups_per_step=2",
    "algorithm.group_size=2",
    "env.max_turns=2",
    "env.overview_chars=500",
    "env.sandbox_limits.memory_mb=4096",
    "execution.max_workers=1",
    "evaluation.samples=1",
    "evaluation.before=false",
    "logger=jsonl",
    "threads=1",
)


@pytest.fixture(scope="module")
def backbone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random Qwen3.5 with a chat template of its kind."""
    folder = tmp_path_factory.mktemp("qwen3_5")
    tokenizer = family("hybrid")
    model = tiny("qwen3_5", len(tokenizer), (tokenizer.convert_tokens_to_ids("<|im_end|>"),))
    model.config.max_position_embeddings = 16384
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize(("experiment", "steps"), [("mledojo_qwen35_4b", 3), ("mledojo_qwen35_9b", 1)])
def test_it_trains_with_its_own_precision(
    experiment: str, steps: int, backbone: Path, smoke_root: Path, tmp_path: Path
) -> None:
    overrides = (f"experiment={experiment}", f"policy.path={backbone}", f"algorithm.steps={steps}", *SMALL)
    code, _, errors = finish(start(smoke_root, tmp_path, *overrides))
    assert code == 0, errors
    run = only_run(tmp_path)
    records = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert len(records) == steps
    for record in records:
        assert record["weights_changed"] > 0.95, "updates are rounded away"
        assert record["updates"] == 1 and record["grad_norm"] > 0
    newest = load_latest_checkpoint(run / "checkpoints")
    assert newest is not None
    state = newest[1]["policy"]
    assert {tensor.dtype for tensor in state.values() if tensor.is_floating_point()} == {torch.float32}
    policy: Any = TrainConfig.from_mapping(compose_config("train", overrides)).policy.build()
    policy.load_state_dict(state)


@pytest.mark.parametrize(
    ("override", "text"),
    [
        ("policy.device=cuda:9", "cuda:9"),
        ("policy.dtype=bfloat16", "compute_dtype=bfloat16"),
        ("policy.path=/no/such", "no such"),
    ],
)
def test_what_cannot_train_here_is_refused_before_a_folder_is_made(
    override: str, text: str, backbone: Path, smoke_root: Path, tmp_path: Path
) -> None:
    overrides = ("experiment=mledojo_qwen35_4b", f"policy.path={backbone}", *SMALL, override)
    code, _, errors = finish(start(smoke_root, tmp_path, *overrides))
    assert code != 0 and text in errors and "Traceback" not in errors
    assert not list(tmp_path.iterdir())
