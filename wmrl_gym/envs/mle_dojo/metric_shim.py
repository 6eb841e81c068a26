"""Loads the ``metric.py`` of a competition without MLE-Dojo being installed.

Those files begin with ``from mledojo.metrics.base import CompetitionMetrics, InvalidSubmissionError``. While one is
loaded, a module of that name is lent to it, unless the real one can be imported. It is taken away again
afterwards, so that a real MLE-Dojo is never shadowed and nobody mistakes the loan for an installation.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import inspect
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

_LENT = ("mledojo", "mledojo.metrics", "mledojo.metrics.base")
_import_lock = threading.RLock()


class CompetitionMetrics:
    """Base class of a competition's metric: validates a submission and scores it.

    Subclasses take ``(value, higher_is_better)`` with defaults, and define the two methods below.
    """

    def __init__(self, higher_is_better: bool = True) -> None:
        self.higher_is_better = higher_is_better

    def evaluate(self, y_true: Any, y_pred: Any) -> float:
        """Score predictions against the answers; both are data frames."""
        raise NotImplementedError(f"{type(self).__name__} does not define evaluate(y_true, y_pred)")

    def validate_submission(self, submission: Any, ground_truth: Any) -> Any:
        """Raise `InvalidSubmissionError` if the submission cannot be graded."""
        raise NotImplementedError(f"{type(self).__name__} does not define validate_submission(submission, answers)")


class InvalidSubmissionError(Exception):
    """The submission cannot be graded."""


class MetricError(Exception):
    """A competition's metric file cannot be loaded."""


def _lent_modules() -> dict[str, ModuleType]:
    modules = {name: ModuleType(name, "Lent by wmrl_gym while a competition's metric is loaded.") for name in _LENT}
    for parent in _LENT[:2]:
        modules[parent].__path__ = []
    modules["mledojo"].metrics = modules["mledojo.metrics"]  # type: ignore[attr-defined]
    modules["mledojo.metrics"].base = modules["mledojo.metrics.base"]  # type: ignore[attr-defined]
    for exported in (CompetitionMetrics, InvalidSubmissionError):
        setattr(modules["mledojo.metrics.base"], exported.__name__, exported)
    return modules


@contextmanager
def mledojo_importable() -> Iterator[None]:
    """Inside this block ``mledojo.metrics.base`` can be imported: the real one if there is one, else ours."""
    with _import_lock:
        try:
            importlib.import_module("mledojo.metrics.base")
        except ImportError:
            pass
        else:
            yield
            return
        # A real package that is installed in part (its other modules in use) must come back untouched.
        displaced = {name: sys.modules[name] for name in _LENT if name in sys.modules}
        sys.modules.update(_lent_modules())
        try:
            yield
        finally:
            for name in _LENT:
                sys.modules.pop(name, None)
            sys.modules.update(displaced)


def load_metric_class(path: Path) -> type:
    """The first metric class that a ``metric.py`` defines.

    Args:
        path: the file. It is run as Python: it belongs to the competition and is trusted, as in MLE-Dojo.

    Raises:
        MetricError: if it cannot be imported or defines no ``CompetitionMetrics`` subclass.
    """
    name = f"wmrl_competition_metric_{hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:16]}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise MetricError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    with mledojo_importable():
        base = importlib.import_module("mledojo.metrics.base").CompetitionMetrics
        # Dataclasses and typing look a class's module up by name while it is being defined.
        sys.modules[name] = module
        try:
            spec.loader.exec_module(module)
        except ImportError as error:
            raise MetricError(
                f"{path} needs a package that is not installed: {error}. "
                f"Install {(error.name or 'it').split('.')[0]!r}, or leave this competition out."
            ) from error
        except (Exception, SystemExit) as error:
            raise MetricError(f"{path} fails to load: {type(error).__name__}: {error}") from error
        finally:
            sys.modules.pop(name, None)
    for value in vars(module).values():
        if inspect.isclass(value) and issubclass(value, base) and value.__module__ == name:
            return value
    raise MetricError(f"{path} defines no subclass of mledojo.metrics.base.CompetitionMetrics")
