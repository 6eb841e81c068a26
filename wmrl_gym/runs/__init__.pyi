from .arms import Plan, plan_comparison
from .assembly import Domain, executor_for
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
    "Prediction",
    "RunDirectory",
    "RunProgress",
    "Serving",
    "StopRequested",
    "TrainedAgent",
    "TrainingRun",
    "executor_for",
    "export",
    "plan_comparison",
    "read_metrics",
]
