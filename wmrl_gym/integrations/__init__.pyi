from .group_scoring import GroupScoring, StepAdvantages
from .trl_one_turn import OneTurn
from .trl_reward import TRLReward
from .trl_rollout import TRLRollout

__all__ = [
    "GroupScoring",
    "OneTurn",
    "StepAdvantages",
    "TRLReward",
    "TRLRollout",
]
