"""What a script costs: seconds and memory, from data size, estimator family and hyper-parameters.

The constants are CPU seconds on one core of an AMD EPYC (2.4 GHz class, AVX2) with one OpenMP thread, scikit-learn 1.9,
fitted by hand to `process_time` of each family on 500 to 8,000 rows of 10 to 60 normal features, with 2, 5 and 10
classes and a numeric target, and on sparse matrices of 3,000 rows with 12 and 60 non-zeros per row of 5,000 and 8,000
columns (``benchmarks/estimator_costs.py`` measures them again). They hold within a factor of two on these, which is
enough to tell a script that needs minutes from one that needs seconds.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from wmrl_gym.scriptcheck.cells import Cells
from wmrl_gym.scriptcheck.faults import Fault
from wmrl_gym.scriptcheck.inventory import DataFile
from wmrl_gym.scriptcheck.values.estimators import Estimator
from wmrl_gym.scriptcheck.values.objects import constant
from wmrl_gym.scriptcheck.verdicts import Check

if TYPE_CHECKING:
    from wmrl_gym.scriptcheck.models import Call

START_SECONDS = 1.5
"""Interpreter start and imports."""
OPEN_IMAGE_SECONDS = 1.2e-4
CACHE_BYTES = 1e6
"""Data larger than a core's cache makes trees slower."""


@dataclass(frozen=True)
class Size:
    """Size of a training set."""

    rows: float
    width: float
    classes: float
    """Trees or models per round: 1 for two classes or a numeric target, else the number of classes."""
    nonzeros: float | None
    """Non-zero values per row of a sparse matrix, None for a dense one."""


def read_table_seconds(file: DataFile) -> float:
    """Reading a table: pandas parses about 40 MB a second on one core."""
    return 2e-3 + file.size_bytes / 40e6


def spend(call: Call, seconds: float, what: str = "") -> None:
    """Account for time, as often as the code is executed.

    Raises:
        Fault: a timeout, if the budget is used up.
    """
    interpreter = call.interpreter
    interpreter.state.seconds += seconds * interpreter.multiplicity
    total = START_SECONDS + interpreter.state.seconds
    if total > interpreter.budget_seconds:
        limit = interpreter.budget_seconds
        ratio = total / limit
        raise Fault(
            Check.COMPUTE_BUDGET,
            "TimeoutError",
            f"execution timed out after {limit:g} s",
            confidence=min(0.95, 0.5 + 0.15 * (ratio - 1.0)),
            second="MemoryError",
            reason=f"{what or 'this call'} brings the run to about {total:.0f} s, with a limit of {limit:g} s",
        )


def allocate(call: Call, megabytes: float) -> None:
    """Account for one large allocation.

    Raises:
        Fault: MemoryError, if it cannot fit.
    """
    interpreter = call.interpreter
    interpreter.state.memory_mb = max(interpreter.state.memory_mb, megabytes)
    if megabytes > interpreter.memory_limit_mb:
        message = f"Unable to allocate {megabytes / 1024:.3g} GiB"
        raise Fault(Check.COMPUTE_BUDGET, "MemoryError", message, confidence=0.8)


# Texts


def vocabulary_size(estimator: Estimator, cells: Cells, documents: int | None, *, capped: bool = True) -> int:
    """A guess at how many columns a vectorizer makes (Heaps' law, its constants fitted to short English texts).

    Args:
        estimator: the vectorizer.
        cells: the texts.
        documents: how many there are.
        capped: whether ``max_features`` counts.
    """
    length, rows = cells.length or 40.0, documents or 1000
    letters = rows * length
    grams = _ngrams(estimator)
    if str(estimator.parameter("analyzer", "word")).startswith("char"):
        size = sum(min(60.0**n, 11.0 * letters**0.5) for n in range(grams[0], grams[1] + 1))
    else:
        words = max(letters / 5.5, rows)
        size = 4.5 * words**0.62 + (grams[1] - 1) * 0.3 * words
    most = constant(estimator.params.get("max_features"), None)
    if capped and isinstance(most, int) and not isinstance(most, bool):
        size = min(size, most)
    return max(1, int(size))


def _ngrams(estimator: Estimator) -> tuple[int, int]:
    grams = constant(estimator.params.get("ngram_range"), (1, 1))
    usable = isinstance(grams, tuple) and len(grams) == 2 and all(isinstance(n, int) for n in grams)
    return (max(1, grams[0]), min(8, grams[1])) if usable else (1, 1)


