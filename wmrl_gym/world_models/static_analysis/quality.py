"""How good a valid submission may be: a table of estimator families, and what speaks for or against the rest.

The base of each family is its mean percentile among the reference solutions of the *training* competitions of that
modality, over all kinds of features (rounded to 0.05). The adjustments are the differences between kinds of features
and of hyper-parameters on the same boards. None of it knows a single competition; within one it is a coarse guess.
"""

from __future__ import annotations

from typing import Any

from wmrl_gym.scriptcheck.cells import Cells, Predictor
from wmrl_gym.scriptcheck.overview import Overview
from wmrl_gym.scriptcheck.scope import Write
from wmrl_gym.scriptcheck.values import Frame, constant

BASES: dict[str, dict[str, float]] = {
    "tabular": {
        "Dummy": 0.05,
        "NaiveBayes": 0.25,
        "NearestNeighbours": 0.30,
        "Tree": 0.30,
        "Sparse": 0.30,
        "Linear": 0.55,
        "Margin": 0.50,
        "Discriminant": 0.60,
        "Kernel": 0.55,
        "AdaBoost": 0.45,
        "Network": 0.45,
        "Forest": 0.60,
        "ExtraTrees": 0.70,
        "Histogram": 0.65,
        "Boosting": 0.70,
        "Blend": 0.85,
    },
    "text": {
        "Dummy": 0.05,
        "Sparse": 0.20,
        "NearestNeighbours": 0.35,
        "Tree": 0.30,
        "AdaBoost": 0.30,
        "Boosting": 0.40,
        "Histogram": 0.45,
        "Kernel": 0.55,
        "Forest": 0.55,
        "ExtraTrees": 0.55,
        "NaiveBayes": 0.60,
        "Discriminant": 0.50,
        "Network": 0.60,
        "Linear": 0.65,
        "Margin": 0.70,
        "Blend": 0.80,
    },
    "image": {
        "Dummy": 0.05,
        "Sparse": 0.20,
        "NaiveBayes": 0.35,
        "Tree": 0.30,
        "Linear": 0.45,
        "Margin": 0.40,
        "Discriminant": 0.40,
        "NearestNeighbours": 0.55,
        "AdaBoost": 0.40,
        "Kernel": 0.70,
        "Network": 0.65,
        "Histogram": 0.70,
        "Boosting": 0.65,
        "Forest": 0.70,
        "ExtraTrees": 0.75,
        "Blend": 0.80,
    },
}
"""Percentile of a family with ordinary features and default settings, by modality."""

_FAMILIES: tuple[tuple[str, str], ...] = (
    ("Dummy", "Dummy"),
    ("HistGradientBoosting", "Histogram"),
    ("GradientBoosting", "Boosting"),
    ("LGBM", "Boosting"),
    ("XGB", "Boosting"),
    ("ExtraTrees", "ExtraTrees"),
    ("RandomForest", "Forest"),
    ("Bagging", "Forest"),
    ("AdaBoost", "AdaBoost"),
    ("Voting", "Blend"),
    ("Stacking", "Blend"),
    ("DecisionTree", "Tree"),
    ("ExtraTree", "Tree"),
    ("KNeighbors", "NearestNeighbours"),
    ("RadiusNeighbors", "NearestNeighbours"),
    ("NearestCentroid", "NearestNeighbours"),
    ("GaussianNB", "NaiveBayes"),
    ("MultinomialNB", "NaiveBayes"),
    ("ComplementNB", "NaiveBayes"),
    ("BernoulliNB", "NaiveBayes"),
    ("LinearSV", "Margin"),
    ("SV", "Kernel"),
    ("NuSV", "Kernel"),
    ("KernelRidge", "Kernel"),
    ("GaussianProcess", "Kernel"),
    ("MLP", "Network"),
    ("LinearDiscriminant", "Discriminant"),
    ("QuadraticDiscriminant", "Discriminant"),
    ("Lasso", "Sparse"),
    ("ElasticNet", "Sparse"),
)
_SCALE_SENSITIVE = ("Kernel", "NearestNeighbours", "Network")
_LABELS = ("accuracy", "macro_f1", "f1", "balanced_accuracy", "qwk", "mcc")
_PROBABILITIES = ("auc", "log_loss", "logloss", "ap", "gini")


