"""All that is modelled, found by looking through this package: a file of models has its own `MODELS`."""

from __future__ import annotations

import functools
import importlib
import pkgutil

from wmrl_gym.scriptcheck import data, estimators, language, walk
from wmrl_gym.scriptcheck.models import Models


@functools.cache
def all_models() -> Models:
    """The models of all files, joined once: the files are imported only when something is analysed."""
    found = Models()
    for room in (data, estimators, language, walk):
        for module in pkgutil.iter_modules(room.__path__, f"{room.__name__}."):
            offered = getattr(importlib.import_module(module.name), "MODELS", None)
            if isinstance(offered, Models):
                found.join(offered)
    return found
