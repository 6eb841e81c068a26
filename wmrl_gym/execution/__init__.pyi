from .cache import CachedExecutor
from .isolation import SandboxUnavailable
from .limits import SandboxLimits, SandboxResult
from .local import LocalExecutor
from .probe import ProbeReport, probe
from .sandbox import Sandbox

__all__ = [
    "CachedExecutor",
    "LocalExecutor",
    "ProbeReport",
    "Sandbox",
    "SandboxLimits",
    "SandboxResult",
    "SandboxUnavailable",
    "probe",
]
