from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from tests.algorithms.letters import GAMED, TRUTH, LetterEnv, LetterPolicy, TableWorldModel
from wmrl_gym.algorithms.grpo import GRPOSettings
from wmrl_gym.algorithms.rollout import GroupPlan, collect
from wmrl_gym.algorithms.wmrl_grpo import WMRLGRPO, WMRLGRPOSettings
from wmrl_gym.core import Outcome, Submission, WorldModelError
from wmrl_gym.execution.local import LocalExecutor
from wmrl_gym.proxy import InverseVarianceFusion, IsotonicDebiaser, RandomAnchors, RewardProxy, RewardProxyVectorEnv


def trainer(
    world_model: Any = None,
    proxy: RewardProxy | None = None,
    directory: Path | None = None,
    on_step: Any = None,
    **settings: Any,
) -> WMRLGRPO:
    chosen: dict[str, Any] = {"steps": 60, "learning_rate": 0.1, "checkpoint_every": 5, **settings}
    return WMRLGRPO(
        LetterPolicy(),
        RewardProxyVectorEnv([LetterEnv] * 64, world_model),
        ["letters"],
        proxy or full_proxy(),
        WMRLGRPOSettings(loss=GRPOSettings(kl_coefficient=0.0, entropy_coefficient=0.0), **chosen),
        directory=directory,
        on_step=on_step,
    )


def full_proxy(fraction: float = 0.1) -> RewardProxy:
    return RewardProxy(
        RandomAnchors(fraction, min_per_step=1 if fraction else 0),
        IsotonicDebiaser(min_pairs=16, refit_every=8),
        InverseVarianceFusion(half_life=16, warmup=8),
    )


def test_execution_alone_learns() -> None:
    run = trainer(None, RewardProxy(RandomAnchors(1.0)))
    before = run.policy.expected_truth()
    run.train()
    assert run.policy.expected_truth() > before + 0.3


def test_anchors_repair_a_world_model_that_is_gamed() -> None:
    alone = trainer(TableWorldModel(GAMED), RewardProxy(RandomAnchors(0.0, 0)))
    alone.train()
    corrected = trainer(TableWorldModel(GAMED))
    corrected.train()
    assert alone.policy.expected_truth() < 0.3, "the world model alone leads to the letter it overrates"
    assert corrected.policy.expected_truth() > 0.6
    assert corrected.vector_env.n_executions < 0.25 * 60 * 64 * 2


def test_without_world_model_and_without_executions_nothing_is_executed() -> None:
    run = trainer(TableWorldModel(TRUTH), RewardProxy(RandomAnchors(0.0, 0)), steps=1)
    run.train()
    assert run.vector_env.n_executions == 0


def test_settings_that_cannot_train_are_refused() -> None:
    with pytest.raises(ValueError, match="group_size"):
        WMRLGRPOSettings(group_size=1)
    with pytest.raises(ValueError, match="as many environments"):
        trainer(group_size=9)


def test_tasks_come_equally_often() -> None:
    run = trainer(TableWorldModel(TRUTH), groups_per_step=3)
    run.tasks = ["a", "b", "c", "d", "e"]
    drawn = [plan.task_id for step in range(5) for plan in run.plan(step)]
    assert sorted(drawn) == sorted(run.tasks * 3)


def test_a_world_model_that_dies_leaves_the_last_checkpoint_intact(tmp_path: Path) -> None:
    class Dying(TableWorldModel):
        calls = 0

        def predict(self, submissions: Sequence[Submission]) -> list[Outcome]:
            Dying.calls += 1
            if Dying.calls > 15:
                raise OSError("the model's server is gone")
            return super().predict(submissions)

    with pytest.raises(WorldModelError, match="Dying"):
        trainer(Dying(TRUTH), directory=tmp_path).train()
    healthy = trainer(TableWorldModel(TRUTH), directory=tmp_path, steps=12)
    assert healthy.resume() == 5
    healthy.train()
    assert healthy.next_step == 12


def test_a_step_in_which_every_execution_fails_teaches_nothing() -> None:
    class Failing(LetterEnv):
        def execute(self, submission: Submission) -> Outcome:
            return Outcome(None, "unknown")

    policy = LetterPolicy()
    vector_env = RewardProxyVectorEnv([Failing] * 4, None, max_consecutive_failures=1000)
    run = WMRLGRPO(
        policy,
        vector_env,
        ["letters"],
        RewardProxy(RandomAnchors(1.0)),
        WMRLGRPOSettings(steps=1, groups_per_step=1, group_size=4, learning_rate=0.1),
    )
    metrics = run.step(0)
    assert metrics["dropped_groups"] == 1 and metrics["loss"] is None and metrics["reward"] is None
    assert policy.logits.abs().max() == 0


def test_other_settings_cannot_resume(tmp_path: Path) -> None:
    trainer(TableWorldModel(TRUTH), directory=tmp_path, steps=5).train()
    with pytest.raises(ValueError, match="other settings"):
        trainer(TableWorldModel(TRUTH), directory=tmp_path, steps=9, learning_rate=0.2).resume()


class FailingExecutor:
    """Dies on every submission."""

    capacity = 1

    def submit(self, submission: Submission) -> Future[Outcome]:
        future: Future[Outcome] = Future()
        future.set_exception(OSError("the worker died"))
        return future

    def close(self) -> None:
        """Nothing to free."""


def test_failed_anchors_are_excluded_and_counted() -> None:
    proxy = full_proxy()
    vector_env = RewardProxyVectorEnv(
        [LetterEnv] * 64, TableWorldModel(TRUTH), FailingExecutor(), max_consecutive_failures=10_000
    )
    run = WMRLGRPO(LetterPolicy(), vector_env, ["letters"], proxy, WMRLGRPOSettings(steps=1, learning_rate=0.1))
    metrics = run.step(0)
    assert metrics["proxy/pairs"] == 0
    assert metrics["proxy/anchor_failures"] == 8 * metrics["dropped_groups"] > 0
