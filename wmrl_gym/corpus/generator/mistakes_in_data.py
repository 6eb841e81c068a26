"""Mistakes in files, columns, shapes and dtypes, and in what an estimator is asked for."""

from __future__ import annotations

import dataclasses
import re

import numpy as np

from wmrl_gym.corpus.generator.estimators import estimators_for
from wmrl_gym.corpus.generator.mistake import Faulty, mistake, replaced, without_line
from wmrl_gym.corpus.generator.scripts import Plan, render_plan

# 3 files and columns --------------------------------------------------------------------------------------------------


@mistake(3, weight=1.5)
def wrong_file(plan: Plan, script: str, rng: np.random.Generator) -> Faulty | None:
    """A file that is not there."""
    path = str(rng.choice(["{DATA_DIR}/training.csv", "{DATA_DIR}/data.csv", "{DATA_DIR}train.csv"]))
    real = path.replace("{DATA_DIR}", "/data")
    complaint = f"FileNotFoundError: [Errno 2] No such file or directory: '{real}'"
    return replaced(script, "{DATA_DIR}/train.csv", path, complaint)


@mistake(3, weight=1.5)
def wrong_column(plan: Plan, script: str, rng: np.random.Generator) -> Faulty | None:
    """The target is called by a usual name instead of its own."""
    target, wrong = plan.facts.target, str(rng.choice(["target", "label", "y"]))
    if wrong == target or wrong in plan.facts.numeric:
        return None
    line = f'{plan.names.target} = {plan.names.train}["{target}"]'
    return replaced(script, line, line.replace(f'"{target}"', f'"{wrong}"'), f"KeyError: '{wrong}'")


@mistake(3)
def dropped_column(plan: Plan, script: str, rng: np.random.Generator) -> Faulty | None:
    """The id is dropped from the test table, and needed later."""
    names, identifier = plan.names, plan.facts.id_column
    old = f'{names.features_test} = {names.test}.drop(columns=["{identifier}"])'
    new = f'{names.test} = {names.test}.drop(columns=["{identifier}"])\n{names.features_test} = {names.test}'
    return None if plan.from_sample else replaced(script, old, new, f"KeyError: '{identifier}'")


@mistake(3)
def target_from_test(plan: Plan, script: str, rng: np.random.Generator) -> Faulty | None:
    """The target is dropped from the test table, which does not have it."""
    names, facts = plan.names, plan.facts
    complaint = f"KeyError: \"['{facts.target}'] not found in axis\""
    old = f'{names.test}.drop(columns=["{facts.id_column}"])'
    return replaced(script, old, f'{names.test}.drop(columns=["{facts.id_column}", "{facts.target}"])', complaint)


@mistake(3, weight=2.0)
def wrong_image_path(plan: Plan, script: str, rng: np.random.Generator) -> Faulty | None:
    """Images sought in another folder or with another ending."""
    if plan.recipe != "pixels":
        return None
    wrong = str(rng.choice(["{DATA_DIR}/{folder}/{i}.jpg", "{DATA_DIR}/images/{i}.png", "{folder}/{i}.png"]))
    real = wrong.replace("{DATA_DIR}", "/data").replace("{folder}", "train").replace("{i}", "1")
    complaint = f"FileNotFoundError: [Errno 2] No such file or directory: '{real}'"
    return replaced(script, "{DATA_DIR}/{folder}/{i}.png", wrong, complaint)


# 4 shapes and dtypes --------------------------------------------------------------------------------------------------


@mistake(4, weight=3.0)
def strings_into_fit(plan: Plan, script: str, rng: np.random.Generator) -> Faulty | None:
    """Text columns reach the estimator."""
    if not plan.facts.categorical or plan.estimator.name.startswith("Dummy") or plan.facts.modality != "tabular":
        return None
    names = plan.names
    if plan.recipe == "numeric":
        edited = without_line(script, f'{names.features} = {names.features}.select_dtypes("number")')
    elif plan.recipe == "codes":
        loop = 'for col in both.select_dtypes(exclude="number"):\n'
        edited = script.replace(loop + '    both[col] = both[col].astype("category").cat.codes\n', "")
    elif plan.recipe == "dummies":
        edited = without_line(script, "both = pd.get_dummies(both)")
    else:
        return None
    if plan.facts.missing:  # filling comes before fitting, and fails first
        edited = re.sub(r"(?m)^.*\.fillna\(.*\n", "", edited)
    value = str(rng.choice(["a", "male", "north", "yes", "2010-04-01"]))
    return Faulty(edited, f"ValueError: could not convert string to float: '{value}'")


