"""Mistakes in imports, names and calls."""

from __future__ import annotations

import re

import numpy as np

from wmrl_gym.corpus.generator.mistake import Faulty, mistake, replaced, without_line
from wmrl_gym.corpus.generator.scripts import Plan

# 1 imports and names --------------------------------------------------------------------------------------------------


@mistake(1, weight=1.5)
def missing_import(plan: Plan, script: str, rng: np.random.Generator) -> Faulty | None:
    """The estimator, or NumPy, is used but never imported."""
    if "np." in script and rng.random() < 0.5:
        return Faulty(without_line(script, "import numpy as np"), "NameError: name 'np' is not defined")
    name = plan.estimator.name
    return Faulty(without_line(script, plan.estimator.imported), f"NameError: name '{name}' is not defined")


_MISSPELT = (
    ("Regressor", "Regresor"),
    ("Classifier", "Classifer"),
    ("LogisticRegression", "LogisticRegressor"),
    ("LinearRegression", "LinearRegressor"),
    ("RidgeClassifier", "RidgeClasifier"),
    ("Ridge", "RidgeRegression"),
    ("Lasso", "LassoRegression"),
    ("LinearSVC", "LinearSVClassifier"),
    ("LinearSVR", "LinearSVRegressor"),
    ("SVC", "SVClassifier"),
    ("SVR", "SVRegressor"),
    ("NB", "NaiveBayes"),
)


@mistake(1)
def misspelt_class(plan: Plan, script: str, rng: np.random.Generator) -> Faulty | None:
    """The estimator's name is slightly wrong."""
    name = plan.estimator.name
    wrong = next(name.replace(old, new) for old, new in _MISSPELT if old in name)
    edited = re.sub(rf"\b{name}\b", wrong, script)
    return Faulty(edited, f"ImportError: cannot import name '{wrong}' from 'sklearn.{plan.estimator.module}'")


_OTHER_MODULE = {"ensemble": "tree", "tree": "ensemble", "linear_model": "svm", "svm": "linear_model"}


@mistake(1)
def wrong_module(plan: Plan, script: str, rng: np.random.Generator) -> Faulty | None:
    """The estimator is imported from a module that does not hold it."""
    module, name = plan.estimator.module, plan.estimator.name
    wrong = _OTHER_MODULE.get(module, "linear_model")
    complaint = f"ImportError: cannot import name '{name}' from 'sklearn.{wrong}'"
    return replaced(script, f"sklearn.{module} import {name}", f"sklearn.{wrong} import {name}", complaint)


@mistake(1)
def absent_package(plan: Plan, script: str, rng: np.random.Generator) -> Faulty | None:
    """A boosting package that is not installed."""
    kind = "Regressor" if plan.facts.regression else "Classifier"
    package, name = [("lightgbm", f"LGBM{kind}"), ("xgboost", f"XGB{kind}")][rng.integers(2)]
    edited = script.replace(plan.estimator.imported, f"from {package} import {name}")
    edited = edited.replace(f"{plan.estimator.name}({plan.settings})", f"{name}()")
    return Faulty(edited, f"ModuleNotFoundError: No module named '{package}'")


@mistake(1)
def undefined_name(plan: Plan, script: str, rng: np.random.Generator) -> Faulty | None:
    """The test features are called by a name that nobody gave them."""
    names = plan.names
    wrong = {"X_test": "test_X", "features_test": "test_features"}[names.features_test]
    complaint = f"NameError: name '{wrong}' is not defined"
    for method in ("predict", "predict_proba"):
        faulty = replaced(script, f"{method}({names.features_test})", f"{method}({wrong})", complaint)
        if faulty is not None:
            return faulty
    return None


# 2 calls against the installed versions -------------------------------------------------------------------------------


_WRONG_KEYWORD = (
    ("n_estimators=", "n_estimator="),
    ("max_iter=", "max_iters="),
    ("n_neighbors=", "neighbors="),
    ("max_depth=", "depth="),
    ("alpha=", "lambda_="),
    ("C=", "c="),
)
_GONE_KEYWORD = {
    "LinearRegression": "normalize=True",
    "Ridge": "normalize=True",
    "Lasso": "normalize=True",
    "HistGradientBoostingRegressor": "n_estimators=100",
    "HistGradientBoostingClassifier": "n_estimators=100",
    "GaussianNB": "alpha=1.0",
    "RandomForestRegressor": "num_trees=100",
    "RandomForestClassifier": "num_trees=100",
    "SVR": "c=10",
    "SVC": "c=10",
    "KNeighborsRegressor": "k=5",
    "KNeighborsClassifier": "k=5",
}


