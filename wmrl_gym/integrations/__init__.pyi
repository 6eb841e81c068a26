from .group_scoring import GroupScoring, StepAdvantages
from .http.client import GroupAnswers, ProxyClient, ProxyError

__all__ = [
    "GroupAnswers",
    "GroupScoring",
    "ProxyClient",
    "ProxyError",
    "StepAdvantages",
]
