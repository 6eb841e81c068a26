"""The mistakes that authors make, each of the eight kinds, as edits of a script that would run.

A mistake is one visible choice (a name, an argument, a line), so that an agent can unlearn it. Each knows when it
applies, and what the sandbox would say.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from wmrl_gym.policies.nano_corpus.estimators import estimators_for
from wmrl_gym.policies.nano_corpus.scripts import Plan, render_plan


@dataclass(frozen=True)
class Faulty:
    """A script with a mistake and the sandbox's words for it."""

    script: str
    complaint: str
    """For example "KeyError: 'target'", "timeout", "invalid: ..." or "no code"."""


Edit = Callable[[Plan, str, np.random.Generator], Faulty | None]


@dataclass(frozen=True)
class Mistake:
    """One kind of mistake."""

    name: str
    check: int
    """Which of the eight checks should catch it: 1 imports and names, 2 calls, 3 files and columns, 4 shapes and
    dtypes, 5 compute budget, 6 other runtime errors, 7 submission, 0 no runnable code at all."""
    status: str
    """What execution says: "no_code", "syntax_error", "runtime_error", "timeout" or "invalid_submission"."""
    weight: float
    edit: Edit


MISTAKES: list[Mistake] = []


def _mistake(check: int, status: str = "runtime_error", weight: float = 1.0) -> Callable[[Edit], Edit]:
    def register(edit: Edit) -> Edit:
        MISTAKES.append(Mistake(edit.__name__, check, status, weight, edit))
        return edit

    return register


def draw_faulty(plan: Plan, rng: np.random.Generator) -> tuple[Mistake, Faulty]:
    """A mistake that applies to this plan, by weight, and the script that has it."""
    script = render_plan(plan)
    candidates = list(MISTAKES)
    while True:
        weights = np.array([mistake.weight for mistake in candidates])
        mistake = candidates.pop(int(rng.choice(len(candidates), p=weights / weights.sum())))
        faulty = mistake.edit(plan, script, rng)
        if faulty is not None and faulty.script != script:
            return mistake, faulty


def _replaced(script: str, old: str, new: str, complaint: str, count: int = 1) -> Faulty | None:
    return Faulty(script.replace(old, new, count), complaint) if old in script else None


def _without_line(script: str, line: str) -> str:
    return script.replace(line + "\n", "", 1)


# 1 imports and names -----------------------------------------------------------------------------------------------


@_mistake(1, weight=1.5)
def missing_import(plan: Plan, script: str, rng: np.random.Generator) -> Faulty | None:
    """The estimator, or NumPy, is used but never imported."""
    if "np." in script and rng.random() < 0.5:
        return Faulty(_without_line(script, "import numpy as np"), "NameError: name 'np' is not defined")
    name = plan.estimator.name
    return Faulty(_without_line(script, plan.estimator.imported), f"NameError: name '{name}' is not defined")


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


@_mistake(1)
def misspelt_class(plan: Plan, script: str, rng: np.random.Generator) -> Faulty | None:
    """The estimator's name is slightly wrong."""
    name = plan.estimator.name
    wrong = next(name.replace(old, new) for old, new in _MISSPELT if old in name)
    edited = re.sub(rf"\b{name}\b", wrong, script)
    return Faulty(edited, f"ImportError: cannot import name '{wrong}' from 'sklearn.{plan.estimator.module}'")


_OTHER_MODULE = {"ensemble": "tree", "tree": "ensemble", "linear_model": "svm", "svm": "linear_model"}


@_mistake(1)
def wrong_module(plan: Plan, script: str, rng: np.random.Generator) -> Faulty | None:
    """The estimator is imported from a module that does not hold it."""
    module, name = plan.estimator.module, plan.estimator.name
    wrong = _OTHER_MODULE.get(module, "linear_model")
    complaint = f"ImportError: cannot import name '{name}' from 'sklearn.{wrong}'"
    return _replaced(script, f"sklearn.{module} import {name}", f"sklearn.{wrong} import {name}", complaint)


