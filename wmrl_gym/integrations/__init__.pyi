from .group_scoring import GroupScoring, StepAdvantages
from .http.client import GroupAnswers, ProxyClient, ProxyError
from .trl_one_turn import OneTurn
from .trl_reward import TRLReward
from .trl_rollout import TRLRollout
from .verl import VerlPluginError, check_verl
from .verl_scorer import EnvironmentScorer, FinishedTrajectory, TrajectoryScorer
from .verl_settings import VerlConfigError

__all__ = [
    "EnvironmentScorer",
    "FinishedTrajectory",
    "GroupAnswers",
    "GroupScoring",
    "OneTurn",
    "ProxyClient",
    "ProxyError",
    "StepAdvantages",
    "TRLReward",
    "TRLRollout",
    "TrajectoryScorer",
    "VerlConfigError",
    "VerlPluginError",
    "check_verl",
]
