from .dsbench.env import DSBenchEnv
from .libero.env import LIBEROLongEnv
from .mle_dojo.catalogue import prepare
from .mle_dojo.competition import Competition, CompetitionError, default_data_root, load_competition
from .mle_dojo.env import MLEDojoEnv
from .mle_dojo.ladder import RewardLadder, Status
from .mle_dojo.overview_building import build_overview
from .mle_dojo.overview_text import render_overview
from .unicode_text import UnicodeText

__all__ = [
    "Competition",
    "CompetitionError",
    "DSBenchEnv",
    "LIBEROLongEnv",
    "MLEDojoEnv",
    "RewardLadder",
    "Status",
    "UnicodeText",
    "build_overview",
    "default_data_root",
    "load_competition",
    "prepare",
    "render_overview",
]
