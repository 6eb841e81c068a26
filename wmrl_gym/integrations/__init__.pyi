from .group_scoring import GroupScoring, StepAdvantages
from .verl import VerlPluginError, check_verl
from .verl_scorer import EnvironmentScorer, FinishedTrajectory, TrajectoryScorer
from .verl_settings import VerlConfigError

__all__ = [
    "EnvironmentScorer",
    "FinishedTrajectory",
    "GroupScoring",
    "StepAdvantages",
    "TrajectoryScorer",
    "VerlConfigError",
    "VerlPluginError",
    "check_verl",
]