_REFUSES_MISSING = ("Linear", "Ridge", "Lasso", "KNeighbors", "SVR", "SVC", "Logistic", "GaussianNB", "Gradient")


@mistake(6, weight=3.0)
def missing_into_fit(plan: Plan, script: str, rng: np.random.Generator) -> Faulty | None:
    """Missing values reach an estimator that refuses them."""
    if not plan.facts.missing or not plan.estimator.name.startswith(_REFUSES_MISSING) or not plan.facts.numeric:
        return None
    if plan.recipe not in ("numeric", "codes", "dummies"):
        return None
    edited = re.sub(r"(?m)^.*\.fillna\(.*\n", "", script)
    return Faulty(edited, "ValueError: Input X contains NaN.")


@mistake(4)
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
    return replaced(script, old, f'{names.train}.drop(columns=["{facts.target}"])', complaint)


@mistake(4, weight=2.0)
def refitted_vectorizer(plan: Plan, script: str, rng: np.random.Generator) -> Faulty | None:
    """The vectorizer is fitted again on the test texts, and finds other words."""
    if "max_features" in plan.vectorizer or plan.estimator.name.startswith("Dummy"):
        return None
    found, expected = sorted(rng.integers(200, 4000, 2))
    name = plan.estimator.name
    complaint = f"ValueError: X has {found} features, but {name} is expecting {expected} features as input."
    return replaced(script, "vec.transform(", "vec.fit_transform(", complaint)


@mistake(4, weight=1.5)
def frame_into_vectorizer(plan: Plan, script: str, rng: np.random.Generator) -> Faulty | None:
    """A table instead of a column is vectorised: it iterates over its column names."""
    if plan.recipe != "words":
        return None
    names, column = plan.names, plan.facts.text_column
    edited = script.replace(f'{names.train}["{column}"]', f'{names.train}[["{column}"]]')
    complaint = f"ValueError: Found input variables with inconsistent numbers of samples: [1, {plan.facts.train_rows}]"
    return Faulty(edited, complaint)


@mistake(4, weight=3.0)
def images_not_flattened(plan: Plan, script: str, rng: np.random.Generator) -> Faulty | None:
    """Images stay two-dimensional."""
    if plan.estimator.name.startswith("Dummy"):
        return None
    dimensions = 4 if plan.facts.image_mode == "RGB" else 3
    model = "PCA" if plan.reduce else "StandardScaler" if plan.scale else plan.estimator.name
    complaint = f"ValueError: Found array with dim {dimensions}, while dim <= 2 is required by {model}."
    return replaced(script, ".ravel()", "", complaint)


@mistake(4)
def predicted_training_rows(plan: Plan, script: str, rng: np.random.Generator) -> Faulty | None:
    """The training table is predicted instead of the test table."""
    names, facts = plan.names, plan.facts
    complaint = (
        f"ValueError: Length of values ({facts.train_rows}) does not match length of index ({facts.test_rows})"
        if plan.from_sample
        else f"ValueError: array length {facts.train_rows} does not match index length {facts.test_rows}"
    )
    return replaced(script, f"({names.features_test})", f"({names.features})", complaint)


@mistake(4, weight=2.0)
def both_probabilities(plan: Plan, script: str, rng: np.random.Generator) -> Faulty | None:
    """Both columns of predict_proba go into one column."""
    complaint = "ValueError: Per-column arrays must each be 1-dimensional"
    return None if plan.from_sample else replaced(script, ")[:, 1]", ")", complaint)


# 2/6 what an estimator cannot do --------------------------------------------------------------------------------------


@mistake(2, weight=2.0)
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