@_mistake(1)
def absent_package(plan: Plan, script: str, rng: np.random.Generator) -> Faulty | None:
    """A boosting package that is not installed."""
    kind = "Regressor" if plan.facts.regression else "Classifier"
    package, name = [("lightgbm", f"LGBM{kind}"), ("xgboost", f"XGB{kind}")][rng.integers(2)]
    edited = script.replace(plan.estimator.imported, f"from {package} import {name}")
    edited = edited.replace(f"{plan.estimator.name}({plan.settings})", f"{name}()")
    return Faulty(edited, f"ModuleNotFoundError: No module named '{package}'")


@_mistake(1)
def undefined_name(plan: Plan, script: str, rng: np.random.Generator) -> Faulty | None:
    """The test features are called by a name that nobody gave them."""
    names = plan.names
    wrong = {"X_test": "test_X", "features_test": "test_features"}[names.features_test]
    complaint = f"NameError: name '{wrong}' is not defined"
    for method in ("predict", "predict_proba"):
        faulty = _replaced(script, f"{method}({names.features_test})", f"{method}({wrong})", complaint)
        if faulty is not None:
            return faulty
    return None


# 2 calls against the installed versions ------------------------------------------------------------------------------


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


@_mistake(2, weight=1.5)
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
    return _replaced(script, f"{name}({settings})", f"{name}({edited})", complaint)


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


@_mistake(2)
def gone_value(plan: Plan, script: str, rng: np.random.Generator) -> Faulty | None:
    """A value that the argument took in older versions."""
    name, settings = plan.estimator.name, plan.settings
    if name not in _GONE_VALUE or _GONE_VALUE[name][0] in settings:
        return None
    keyword, value = _GONE_VALUE[name]
    edited = f"{keyword}={value}" + (f", {settings}" if settings else "")
    problem = f"The '{keyword}' parameter of {name} must be {_ALLOWED[keyword]}. Got '{value.strip(chr(34))}' instead."
    complaint = f"sklearn.utils._param_validation.InvalidParameterError: {problem}"
    return _replaced(script, f"{name}({settings})", f"{name}({edited})", complaint)


@_mistake(2)
def sparse_keyword(plan: Plan, script: str, rng: np.random.Generator) -> Faulty | None:
    """OneHotEncoder's old argument."""
    complaint = "TypeError: OneHotEncoder.__init__() got an unexpected keyword argument 'sparse'"
    right = 'OneHotEncoder(handle_unknown="ignore")'
    return _replaced(script, right, 'OneHotEncoder(handle_unknown="ignore", sparse=False)', complaint)


@_mistake(2, weight=1.5)
def gone_append(plan: Plan, script: str, rng: np.random.Generator) -> Faulty | None:
    """DataFrame.append, which pandas removed."""
    names = plan.names
    dropped = f'{names.train}.drop(columns=["{plan.facts.target}"])'
    complaint = "AttributeError: 'DataFrame' object has no attribute 'append'"
    return _replaced(script, f"pd.concat([{dropped}, {names.test}])", f"{dropped}.append({names.test})", complaint)


@_mistake(2)
def gone_fill_method(plan: Plan, script: str, rng: np.random.Generator) -> Faulty | None:
    """fillna(method=...), which pandas removed."""
    edited = re.sub(r"\.fillna\((?!\"\").*\)\n", '.fillna(method="ffill")\n', script)
    complaint = "TypeError: NDFrame.fillna() got an unexpected keyword argument 'method'"
    return Faulty(edited, complaint) if edited != script else None


# 3 files and columns -------------------------------------------------------------------------------------------------


@_mistake(3, weight=1.5)
def wrong_file(plan: Plan, script: str, rng: np.random.Generator) -> Faulty | None:
    """A file that is not there."""
    path = str(rng.choice(["{DATA_DIR}/training.csv", "{DATA_DIR}/data.csv", "{DATA_DIR}train.csv"]))
    real = path.replace("{DATA_DIR}", "/data")
    complaint = f"FileNotFoundError: [Errno 2] No such file or directory: '{real}'"
    return _replaced(script, "{DATA_DIR}/train.csv", path, complaint)