@mistake(2, weight=1.5)
def wrong_keyword(plan: Plan, script: str, rng: np.random.Generator) -> Faulty | None:
    """An argument that the estimator does not take, or no longer takes."""
    name, settings = plan.estimator.name, plan.settings
    for right, wrong in _WRONG_KEYWORD:
        if settings.startswith(right):
            edited = settings.replace(right, wrong, 1)
            break
    else:
        if name not in _GONE_KEYWORD:
            return None
        edited = _GONE_KEYWORD[name] + (f", {settings}" if settings else "")
    keyword = edited.split("=")[0]
    complaint = f"TypeError: {name}.__init__() got an unexpected keyword argument '{keyword}'"
    return replaced(script, f"{name}({settings})", f"{name}({edited})", complaint)


_GONE_VALUE = {
    "RandomForestRegressor": ("max_features", '"auto"'),
    "RandomForestClassifier": ("max_features", '"auto"'),
    "DecisionTreeRegressor": ("criterion", '"mse"'),
    "GradientBoostingRegressor": ("loss", '"ls"'),
    "GradientBoostingClassifier": ("loss", '"deviance"'),
    "LogisticRegression": ("solver", '"sgd"'),
}
_ALLOWED = {
    "max_features": (
        "an int in the range [1, inf), a float in the range (0.0, 1.0], a str among {'sqrt', 'log2'} or None"
    ),
    "criterion": "a str among {'squared_error', 'friedman_mse', 'absolute_error', 'poisson'}",
    "loss": "a str among {'squared_error', 'log_loss', 'exponential', 'huber'}",
    "solver": "a str among {'liblinear', 'newton-cholesky', 'saga', 'lbfgs', 'sag', 'newton-cg'}",
}


@mistake(2)
def gone_value(plan: Plan, script: str, rng: np.random.Generator) -> Faulty | None:
    """A value that the argument took in older versions."""
    name, settings = plan.estimator.name, plan.settings
    if name not in _GONE_VALUE or _GONE_VALUE[name][0] in settings:
        return None
    keyword, value = _GONE_VALUE[name]
    edited = f"{keyword}={value}" + (f", {settings}" if settings else "")
    problem = f"The '{keyword}' parameter of {name} must be {_ALLOWED[keyword]}. Got '{value.strip(chr(34))}' instead."
    complaint = f"sklearn.utils._param_validation.InvalidParameterError: {problem}"
    return replaced(script, f"{name}({settings})", f"{name}({edited})", complaint)


@mistake(2)
def sparse_keyword(plan: Plan, script: str, rng: np.random.Generator) -> Faulty | None:
    """OneHotEncoder's old argument."""
    complaint = "TypeError: OneHotEncoder.__init__() got an unexpected keyword argument 'sparse'"
    right = 'OneHotEncoder(handle_unknown="ignore")'
    return replaced(script, right, 'OneHotEncoder(handle_unknown="ignore", sparse=False)', complaint)


@mistake(2, weight=1.5)
def gone_append(plan: Plan, script: str, rng: np.random.Generator) -> Faulty | None:
    """DataFrame.append, which pandas removed."""
    names = plan.names
    dropped = f'{names.train}.drop(columns=["{plan.facts.target}"])'
    complaint = "AttributeError: 'DataFrame' object has no attribute 'append'"
    return replaced(script, f"pd.concat([{dropped}, {names.test}])", f"{dropped}.append({names.test})", complaint)


@mistake(2)
def gone_fill_method(plan: Plan, script: str, rng: np.random.Generator) -> Faulty | None:
    """fillna(method=...), which pandas removed."""
    edited = re.sub(r"\.fillna\((?!\"\").*\)\n", '.fillna(method="ffill")\n', script)
    complaint = "TypeError: NDFrame.fillna() got an unexpected keyword argument 'method'"
    return Faulty(edited, complaint) if edited != script else None
