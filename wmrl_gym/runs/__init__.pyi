from .arms import Plan, plan_comparison
from .assembly import Domain, executor_for
from .comparing import Comparison
from .evaluating import AgentEvaluation
from .records.metrics import read_metrics
from .records.run_directory import RunDirectory
from .stopping import StopRequested
from .training import RunProgress, TrainingRun

__all__ = [
    "AgentEvaluation",
    "Comparison",
    "Domain",
    "Plan",
    "RunDirectory",
    "RunProgress",
    "StopRequested",
    "TrainingRun",
    "executor_for",
    "plan_comparison",
    "read_metrics",
]