@_mistake(3, weight=1.5)
def wrong_column(plan: Plan, script: str, rng: np.random.Generator) -> Faulty | None:
    """The target is called by a usual name instead of its own."""
    target, wrong = plan.facts.target, str(rng.choice(["target", "label", "y"]))
    if wrong == target or wrong in plan.facts.numeric:
        return None
    line = f'{plan.names.target} = {plan.names.train}["{target}"]'
    return _replaced(script, line, line.replace(f'"{target}"', f'"{wrong}"'), f"KeyError: '{wrong}'")


@_mistake(3)
def dropped_column(plan: Plan, script: str, rng: np.random.Generator) -> Faulty | None:
    """The id is dropped from the test table, and needed later."""
    names, identifier = plan.names, plan.facts.id_column
    old = f'{names.features_test} = {names.test}.drop(columns=["{identifier}"])'
    new = f'{names.test} = {names.test}.drop(columns=["{identifier}"])\n{names.features_test} = {names.test}'
    return None if plan.from_sample else _replaced(script, old, new, f"KeyError: '{identifier}'")


@_mistake(3)
def target_from_test(plan: Plan, script: str, rng: np.random.Generator) -> Faulty | None:
    """The target is dropped from the test table, which does not have it."""
    names, facts = plan.names, plan.facts
    complaint = f"KeyError: \"['{facts.target}'] not found in axis\""
    old = f'{names.test}.drop(columns=["{facts.id_column}"])'
    return _replaced(script, old, f'{names.test}.drop(columns=["{facts.id_column}", "{facts.target}"])', complaint)


@_mistake(3, weight=2.0)
def wrong_image_path(plan: Plan, script: str, rng: np.random.Generator) -> Faulty | None:
    """Images sought in another folder or with another ending."""
    if plan.recipe != "pixels":
        return None
    wrong = str(rng.choice(["{DATA_DIR}/{folder}/{i}.jpg", "{DATA_DIR}/images/{i}.png", "{folder}/{i}.png"]))
    real = wrong.replace("{DATA_DIR}", "/data").replace("{folder}", "train").replace("{i}", "1")
    complaint = f"FileNotFoundError: [Errno 2] No such file or directory: '{real}'"
    return _replaced(script, "{DATA_DIR}/{folder}/{i}.png", wrong, complaint)


# 4 shapes and dtypes -------------------------------------------------------------------------------------------------


@_mistake(4, weight=3.0)
def strings_into_fit(plan: Plan, script: str, rng: np.random.Generator) -> Faulty | None:
    """Text columns reach the estimator."""
    if not plan.facts.categorical or plan.estimator.name.startswith("Dummy") or plan.facts.modality != "tabular":
        return None
    names = plan.names
    if plan.recipe == "numeric":
        edited = _without_line(script, f'{names.features} = {names.features}.select_dtypes("number")')
    elif plan.recipe == "codes":
        loop = 'for col in both.select_dtypes(exclude="number"):\n'
        edited = script.replace(loop + '    both[col] = both[col].astype("category").cat.codes\n', "")
    elif plan.recipe == "dummies":
        edited = _without_line(script, "both = pd.get_dummies(both)")
    else:
        return None
    if plan.facts.missing:  # filling comes before fitting, and fails first
        edited = re.sub(r"(?m)^.*\.fillna\(.*\n", "", edited)
    value = str(rng.choice(["a", "male", "north", "yes", "2010-04-01"]))
    return Faulty(edited, f"ValueError: could not convert string to float: '{value}'")


_REFUSES_MISSING = ("Linear", "Ridge", "Lasso", "KNeighbors", "SVR", "SVC", "Logistic", "GaussianNB", "Gradient")


