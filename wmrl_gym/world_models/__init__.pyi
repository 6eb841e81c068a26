from .cheap_checks import CheapChecks
from .distorted import DistortedWorldModel
from .goal_progress import GoalProgressWorldModel, MonotoneBias
from .llm_static_checker.checker import LLMStaticChecker
from .llm_static_checker.settings import AskingSettings, JudgedEnvironment, JudgingSettings
from .robometer.http_transport import HTTPTransport
from .robometer.lerobot_transport import LeRobotTransport
from .robometer.model import RobometerWorldModel
from .static_analysis.model import StaticAnalysis
from .verdicts import aggregate, first_failure

__all__ = [
    "AskingSettings",
    "CheapChecks",
    "DistortedWorldModel",
    "GoalProgressWorldModel",
    "HTTPTransport",
    "JudgedEnvironment",
    "JudgingSettings",
    "LLMStaticChecker",
    "LeRobotTransport",
    "MonotoneBias",
    "RobometerWorldModel",
    "StaticAnalysis",
    "aggregate",
    "first_failure",
]
