"""Measures what fits cost, beside what static analysis believes.

``OMP_NUM_THREADS=1 python benchmarks/estimator_costs.py``: CPU seconds of one thread. The constants of
`wmrl_gym.scriptcheck.cost` were fitted by hand to this table.
"""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np
import scipy.sparse
from sklearn import ensemble, linear_model, naive_bayes, neighbors, neural_network, svm, tree

from wmrl_gym.scriptcheck.cost import Size, fit_seconds
from wmrl_gym.scriptcheck.values import Const, Estimator

CLASSIFIERS = [
    ensemble.RandomForestClassifier(20),
    ensemble.ExtraTreesClassifier(20),
    ensemble.GradientBoostingClassifier(n_estimators=20),
    ensemble.AdaBoostClassifier(n_estimators=20),
    tree.DecisionTreeClassifier(),
    svm.SVC(),
    svm.LinearSVC(),
    linear_model.LogisticRegression(max_iter=300),
    linear_model.RidgeClassifier(),
    neighbors.KNeighborsClassifier(),
]
REGRESSORS = [
    ensemble.RandomForestRegressor(5),
    ensemble.ExtraTreesRegressor(5),
    ensemble.GradientBoostingRegressor(n_estimators=20),
    tree.DecisionTreeRegressor(),
    svm.SVR(),
    linear_model.Ridge(),
    linear_model.Lasso(alpha=0.01),
]
DENSE_ONLY = [ensemble.HistGradientBoostingClassifier(), naive_bayes.GaussianNB(), neural_network.MLPClassifier()]


def main() -> None:
    warnings.simplefilter("ignore")
    rng = np.random.default_rng(0)
    for rows, width in ((500, 10), (2000, 10), (2000, 60), (8000, 20)):
        features = rng.normal(size=(rows, width))
        signal = features[:, :5].sum(axis=1) + rng.normal(size=rows)
        for classes in (2, 5):
            _measure([*CLASSIFIERS, *DENSE_ONLY], features, _labels(signal, classes), classes, None)
        _measure(REGRESSORS, features, signal, 1, None)
    for width, nonzeros in ((5000, 12), (8000, 60)):
        sparse = scipy.sparse.random(3000, width, density=nonzeros / width, format="csr", random_state=0)
        signal = np.asarray(sparse[:, :200].sum(axis=1)).ravel() + 0.1 * rng.normal(size=3000)
        _measure(CLASSIFIERS[:-1], sparse, _labels(signal, 2), 2, nonzeros)
        _measure(REGRESSORS, sparse, signal, 1, nonzeros)


def _labels(signal: np.ndarray, classes: int) -> np.ndarray:
    return np.digitize(signal, np.quantile(signal, np.linspace(0, 1, classes + 1)[1:-1]))


def _measure(models: list[Any], features: Any, target: np.ndarray, classes: int, nonzeros: float | None) -> None:
    rows, width = features.shape
    for model in models:
        started = time.process_time()
        model.fit(features, target)
        spent = time.process_time() - started
        constants = {
            k: Const(v) for k, v in model.get_params().items() if isinstance(v, bool | int | float | str | None)
        }
        size = Size(rows, width, float(classes) if classes > 2 else 1.0, nonzeros)
        believed = fit_seconds(Estimator(type(model), constants), size)
        kind = f"{classes} classes" if classes > 1 else "numbers"
        name = type(model).__name__
        print(
            f"{name:32s} {rows:6d} x {width:5d} {kind:10s} measured {spent:8.3f} s, believed {believed:8.3f} s",
            flush=True,
        )


if __name__ == "__main__":
    main()
