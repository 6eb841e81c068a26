from .arms import Plan, plan_comparison
from .assembly import Domain, executor_for
from .capacity.measured import capacity_of_run
from .capacity.planning import Planned, plan_capacity
from .capacity.simulation import StepTimes, simulate
from .cold_start import ColdStart, TrainedAgent
from .comparing import Comparison
from .corpus_drawing import CorpusDrawing
from .evaluating import AgentEvaluation
from .exporting import ExportedAgent, export
from .fidelity_measurement import FidelityMeasurement
from .predicting import Prediction
from .records.metrics import read_metrics
from .records.run_directory import RunDirectory
from .serving import Serving
from .stopping import StopRequested
from .training import RunProgress, TrainingRun

__all__ = [
    "AgentEvaluation",
    "ColdStart",
    "Comparison",
    "CorpusDrawing",
    "Domain",
    "ExportedAgent",
    "FidelityMeasurement",
    "Plan",
    "Planned",
    "Prediction",
    "RunDirectory",
    "RunProgress",
    "Serving",
    "StepTimes",
    "StopRequested",
    "TrainedAgent",
    "TrainingRun",
    "capacity_of_run",
    "executor_for",
    "export",
    "plan_capacity",
    "plan_comparison",
    "read_metrics",
    "simulate",
]