@_mistake(6, weight=3.0)
def missing_into_fit(plan: Plan, script: str, rng: np.random.Generator) -> Faulty | None:
    """Missing values reach an estimator that refuses them."""
    if not plan.facts.missing or not plan.estimator.name.startswith(_REFUSES_MISSING) or not plan.facts.numeric:
        return None
    if plan.recipe not in ("numeric", "codes", "dummies"):
        return None
    edited = re.sub(r"(?m)^.*\.fillna\(.*\n", "", script)
    return Faulty(edited, "ValueError: Input X contains NaN.")


@_mistake(4)
def unequal_columns(plan: Plan, script: str, rng: np.random.Generator) -> Faulty | None:
    """The id stays in the training features alone."""
    if plan.recipe not in ("numeric", "transformer"):
        return None
    names, facts = plan.names, plan.facts
    old = f'{names.train}.drop(columns=["{facts.id_column}", "{facts.target}"])'
    complaint = (
        f"KeyError: \"['{facts.id_column}'] not in index\""
        if plan.recipe == "numeric"
        else f"ValueError: columns are missing: {{'{facts.id_column}'}}"
    )
    return _replaced(script, old, f'{names.train}.drop(columns=["{facts.target}"])', complaint)


@_mistake(4, weight=2.0)
def refitted_vectorizer(plan: Plan, script: str, rng: np.random.Generator) -> Faulty | None:
    """The vectorizer is fitted again on the test texts, and finds other words."""
    if "max_features" in plan.vectorizer or plan.estimator.name.startswith("Dummy"):
        return None
    found, expected = sorted(rng.integers(200, 4000, 2))
    name = plan.estimator.name
    complaint = f"ValueError: X has {found} features, but {name} is expecting {expected} features as input."
    return _replaced(script, "vec.transform(", "vec.fit_transform(", complaint)


@_mistake(4, weight=1.5)
def frame_into_vectorizer(plan: Plan, script: str, rng: np.random.Generator) -> Faulty | None:
    """A table instead of a column is vectorised: it iterates over its column names."""
    if plan.recipe != "words":
        return None
    names, column = plan.names, plan.facts.text_column
    edited = script.replace(f'{names.train}["{column}"]', f'{names.train}[["{column}"]]')
    complaint = f"ValueError: Found input variables with inconsistent numbers of samples: [1, {plan.facts.train_rows}]"
    return Faulty(edited, complaint)


@_mistake(4, weight=3.0)
def images_not_flattened(plan: Plan, script: str, rng: np.random.Generator) -> Faulty | None:
    """Images stay two-dimensional."""
    if plan.estimator.name.startswith("Dummy"):
        return None
    dimensions = 4 if plan.facts.image_mode == "RGB" else 3
    model = "PCA" if plan.reduce else "StandardScaler" if plan.scale else plan.estimator.name
    complaint = f"ValueError: Found array with dim {dimensions}, while dim <= 2 is required by {model}."
    return _replaced(script, ".ravel()", "", complaint)


@_mistake(4)
def predicted_training_rows(plan: Plan, script: str, rng: np.random.Generator) -> Faulty | None:
    """The training table is predicted instead of the test table."""
    names, facts = plan.names, plan.facts
    complaint = (
        f"ValueError: Length of values ({facts.train_rows}) does not match length of index ({facts.test_rows})"
        if plan.from_sample
        else f"ValueError: array length {facts.train_rows} does not match index length {facts.test_rows}"
    )
    return _replaced(script, f"({names.features_test})", f"({names.features})", complaint)


@_mistake(4, weight=2.0)
def both_probabilities(plan: Plan, script: str, rng: np.random.Generator) -> Faulty | None:
    """Both columns of predict_proba go into one column."""
    complaint = "ValueError: Per-column arrays must each be 1-dimensional"
    return None if plan.from_sample else _replaced(script, ")[:, 1]", ")", complaint)


# 2/6 what an estimator cannot do -------------------------------------------------------------------------------------


