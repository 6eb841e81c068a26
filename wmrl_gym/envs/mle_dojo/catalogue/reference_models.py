"""Estimators of the reference solutions, by name, for labels and for numbers.

The same name means the same idea on both sides, so that one list of solutions serves every metric.
"""

from __future__ import annotations

from typing import Any

from sklearn import (
    discriminant_analysis,
    dummy,
    ensemble,
    kernel_ridge,
    linear_model,
    naive_bayes,
    neighbors,
    neural_network,
    svm,
    tree,
)

SEED = 0


def classifier(name: str) -> Any:
    """A fresh classifier.

    Raises:
        KeyError: if there is none of that name.
    """
    makers = {
        "constant": lambda: dummy.DummyClassifier(strategy="prior"),
        "guess": lambda: dummy.DummyClassifier(strategy="stratified", random_state=SEED),
        "linear": lambda: linear_model.LogisticRegression(max_iter=300),
        "linear_weak": lambda: linear_model.LogisticRegression(C=0.003, max_iter=300),
        "linear_stiff": lambda: linear_model.LogisticRegression(C=0.1, max_iter=300),
        "linear_loose": lambda: linear_model.LogisticRegression(C=10.0, max_iter=300),
        "linear_balanced": lambda: linear_model.LogisticRegression(class_weight="balanced", max_iter=300),
        "discriminant": lambda: discriminant_analysis.LinearDiscriminantAnalysis(solver="lsqr", shrinkage=0.1),
        "online": lambda: linear_model.SGDClassifier(loss="log_loss", max_iter=20, tol=None, random_state=SEED),
        "bayes": naive_bayes.GaussianNB,
        "counts": naive_bayes.MultinomialNB,
        "counts_smooth": lambda: naive_bayes.ComplementNB(alpha=0.1),
        "presence": lambda: naive_bayes.BernoulliNB(alpha=0.3),
        "nearest": lambda: neighbors.KNeighborsClassifier(1),
        "neighbours": neighbors.KNeighborsClassifier,
        "neighbours_many": lambda: neighbors.KNeighborsClassifier(25, weights="distance"),
        "stump": lambda: tree.DecisionTreeClassifier(max_depth=1, random_state=SEED),
        "tree_small": lambda: tree.DecisionTreeClassifier(max_depth=3, random_state=SEED),
        "tree_medium": lambda: tree.DecisionTreeClassifier(max_depth=7, min_samples_leaf=5, random_state=SEED),
        "tree": lambda: tree.DecisionTreeClassifier(random_state=SEED),
        "bagging": lambda: ensemble.BaggingClassifier(n_estimators=20, random_state=SEED),
        "forest_shallow": lambda: ensemble.RandomForestClassifier(30, max_depth=3, random_state=SEED),
        "forest": lambda: ensemble.RandomForestClassifier(100, random_state=SEED),
        "forest_tuned": lambda: ensemble.RandomForestClassifier(300, min_samples_leaf=2, random_state=SEED),
        "extra": lambda: ensemble.ExtraTreesClassifier(200, random_state=SEED),
        "extra_smooth": lambda: ensemble.ExtraTreesClassifier(300, min_samples_leaf=3, random_state=SEED),
        "adaboost": lambda: ensemble.AdaBoostClassifier(n_estimators=40, random_state=SEED),
        "boost_short": lambda: ensemble.HistGradientBoostingClassifier(max_iter=10, random_state=SEED),
        "boost": lambda: ensemble.HistGradientBoostingClassifier(random_state=SEED),
        "boost_slow": lambda: ensemble.HistGradientBoostingClassifier(
            learning_rate=0.05, max_iter=120, max_leaf_nodes=8, l2_regularization=1.0, random_state=SEED
        ),
        "boost_stumps": lambda: ensemble.GradientBoostingClassifier(max_depth=1, n_estimators=60, random_state=SEED),
        "boost_classic": lambda: ensemble.GradientBoostingClassifier(
            max_depth=3, subsample=0.7, max_features="sqrt", random_state=SEED
        ),
        "kernel": lambda: svm.SVC(),
        "kernel_loose": lambda: svm.SVC(C=10.0),
        "margin": lambda: svm.LinearSVC(C=1.0),
        "margin_stiff": lambda: svm.LinearSVC(C=0.1),
        "network": lambda: neural_network.MLPClassifier((64,), max_iter=60, random_state=SEED),
        "network_stiff": lambda: neural_network.MLPClassifier((32,), alpha=1.0, max_iter=80, random_state=SEED),
        "blend": lambda: ensemble.VotingClassifier(
            [(name, classifier(name)) for name in ("linear", "forest", "boost_slow")], voting="soft"
        ),
        "blend_smooth": lambda: ensemble.VotingClassifier(
            [(name, classifier(name)) for name in ("linear_stiff", "extra_smooth", "boost_classic")], voting="soft"
        ),
    }
    return makers[name]()


