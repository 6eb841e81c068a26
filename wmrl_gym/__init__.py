"""Reinforcement learning with expensive rewards, after WMRL: world models score, a thin stream of executions corrects.

Importing this package registers its environments with Gymnasium and loads nothing heavy: torch, transformers and pandas
come in with the modules that use them.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import gymnasium as gym

from wmrl_gym.core import (
    Decision,
    Executor,
    ExecutorError,
    ExpensiveRewardEnv,
    Group,
    Outcome,
    Policy,
    Submission,
    Trajectory,
    Turn,
    WorldModel,
    WorldModelError,
)
from wmrl_gym.version import __version__

if TYPE_CHECKING:
    from wmrl_gym.proxy import (
        InverseVarianceFusion,
        IsotonicDebiaser,
        RandomAnchors,
        RewardProxy,
        RewardProxyVectorEnv,
        RewardProxyWrapper,
    )

__all__ = [
    "Decision",
    "Executor",
    "ExecutorError",
    "ExpensiveRewardEnv",
    "Group",
    "InverseVarianceFusion",
    "IsotonicDebiaser",
    "Outcome",
    "Policy",
    "RandomAnchors",
    "RewardProxy",
    "RewardProxyVectorEnv",
    "RewardProxyWrapper",
    "Submission",
    "Trajectory",
    "Turn",
    "WorldModel",
    "WorldModelError",
    "__version__",
]

# The method itself needs scikit-learn, so it is looked up when somebody asks for it.
_PROXY_NAMES = {
    "InverseVarianceFusion",
    "IsotonicDebiaser",
    "RandomAnchors",
    "RewardProxy",
    "RewardProxyVectorEnv",
    "RewardProxyWrapper",
}


def __getattr__(name: str) -> Any:
    if name in _PROXY_NAMES:
        return getattr(importlib.import_module("wmrl_gym.proxy"), name)
    raise AttributeError(f"module 'wmrl_gym' has no attribute {name!r}")


# A script's wall-clock limit and a machine's speed take part in its score: the environment is not deterministic.
gym.register(
    id="wmrl/MLEDojo-v0",
    entry_point="wmrl_gym.envs.mle_dojo.env:MLEDojoEnv",
    nondeterministic=True,
)
gym.register(
    id="wmrl/DSBench-v0",
    entry_point="wmrl_gym.envs.dsbench.env:DSBenchEnv",
    nondeterministic=True,
)
# Restoring a simulator's state is exact within one process, but its physics depend on the processor's arithmetic.
gym.register(
    id="wmrl/LIBEROLong-v0",
    entry_point="wmrl_gym.envs.libero.env:LIBEROLongEnv",
    nondeterministic=True,
)