@_mistake(2, weight=2.0)
def absent_probability(plan: Plan, script: str, rng: np.random.Generator) -> Faulty | None:
    """predict_proba of an estimator that has none."""
    pool = [estimator for estimator in estimators_for(plan.facts) if not estimator.probability]
    if not plan.facts.probability or not pool or plan.recipe == "lengths":
        return None
    estimator = pool[rng.integers(len(pool))]
    changed = dataclasses.replace(plan, estimator=estimator, settings=estimator.settings[0], probability=True)
    complaint = f"AttributeError: '{estimator.name}' object has no attribute 'predict_proba'"
    if plan.scale or plan.reduce or plan.recipe == "transformer":
        complaint = "AttributeError: This 'Pipeline' has no attribute 'predict_proba'"
    elif estimator.name == "SVC":
        complaint = "AttributeError: This 'SVC' has no attribute 'predict_proba'"
    return Faulty(render_plan(changed), complaint)


# 5 compute budget ----------------------------------------------------------------------------------------------------


@_mistake(5, status="timeout", weight=1.0)
def too_many_trees(plan: Plan, script: str, rng: np.random.Generator) -> Faulty | None:
    """Far more trees than fit into the time limit."""
    name, settings = plan.estimator.name, plan.settings
    if not name.startswith(("RandomForest", "ExtraTrees", "GradientBoosting")):
        return None
    return _replaced(script, f"{name}({settings})", f"{name}(n_estimators=100000)", "timeout")


# 7 submission --------------------------------------------------------------------------------------------------------


@_mistake(7, status="invalid_submission", weight=2.0)
def wrong_submission_column(plan: Plan, script: str, rng: np.random.Generator) -> Faulty | None:
    """The prediction column has a usual name instead of the asked one."""
    target, wrong = plan.facts.target, str(rng.choice(["prediction", "pred", "target"]))
    if plan.from_sample or wrong == target:
        return None
    value, identifier = plan.names.predictions, plan.facts.id_column
    complaint = _missing_column(plan, target, [identifier, wrong])
    return _replaced(script, f'"{target}": {value}', f'"{wrong}": {value}', complaint)


def _missing_column(plan: Plan, column: str, found: list[str]) -> str:
    asked = f"{plan.facts.id_column},{plan.facts.target}"
    return f"invalid: Missing column(s) ['{column}']: expected {asked}, got {found}."


@_mistake(7, status="invalid_submission")
def no_identifiers(plan: Plan, script: str, rng: np.random.Generator) -> Faulty | None:
    """The id column is left out."""
    facts, names = plan.facts, plan.names
    complaint = _missing_column(plan, facts.id_column, [facts.target])
    old = f'{{"{facts.id_column}": {names.test}["{facts.id_column}"], '
    return None if plan.from_sample else _replaced(script, old, "{", complaint)


@_mistake(7, status="invalid_submission", weight=1.5)
def wrong_path(plan: Plan, script: str, rng: np.random.Generator) -> Faulty | None:
    """The table is written elsewhere."""
    path = str(rng.choice(['"output.csv"', '"predictions.csv"']))
    return _replaced(script, "(SUBMISSION_PATH", f"({path}", "invalid: no submission.csv was written")


@_mistake(7, status="invalid_submission")
def never_written(plan: Plan, script: str, rng: np.random.Generator) -> Faulty | None:
    """The predictions are printed, not written."""
    names = plan.names
    line = f"{names.submission}.to_csv(SUBMISSION_PATH, index=False)"
    return _replaced(script, line, f"print({names.submission}.head())", "invalid: no submission.csv was written")


# 0 no runnable code --------------------------------------------------------------------------------------------------


@_mistake(0, status="syntax_error", weight=1.0)
def unclosed_bracket(plan: Plan, script: str, rng: np.random.Generator) -> Faulty | None:
    """A bracket is never closed."""
    line = f'{plan.names.test} = pd.read_csv(f"{{DATA_DIR}}/test.csv")'
    return _replaced(script, line, line[:-1], "SyntaxError: '(' was never closed")
