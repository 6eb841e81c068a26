"""The estimators that scripts choose from, with what each can stand and about how well it does."""

from __future__ import annotations

from dataclasses import dataclass

from wmrl_gym.corpus.generator.facts import TaskFacts


@dataclass(frozen=True)
class Estimator:
    """One scikit-learn estimator and the settings that authors give it."""

    name: str
    module: str
    settings: tuple[str, ...]
    tier: int
    """0 weak, 1 plain, 2 good, 3 strong, on most data."""
    finite: bool = True
    """Refuses missing values."""
    dense: bool = False
    """Refuses sparse matrices."""
    probability: bool = True
    """Has predict_proba (classifiers)."""
    scaled: bool = False
    """Wants scaled features."""

    @property
    def imported(self) -> str:
        """Its import line."""
        return f"from sklearn.{self.module} import {self.name}"


_TREES = ("n_estimators=50", "n_estimators=100", "n_estimators=200, random_state=0", "random_state=0", "")
_BOOSTING = ("", "n_estimators=200", "learning_rate=0.05, n_estimators=200", "max_depth=2", "random_state=0")
_HISTOGRAM = ("", "max_iter=50", "learning_rate=0.05", "max_leaf_nodes=15")
_NEIGHBOURS = ("", "n_neighbors=3", "n_neighbors=10", "n_neighbors=25")
_DEPTHS = ("", "max_depth=3", "max_depth=5", "random_state=0")

REGRESSORS = (
    Estimator("DummyRegressor", "dummy", ("", 'strategy="median"'), 0, finite=False),
    Estimator("Lasso", "linear_model", ("", "alpha=0.1", "alpha=0.01"), 0, scaled=True),
    Estimator("DecisionTreeRegressor", "tree", _DEPTHS, 0),
    Estimator("KNeighborsRegressor", "neighbors", _NEIGHBOURS, 0, scaled=True),
    Estimator("LinearRegression", "linear_model", ("",), 1),
    Estimator("Ridge", "linear_model", ("", "alpha=1.0", "alpha=10.0", "alpha=0.1"), 1),
    Estimator("SVR", "svm", ("", "C=10", "C=100"), 1, scaled=True),
    Estimator("RandomForestRegressor", "ensemble", _TREES, 2),
    Estimator("ExtraTreesRegressor", "ensemble", _TREES, 2),
    Estimator("GradientBoostingRegressor", "ensemble", _BOOSTING, 3),
    Estimator("HistGradientBoostingRegressor", "ensemble", _HISTOGRAM, 3, finite=False, dense=True),
)
CLASSIFIERS = (
    Estimator("DummyClassifier", "dummy", ("", 'strategy="prior"'), 0, finite=False),
    Estimator("GaussianNB", "naive_bayes", ("",), 0, dense=True),
    Estimator("DecisionTreeClassifier", "tree", _DEPTHS, 0),
    Estimator("KNeighborsClassifier", "neighbors", _NEIGHBOURS, 0, scaled=True),
    Estimator("LogisticRegression", "linear_model", ("max_iter=1000", "", "C=0.1, max_iter=1000"), 1, scaled=True),
    Estimator("RidgeClassifier", "linear_model", ("", "alpha=10.0"), 1, probability=False),
    Estimator("SVC", "svm", ("", "C=10", "C=100"), 1, probability=False, scaled=True),
    Estimator("RandomForestClassifier", "ensemble", _TREES, 2),
    Estimator("ExtraTreesClassifier", "ensemble", _TREES, 2),
    Estimator("GradientBoostingClassifier", "ensemble", _BOOSTING, 3),
    Estimator("HistGradientBoostingClassifier", "ensemble", _HISTOGRAM, 3, finite=False, dense=True),
)
TEXT_REGRESSORS = (
    Estimator("DummyRegressor", "dummy", ("",), 0),
    Estimator("KNeighborsRegressor", "neighbors", _NEIGHBOURS, 0),
    Estimator("DecisionTreeRegressor", "tree", ("max_depth=5", "max_depth=10"), 0),
    Estimator("Lasso", "linear_model", ("alpha=0.01", "alpha=0.1"), 0),
    Estimator("LinearSVR", "svm", ("", "C=0.1"), 1),
    Estimator("SVR", "svm", ("", "C=10"), 3),
    Estimator("Ridge", "linear_model", ("", "alpha=1.0", "alpha=3.0"), 3),
)
TEXT_CLASSIFIERS = (
    Estimator("DummyClassifier", "dummy", ("",), 0),
    Estimator("KNeighborsClassifier", "neighbors", _NEIGHBOURS, 0),
    Estimator("DecisionTreeClassifier", "tree", ("max_depth=5", "max_depth=10"), 0),
    Estimator("RandomForestClassifier", "ensemble", ("n_estimators=50", "n_estimators=100"), 1),
    Estimator("MultinomialNB", "naive_bayes", ("", "alpha=0.1"), 2),
    Estimator("LinearSVC", "svm", ("", "C=0.5"), 3, probability=False),
    Estimator("RidgeClassifier", "linear_model", ("", "alpha=3.0"), 2, probability=False),
    Estimator("LogisticRegression", "linear_model", ("max_iter=1000", "C=10, max_iter=1000", ""), 3),
)
_IMAGE_NAMES = {"HistGradientBoostingClassifier", "HistGradientBoostingRegressor", "Lasso"}
_IMAGE_NAMES |= {"GradientBoostingClassifier", "GradientBoostingRegressor"}
_IMAGE_TIERS = {"SVC": 3, "SVR": 2, "ExtraTreesClassifier": 3, "KNeighborsClassifier": 2, "Ridge": 2}


def estimators_for(facts: TaskFacts) -> tuple[Estimator, ...]:
    """The pool for a competition."""
    if facts.modality == "text":
        return TEXT_REGRESSORS if facts.regression else TEXT_CLASSIFIERS
    pool = REGRESSORS if facts.regression else CLASSIFIERS
    if facts.modality == "image":  # boosting over hundreds of pixels takes longer than a script is given
        return tuple(estimator for estimator in pool if estimator.name not in _IMAGE_NAMES)
    return pool


def tier(estimator: Estimator, facts: TaskFacts) -> int:
    """Strength on this modality."""
    return _IMAGE_TIERS.get(estimator.name, estimator.tier) if facts.modality == "image" else estimator.tier