def family_of(class_name: str) -> str:
    """The estimator family of a class."""
    return next((family for prefix, family in _FAMILIES if class_name.startswith(prefix)), "Linear")


def expected_percentile(overview: Overview, write: Write | None) -> float:
    """Percentile a valid submission is expected to reach, 0 to 1."""
    frame = write.value if write is not None else None
    if not isinstance(frame, Frame):
        return 0.3
    targets = [name for name in overview.contract.columns if name != overview.contract.id_column]
    guesses = [_column(overview, frame.columns.get(name, frame.rest)) for name in targets]
    return sum(guesses) / len(guesses) if guesses else 0.3


def _column(overview: Overview, cells: Cells) -> float:
    if not cells.predictors:
        computed = cells.kind == "unknown" and cells.origin is None
        return 0.3 if computed else 0.03  # a constant, or the sample submission as it was
    each = [predictor_quality(overview, predictor, cells) for predictor in cells.predictors]
    blended = max(each) + (0.07 if len(each) > 1 else 0.0)
    return min(max(blended * _fit_for_metric(overview, cells), 0.01), 0.97)


def predictor_quality(overview: Overview, predictor: Predictor, cells: Cells) -> float:
    """Percentile of one model's predictions, before it is asked whether the metric wants that kind of prediction."""
    estimator = predictor.estimator
    family = family_of(estimator.cls.__name__)
    base = BASES[overview.modality][family]
    if family == "Dummy":
        return base
    quality = base + _settings(family, estimator, overview)
    quality += _scaling(family, predictor, overview)
    quality += _target_scale(overview, predictor, cells) + _target_size(family, predictor)
    quality *= _features(overview, predictor)
    rows = _train_rows(overview)
    if predictor.rows is not None and rows:
        quality *= 0.6 + 0.4 * min(1.0, predictor.rows / rows)
    return min(max(quality, 0.01), 0.97)


def _number(estimator: Any, name: str) -> float | None:
    found = constant(estimator.params.get(name), None)
    return float(found) if isinstance(found, int | float) and not isinstance(found, bool) else None


def _settings(family: str, estimator: Any, overview: Overview) -> float:
    """What hyper-parameters add or take."""
    depth, trees = _number(estimator, "max_depth"), _number(estimator, "n_estimators")
    change = 0.0
    if family == "Tree":
        shallow = {1.0: -0.15, 2.0: -0.10}
        change += 0.0 if depth is None else shallow.get(depth, 0.05 if depth <= 4 else 0.12 if depth <= 8 else 0.0)
    elif family in ("Forest", "ExtraTrees"):
        change += -0.25 if depth is not None and depth <= 3 else 0.0
        change += (
            0.0 if trees is None else -0.25 if trees < 10 else -0.1 if trees < 40 else 0.05 if trees >= 200 else 0.0
        )
        change += 0.05 if (_number(estimator, "min_samples_leaf") or 1) in (2, 3, 4, 5) else 0.0
    elif family in ("Boosting", "Histogram"):
        rounds = trees if family == "Boosting" else _number(estimator, "max_iter")
        change += 0.0 if rounds is None else -0.35 if rounds < 10 else -0.15 if rounds < 40 else 0.03
        rate = _number(estimator, "learning_rate")
        change += 0.0 if rate is None else 0.05 if 0.02 <= rate < 0.1 else -0.2 if rate >= 0.8 or rate < 0.005 else 0.0
        change -= 0.1 if depth == 1 else 0.0
    elif family == "NearestNeighbours":
        near = _number(estimator, "n_neighbors") or 5
        change += -0.12 if near <= 2 else -0.03 if near <= 4 else 0.12 if near >= 10 else 0.0
        if overview.modality == "image":
            change = 0.0
    elif family == "Kernel":
        strength = _number(estimator, "C") or 1.0
        change += 0.1 if strength >= 5 else -0.15 if strength < 0.1 else 0.0
    elif family == "Sparse":
        change += _shrinkage(estimator)
    elif family == "Linear":
        change -= 0.3 if overview.modality == "image" and estimator.cls.__name__ == "LinearRegression" else 0.0
        change -= 0.2 if (_number(estimator, "C") or 1.0) < 0.01 or (_number(estimator, "alpha") or 1.0) > 500 else 0.0
    return change


