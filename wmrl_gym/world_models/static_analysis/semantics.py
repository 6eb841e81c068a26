"""Loads the modules that register what functions, methods and classes mean."""

from __future__ import annotations

import functools
import importlib

_MODULES = (
    "operators",
    "containers",
    "objects",
    "builtin_functions",
    "files",
    "frames",
    "frame_methods",
    "series_methods",
    "pandas_functions",
    "arrays",
    "estimators",
    "transformers",
    "composition",
    "selection",
)


@functools.cache
def load_semantics() -> None:
    """Import them all, once: scikit-learn and pandas are imported only when something is analysed."""
    for name in _MODULES:
        importlib.import_module(f"wmrl_gym.world_models.static_analysis.{name}")