def spend_vectorize(call: Call, estimator: Estimator, rows: int | None, cells: Cells) -> None:
    """Account for turning texts into counts."""
    low, high = _ngrams(estimator)
    by_letter = str(estimator.parameter("analyzer", "word")).startswith("char")
    per_letter = (6e-7 if by_letter else 1.5e-7) * (high - low + 1)
    spend(call, (rows or 0) * (cells.length or 40.0) * per_letter, "vectorizing the texts")


# Fitting


def spend_fit(call: Call, estimator: Estimator, features: Any, target: Any) -> None:
    """Account for one fit; an unknown size costs nothing, for want of an opinion."""
    if features is None or features.rows is None:
        return
    width = features.width or features.likely_width
    if width is None:
        return
    classes = 1.0
    if target is not None and "Classifi" in _kind(estimator) and (target.cells.unique or 2) > 2:
        classes = float(target.cells.unique)
    nonzeros = None
    if features.sparse:
        nonzeros = min(width, max(4.0, _nonzeros(features)))
    size = Size(float(features.rows), float(width), classes, nonzeros)
    spend(call, fit_seconds(estimator, size), f"{estimator.cls.__name__}.fit")


def _kind(estimator: Estimator) -> str:
    name = estimator.cls.__name__
    return name if name.endswith(("Classifier", "Regressor")) else name + "Classifier" * (not name.endswith("SVR"))


def _nonzeros(features: Any) -> float:
    """Non-zero values per row: about the words, or the n-grams, of a text."""
    length = features.cells.length or 60.0
    return length * (2.0 if "char" in features.cells.tags else 0.18)


def fit_seconds(estimator: Estimator, size: Size) -> float:
    """Seconds of one fit."""
    name = estimator.cls.__name__
    model = next((model for prefix, model in _MODELS if name.startswith(prefix)), _linear)
    return model(estimator, size)


def _value(estimator: Estimator, name: str, default: float) -> float:
    found = estimator.parameter(name, None)
    return float(found) if isinstance(found, int | float) and not isinstance(found, bool) else default


def _tree_depth_share(estimator: Estimator, rows: float) -> float:
    """A bound on the depth saves most of the levels of a full tree."""
    full = max(1.0, math.log2(max(rows, 2.0)))
    return min(1.0, _value(estimator, "max_depth", full) / full)


def _features_tried(estimator: Estimator, width: float, default: float) -> float:
    wanted = estimator.parameter("max_features", None)
    if wanted in ("sqrt", "log2"):
        return math.sqrt(width)
    if isinstance(wanted, float):
        return width * wanted
    return float(wanted) if isinstance(wanted, int) and not isinstance(wanted, bool) else default


def _one_tree(estimator: Estimator, size: Size, tried: float, constant_: float) -> float:
    if size.nonzeros is not None:
        nodes = min(size.rows, 2.0 ** _value(estimator, "max_depth", 60.0))
        return 6.5e-8 * nodes * tried * (1.6 if size.classes > 2 else 1.0)
    levels = math.log2(max(size.rows, 2.0)) * _tree_depth_share(estimator, size.rows)
    beyond_cache = 1.6 if size.rows * size.width * 4 > CACHE_BYTES else 1.0
    return constant_ * size.rows * levels * tried * beyond_cache


def _forest(estimator: Estimator, size: Size) -> float:
    name = estimator.cls.__name__
    regressor, extra = name.endswith("Regressor"), name.startswith("Extra")
    tried = _features_tried(estimator, size.width, size.width if regressor else math.sqrt(size.width))
    constant_ = {(True, True): 1.4e-8, (True, False): 3.5e-8, (False, True): 1.5e-8, (False, False): 5e-8}[
        regressor, extra
    ]
    return _value(estimator, "n_estimators", 100) * (1.1e-3 + _one_tree(estimator, size, tried, constant_))


def _tree(estimator: Estimator, size: Size) -> float:
    return 1e-3 + _one_tree(estimator, size, _features_tried(estimator, size.width, size.width), 7e-8)


def _boosting(estimator: Estimator, size: Size) -> float:
    depth = _value(estimator, "max_depth", 3.0)
    values = size.rows * (size.width if size.nonzeros is None else size.nonzeros)
    tried = _features_tried(estimator, size.width, size.width) / size.width
    share = _value(estimator, "subsample", 1.0) * max(tried, 0.1)
    per_tree = 5e-4 + (2.3e-7 if size.nonzeros is None else 1.6e-7) * values * min(depth, 30.0) / 3.0 * share
    return _value(estimator, "n_estimators", 100) * size.classes * per_tree