def _shrinkage(estimator: Any) -> float:
    alpha = _number(estimator, "alpha")
    return -0.1 if alpha is None or alpha >= 1 else 0.2 if alpha <= 0.01 else 0.1


def _scaling(family: str, predictor: Predictor, overview: Overview) -> float:
    if overview.modality != "tabular" or family not in _SCALE_SENSITIVE:
        return 0.0
    return 0.1 if "scaled" in predictor.tags else -0.05


def _target_scale(overview: Overview, predictor: Predictor, cells: Cells) -> float:
    """A logarithmic metric rewards a logarithmic target, if the way back is not forgotten."""
    logged, back = "log" in predictor.target.tags, "exp" in cells.tags
    if logged and not back and overview.metric in ("rmse", "rmsle", "mae"):
        return -0.9
    return 0.2 if logged and back and overview.metric == "rmsle" else 0.0


def _target_size(family: str, predictor: Predictor) -> float:
    """Support vector regression with an ordinary C hardly leaves the mean of a target in the hundreds."""
    name = predictor.estimator.cls.__name__
    if family not in ("Kernel", "Margin") or not name.endswith("SVR") or "log" in predictor.target.tags:
        return 0.0
    sizes = [abs(float(example)) for example in predictor.target.examples if _is_number(example)]
    strength = _number(predictor.estimator, "C") or 1.0
    return -0.35 if sizes and max(sizes) > 50.0 * strength else 0.0


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _features(overview: Overview, predictor: Predictor) -> float:
    """Share of the quality that the features leave, 1 for ordinary ones."""
    if overview.modality == "text":
        return _text_features(overview, predictor)
    if overview.modality == "image":
        return 1.0 if "pixels" in predictor.sources else 0.3
    usable = _usable_columns(overview)
    if not usable or not predictor.sources:
        return 1.0
    used = len(usable & predictor.sources) / len(usable)
    encoded = {"onehot", "ordinal"} & predictor.tags
    return (0.15 + 0.85 * used**0.6) * (1.05 if "onehot" in encoded else 1.0)


def _text_features(overview: Overview, predictor: Predictor) -> float:
    tags = predictor.tags
    if not tags & {"tfidf", "counts"}:
        return 0.25  # lengths and the like
    words = _words_per_text(overview, predictor.sources)
    share = 0.9
    if "char" in tags:
        share += 0.2 if words > 4 else 0.3
    elif words <= 1.2:
        share = 0.25  # nearly every word of the test table is a new one
    else:
        share += 0.1 if "ngrams" in tags else 0.0
        share -= 0.15 if words < 3 else 0.0
    share -= 0.15 if "small_vocabulary" in tags else 0.0
    share -= 0.15 if "reduced" in tags else 0.0
    return max(share, 0.1)


def _words_per_text(overview: Overview, sources: frozenset[str]) -> float:
    """Mean number of words in the examples of the text columns that were used; 10 if there are none."""
    counts = [
        len(example.split())
        for file in overview.inventory.files
        for column in file.columns
        if column.name in sources and column.dtype == "str" and file.path.startswith("train")
        for example in column.examples
    ]
    return sum(counts) / len(counts) if counts else 10.0


def _usable_columns(overview: Overview) -> set[str]:
    tables = [f for f in overview.inventory.files if f.kind == "table" and f.path.startswith("test")]
    if not tables:
        return set()
    return {column.name for column in tables[0].columns} - {overview.contract.id_column}


def _train_rows(overview: Overview) -> int | None:
    return next((f.rows for f in overview.inventory.files if f.kind == "table" and f.path.startswith("train")), None)


def _fit_for_metric(overview: Overview, cells: Cells) -> float:
    """Whether the predictions are of the kind that the metric rewards."""
    if overview.metric in _PROBABILITIES and cells.role == "labels":
        return 0.4 if overview.metric in ("auc", "ap", "gini") else 0.02
    if overview.metric in _LABELS and cells.role in ("probability", "regression", "decision") and cells.fractional:
        return 0.02
    if overview.metric in ("rmse", "rmsle", "mae") and cells.role == "labels":
        return 0.6
    return 1.0
