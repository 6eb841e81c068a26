"""Loads the modules that register what functions, methods and classes mean."""

from __future__ import annotations

import functools
import importlib

_MODULES = (
    "data.array_functions",
    "data.array_methods",
    "data.arrays",
    "language.builtin_functions",
    "estimators.column_transformers",
    "language.constants",
    "language.containers",
    "estimators.decomposition",
    "language.dictionaries",
    "estimators.encoders",
    "estimators.ensembles",
    "estimators.estimators",
    "data.frame_computing",
    "data.frame_indexing",
    "data.frame_methods",
    "data.frames",
    "data.images",
    "data.merging",
    "data.missing_values",
    "walk.objects",
    "data.pandas_functions",
    "language.paths",
    "estimators.pipelines",
    "estimators.searches",
    "estimators.selection",
    "data.series_methods",
    "data.stacking",
    "data.tables",
    "estimators.transformers",
    "estimators.vectorizers",
)


@functools.cache
def load_semantics() -> None:
    """Import them all, once: scikit-learn and pandas are imported only when something is analysed."""
    for name in _MODULES:
        importlib.import_module(f"wmrl_gym.scriptcheck.{name}")