def _histogram(estimator: Estimator, size: Size) -> float:
    leaves = _value(estimator, "max_leaf_nodes", 31.0) / 31.0
    per_tree = 5e-4 + 6e-5 * size.width * leaves + 1e-8 * size.rows * size.width
    return _value(estimator, "max_iter", 100) * size.classes * per_tree


def _kernel(estimator: Estimator, size: Size) -> float:
    regressor = estimator.cls.__name__.endswith("R")
    strength = _value(estimator, "C", 1.0)
    if size.nonzeros is not None:
        per_pair = 3e-8 + 7e-9 * size.nonzeros
    else:
        per_pair = (1.8e-8 if regressor else 0.9e-8) + 2.2e-10 * size.width
    seconds = size.rows**2 * per_pair * max(1.0, strength**0.4) * (1.6 if size.classes > 2 else 1.0)
    seconds *= 6.0 if estimator.parameter("probability", False) is True else 1.0
    return seconds * (8.0 if estimator.parameter("kernel", "rbf") == "linear" and size.nonzeros is None else 1.0)


def _logistic(estimator: Estimator, size: Size) -> float:
    rounds = min(_value(estimator, "max_iter", 100.0), 300.0)
    values = size.rows * (size.width if size.nonzeros is None else size.nonzeros)
    slow = 4.0 if estimator.parameter("solver", "lbfgs") in ("saga", "sag") else 1.0
    return 3e-3 + rounds * slow * size.classes * (4e-9 * values + 1e-8 * size.width)


def _network(estimator: Estimator, size: Size) -> float:
    layers = constant(estimator.params.get("hidden_layer_sizes"), (100,))
    sizes = [n for n in (layers if isinstance(layers, tuple) else (layers,)) if isinstance(n, int)] or [100]
    widths = [size.width, *sizes]
    weights = sum(a * b for a, b in itertools.pairwise(widths))
    return _value(estimator, "max_iter", 200) * size.rows * (1.5e-6 * len(sizes) + 1e-10 * weights)


def _adaboost(estimator: Estimator, size: Size) -> float:
    return _value(estimator, "n_estimators", 50) * (1e-3 + 1.3e-7 * size.rows * size.width)


def _linear(estimator: Estimator, size: Size) -> float:
    if size.nonzeros is not None:
        return 2e-3 + 2e-7 * size.rows * size.nonzeros * size.classes
    return 1e-3 + 5e-10 * size.rows * size.width * min(size.width, size.rows) + 2e-8 * size.rows * size.width


def _cubic(estimator: Estimator, size: Size) -> float:
    return 1e-10 * size.rows**3 + 2e-8 * size.rows**2


def _clusters(estimator: Estimator, size: Size) -> float:
    return 5e-8 * size.rows * size.width * _value(estimator, "n_clusters", 8.0)


_MODELS: tuple[tuple[str, Callable[[Estimator, Size], float]], ...] = (
    ("RandomForest", _forest),
    ("ExtraTrees", _forest),
    ("DecisionTree", _tree),
    ("ExtraTree", _tree),
    ("HistGradientBoosting", _histogram),
    ("GradientBoosting", _boosting),
    ("AdaBoost", _adaboost),
    ("SVC", _kernel),
    ("SVR", _kernel),
    ("NuSV", _kernel),
    ("LogisticRegression", _logistic),
    ("MLP", _network),
    ("GaussianProcess", _cubic),
    ("KernelRidge", _cubic),
    ("KMeans", _clusters),
    ("KNeighbors", lambda estimator, size: 2e-8 * size.rows * size.width),
    ("Dummy", lambda estimator, size: 1e-4),
)


def spend_predict(call: Call, estimator: Estimator, features: Any) -> None:
    """Account for predictions."""
    if features is None or features.rows is None or estimator.fit is None or estimator.fit.rows is None:
        return
    name, width = estimator.cls.__name__, features.width or features.likely_width or 50
    pairs = float(features.rows) * estimator.fit.rows
    seconds = 1e-4
    if name.startswith("KNeighbors"):
        seconds = 1.2e-8 * pairs
    elif name.startswith(("SVC", "SVR", "NuSV")):
        per_pair = 3e-8 + 6e-9 * _nonzeros(features) if features.sparse else 1.2e-8 + 4e-10 * width
        seconds = pairs * per_pair
    elif name.startswith(("RandomForest", "ExtraTrees")):
        seconds = 1.5e-7 * features.rows * _value(estimator, "n_estimators", 100)
    spend(call, seconds, f"{name}.predict")
