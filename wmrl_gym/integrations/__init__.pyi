from .group_scoring import GroupScoring, StepAdvantages
from .http.client import GroupAnswers, ProxyClient, ProxyError
from .trl.one_turn import OneTurn
from .trl.reward import TRLReward
from .trl.rollout import TRLRollout
from .verl.check import VerlPluginError, check_verl
from .verl.scorer import EnvironmentScorer, FinishedTrajectory, TrajectoryScorer
from .verl.settings import VerlConfigError

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
