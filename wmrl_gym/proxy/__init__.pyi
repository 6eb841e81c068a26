from .anchoring import AnchorDraw, RandomAnchors
from .debiasing import IsotonicDebiaser
from .fusion import InverseVarianceFusion, group_residual, group_weights
from .ledger import Pair
from .reward_proxy import RewardProxy, ScoredStep
from .vector_env import RewardProxyVectorEnv
from .wrapper import RewardProxyWrapper

__all__ = [
    "AnchorDraw",
    "InverseVarianceFusion",
    "IsotonicDebiaser",
    "Pair",
    "RandomAnchors",
    "RewardProxy",
    "RewardProxyVectorEnv",
    "RewardProxyWrapper",
    "ScoredStep",
    "group_residual",
    "group_weights",
]
