"""The method itself: anchoring, debiasing, fusion. NumPy and scikit-learn only, usable without the rest."""

from wmrl_gym.proxy.anchoring import AnchorDraw, RandomAnchors
from wmrl_gym.proxy.debiasing import IsotonicDebiaser
from wmrl_gym.proxy.fusion import InverseVarianceFusion, group_residual, group_weights
from wmrl_gym.proxy.ledger import Pair
from wmrl_gym.proxy.reward_proxy import RewardProxy, ScoredStep
from wmrl_gym.proxy.vector_env import RewardProxyVectorEnv
from wmrl_gym.proxy.wrapper import RewardProxyWrapper

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
