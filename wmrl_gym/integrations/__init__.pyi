from .group_scoring import GroupScoring, StepAdvantages

__all__ = [
    "GroupScoring",
    "StepAdvantages",
]