def regressor(name: str) -> Any:
    """A fresh regressor.

    Raises:
        KeyError: if there is none of that name.
    """
    makers = {
        "constant": lambda: dummy.DummyRegressor(strategy="mean"),
        "guess": lambda: dummy.DummyRegressor(strategy="quantile", quantile=0.7),
        "linear": lambda: linear_model.Ridge(1.0),
        "linear_weak": lambda: linear_model.Ridge(3000.0),
        "linear_stiff": lambda: linear_model.Ridge(30.0),
        "linear_loose": lambda: linear_model.Ridge(0.01),
        "linear_balanced": lambda: linear_model.HuberRegressor(max_iter=300),
        "discriminant": linear_model.BayesianRidge,
        "online": lambda: linear_model.SGDRegressor(max_iter=20, tol=None, random_state=SEED),
        "bayes": lambda: linear_model.Lasso(1.0),
        "counts": lambda: linear_model.Ridge(5.0),
        "counts_smooth": lambda: linear_model.Ridge(0.3),
        "presence": lambda: linear_model.ElasticNet(0.001),
        "nearest": lambda: neighbors.KNeighborsRegressor(1),
        "neighbours": neighbors.KNeighborsRegressor,
        "neighbours_many": lambda: neighbors.KNeighborsRegressor(25, weights="distance"),
        "stump": lambda: tree.DecisionTreeRegressor(max_depth=1, random_state=SEED),
        "tree_small": lambda: tree.DecisionTreeRegressor(max_depth=3, random_state=SEED),
        "tree_medium": lambda: tree.DecisionTreeRegressor(max_depth=7, min_samples_leaf=5, random_state=SEED),
        "tree": lambda: tree.DecisionTreeRegressor(random_state=SEED),
        "bagging": lambda: ensemble.BaggingRegressor(n_estimators=20, random_state=SEED),
        "forest_shallow": lambda: ensemble.RandomForestRegressor(30, max_depth=3, max_features=0.4, random_state=SEED),
        "forest": lambda: ensemble.RandomForestRegressor(50, max_features=0.5, random_state=SEED),
        "forest_tuned": lambda: ensemble.RandomForestRegressor(
            150, max_features=0.3, min_samples_leaf=2, random_state=SEED
        ),
        "extra": lambda: ensemble.ExtraTreesRegressor(100, max_features=0.4, random_state=SEED),
        "extra_smooth": lambda: ensemble.ExtraTreesRegressor(
            200, max_features=0.4, min_samples_leaf=3, random_state=SEED
        ),
        "adaboost": lambda: ensemble.AdaBoostRegressor(n_estimators=40, random_state=SEED),
        "boost_short": lambda: ensemble.HistGradientBoostingRegressor(max_iter=10, random_state=SEED),
        "boost": lambda: ensemble.HistGradientBoostingRegressor(random_state=SEED),
        "boost_slow": lambda: ensemble.HistGradientBoostingRegressor(
            learning_rate=0.05, max_iter=120, max_leaf_nodes=8, l2_regularization=1.0, random_state=SEED
        ),
        "boost_stumps": lambda: ensemble.GradientBoostingRegressor(max_depth=1, n_estimators=60, random_state=SEED),
        "boost_classic": lambda: ensemble.GradientBoostingRegressor(
            max_depth=3, subsample=0.7, max_features="sqrt", random_state=SEED
        ),
        "kernel": lambda: svm.SVR(),
        "kernel_loose": lambda: svm.SVR(C=30.0),
        "margin": lambda: svm.LinearSVR(C=1.0, random_state=SEED),
        "margin_stiff": lambda: svm.LinearSVR(C=0.1, random_state=SEED),
        "network": lambda: neural_network.MLPRegressor(hidden_layer_sizes=(64,), max_iter=60, random_state=SEED),
        "network_stiff": lambda: kernel_ridge.KernelRidge(kernel="rbf", alpha=0.3),
        "blend": lambda: ensemble.VotingRegressor(
            [(name, regressor(name)) for name in ("linear", "forest", "boost_slow")]
        ),
        "blend_smooth": lambda: ensemble.VotingRegressor(
            [(name, regressor(name)) for name in ("linear_stiff", "extra_smooth", "boost_classic")]
        ),
    }
    return makers[name]()
