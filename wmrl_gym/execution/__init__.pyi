from .cache import CachedExecutor
from .isolation import SandboxUnavailable
from .limits import SandboxLimits, SandboxResult
from .local import LocalExecutor
from .probe import ProbeReport, probe
from .ray.executor import RayExecutor
from .sandbox import Sandbox

__all__ = [
    "CachedExecutor",
    "LocalExecutor",
    "ProbeReport",
    "RayExecutor",
    "Sandbox",
    "SandboxLimits",
    "SandboxResult",
    "SandboxUnavailable",
    "probe",
]
