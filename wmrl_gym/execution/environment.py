"""A name for everything beside the script that decides what comes of it."""

from __future__ import annotations

import dataclasses
import platform
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from wmrl_gym.core import fingerprint
from wmrl_gym.execution.bubblewrap import script_environment
from wmrl_gym.execution.limits import SandboxLimits

SCIENTIFIC_STACK = (
    *("numpy", "pandas", "scipy", "scikit-learn", "joblib", "threadpoolctl", "pillow", "torch", "torchvision"),
    *("lightgbm", "xgboost", "catboost", "statsmodels", "nltk", "transformers", "opencv-python-headless"),
)


def installed_versions() -> dict[str, str]:
    """Version of each package of the scientific stack that is installed, by distribution name."""
    versions = {}
    for name in SCIENTIFIC_STACK:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return versions


def surroundings_here() -> dict[str, str]:
    """What of this machine decides outcomes and can be told by name: interpreter, architecture, packages."""
    return {"python": platform.python_version(), "machine": platform.machine(), **installed_versions()}


def environment_key(limits: SandboxLimits, surroundings: Mapping[str, Any] | None = None, start: str = "fresh") -> str:
    """Hex SHA-256 of interpreter, scientific stack, limits, and the harness around the script.

    Args:
        limits: of the sandbox.
        surroundings: what else decides the outcome, for example the version of the competitions' answers and the reward
            ladder; plain data.
        start: how scripts are started: "fresh" or "warm".
    """
    return fingerprint(
        {
            "python": platform.python_version(),
            "machine": platform.machine(),
            "packages": installed_versions(),
            "start": start,
            "limits": dataclasses.asdict(limits),
            "environment": script_environment(),
            "runner": Path(__file__).with_name("runner.py").read_bytes(),
            "surroundings": dict(surroundings or {}),
        }
    )
