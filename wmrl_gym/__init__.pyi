from . import core
from .core import (
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
from .proxy import (
    InverseVarianceFusion,
    IsotonicDebiaser,
    RandomAnchors,
    RewardProxy,
    RewardProxyVectorEnv,
    RewardProxyWrapper,
)
from .version import __version__

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
    "core",
]
