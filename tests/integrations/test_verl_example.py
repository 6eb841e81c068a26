"""The example's configuration composes with verl's own, so that every key is one that verl reads."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("verl", reason="verl is not installed: make verl-env", exc_type=ImportError)

from hydra import compose, initialize_config_dir, initialize_config_module
from omegaconf import OmegaConf
from verl.trainer.ppo.utils import need_critic, need_reference_policy
from verl.utils.config import omega_conf_to_dataclass

from wmrl_gym.integrations.verl.settings import build_scorer, build_scoring, chosen_route

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "verl"


def keys(node: Any, above: str = "") -> set[str]:
    if not isinstance(node, dict) or not node:
        return {above}
    return {key for name, value in node.items() for key in keys(value, f"{above}.{name}" if above else str(name))}


def test_every_key_is_verls_or_the_proxys_and_the_parts_are_built() -> None:
    with initialize_config_dir(str(EXAMPLE), version_base=None):
        config = compose("wmrl_4b", overrides=["actor_rollout_ref.model.path=/model"])
    with initialize_config_module("verl.trainer.config", version_base=None):
        stock = compose("ppo_trainer")
    own = {key for key in keys(OmegaConf.to_container(config)) if key.split(".")[0] != "wmrl"}
    assert own - keys(OmegaConf.to_container(stock)) <= {"hydra.searchpath"}
    assert OmegaConf.select(config, "trainer.v1.trainer_mode") == "wmrl_sync"
    assert chosen_route(config) == "trainer" and need_reference_policy(config) and not need_critic(config)
    proxy = build_scoring(config).proxy
    assert (proxy.anchors.fraction, proxy.debiaser.min_pairs, proxy.fusion.warmup) == (0.1, 200, 32)
    assert build_scorer(config).option == "competition"
    actor = omega_conf_to_dataclass(config.actor_rollout_ref.actor)
    assert (actor.kl_loss_coef, actor.entropy_coeff, actor.optim.lr) == (0.04, 0.002, 1e-6)
    assert config.data.train_batch_size == config.actor_rollout_ref.rollout.n == actor.ppo_mini_batch_size == 8


def test_the_data_is_prepared_as_the_scorer_reads_it(smoke_root: Path, tmp_path: Path) -> None:
    import pandas as pd

    name = next(folder.name for folder in sorted(smoke_root.iterdir()) if folder.is_dir())
    command = [sys.executable, str(EXAMPLE / "prepare_data.py"), str(tmp_path), name, "--held-out", name]
    environment = {**os.environ, "WMRL_DATA_ROOT": str(smoke_root)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120)
    assert done.returncode == 0, done.stderr
    row = pd.read_parquet(tmp_path / "train.parquet").iloc[0]
    assert row["extra_info"]["competition"] == name and row["extra_info"]["split"] == "train"
    assert pd.read_parquet(tmp_path / "held_out.parquet").iloc[0]["extra_info"]["split"] == "test"
    assert row["prompt"][0]["role"] == "user" and "DATA_DIR" in row["prompt"][0]["content"]
