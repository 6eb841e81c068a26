"""Loads the modules that register what functions, methods and classes mean."""

from __future__ import annotations

import functools
import importlib

_MODULES = (
    "array_functions",
    "array_methods",
    "arrays",
    "builtin_functions",
    "column_transformers",
    "constants",
    "containers",
    "decomposition",
    "dictionaries",
    "encoders",
    "ensembles",
    "estimators",
    "frame_computing",
    "frame_indexing",
    "frame_methods",
    "frames",
    "images",
    "merging",
    "missing_values",
    "objects",
    "pandas_functions",
    "paths",
    "pipelines",
    "searches",
    "selection",
    "series_methods",
    "stacking",
    "tables",
    "transformers",
    "vectorizers",
)


@functools.cache
def load_semantics() -> None:
    """Import them all, once: scikit-learn and pandas are imported only when something is analysed."""
    for name in _MODULES:
        importlib.import_module(f"wmrl_gym.world_models.static_analysis.{name}")
