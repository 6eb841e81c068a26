from .advantages import group_advantages
from .behaviour_cloning import clone
from .checkpoint import latest_checkpoint, load_checkpoint, load_latest_checkpoint, save_checkpoint
from .evaluation import EpisodeRecord, Evaluation, EvaluationSettings, evaluate
from .grpo import GRPOSettings
from .policy_update import PolicyUpdate, TrainablePolicy
from .rollout import GroupPlan, collect
from .supervised import SupervisedSettings, fine_tune
from .wmrl_grpo import WMRLGRPO, WMRLGRPOSettings

__all__ = [
    "WMRLGRPO",
    "EpisodeRecord",
    "Evaluation",
    "EvaluationSettings",
    "GRPOSettings",
    "GroupPlan",
    "PolicyUpdate",
    "SupervisedSettings",
    "TrainablePolicy",
    "WMRLGRPOSettings",
    "clone",
    "collect",
    "evaluate",
    "fine_tune",
    "group_advantages",
    "latest_checkpoint",
    "load_checkpoint",
    "load_latest_checkpoint",
    "save_checkpoint",
]
