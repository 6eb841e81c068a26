"""A script as a plan (recipe, estimator, settings, names) and as text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from wmrl_gym.corpus.generator.estimators import Estimator
from wmrl_gym.corpus.generator.facts import TaskFacts


@dataclass(frozen=True)
class Manner:
    """How an author names things and orders a script."""

    train: str
    test: str
    features: str
    features_test: str
    target: str
    model: str
    predictions: str
    submission: str
    imports: tuple[str, ...]
    """First import lines."""


HURRIED = Manner("train", "test", "X", "X_test", "y", "model", "pred", "sub", ("import pandas as pd",))
LEARNED = Manner(
    *("train_df", "test_df", "X_train", "X_test", "y_train", "clf", "preds", "submission"),
    ("import numpy as np", "import pandas as pd"),
)
VERSED = Manner(
    *("train", "test", "features", "features_test", "labels", "pipe", "predictions", "out"),
    ("# load, prepare, fit, predict, write", "import pandas as pd"),
)


@dataclass(frozen=True)
class Plan:
    """Everything an author decides. `render_plan` writes it down."""

    facts: TaskFacts
    manner: Manner
    recipe: str
    """Tabular: "numeric", "chosen", "codes", "dummies", "transformer". Text: "words", "lengths". Image: "pixels"."""
    estimator: Estimator
    settings: str
    scale: bool = False
    log_target: bool = False
    """Fit log(1 + y) and transform back."""
    probability: bool = False
    """Hand in predict_proba(...)[:, 1] instead of predict(...)."""
    vectorizer: str = "TfidfVectorizer()"
    chosen: tuple[str, ...] = ()
    reduce: int | None = None
    """Principal components kept of an image."""
    fill: str = "median"
    from_sample: bool = False
    """Fill sample_submission.csv instead of building a table."""

    @property
    def names(self) -> Manner:
        """The author's names."""
        return self.manner


def render_plan(plan: Plan) -> str:
    """The script, ending with a newline."""
    recipes = {
        "numeric": _numeric,
        "chosen": _chosen,
        "codes": _codes,
        "dummies": _dummies,
        "transformer": _transformer,
        "words": _words,
        "lengths": _lengths,
        "pixels": _pixels,
    }
    lines = [*_imports(plan), *_reading(plan), *recipes[plan.recipe](plan), *_fitting(plan), *_writing(plan)]
    return "\n".join(lines) + "\n"


def _imports(plan: Plan) -> Iterator[str]:
    lines = list(plan.manner.imports)
    if (plan.recipe == "pixels" or plan.log_target) and "import numpy as np" not in lines:
        lines.append("import numpy as np")
    yield from lines
    if plan.recipe == "pixels":
        yield "from PIL import Image"
    if plan.recipe == "words":
        yield f"from sklearn.feature_extraction.text import {plan.vectorizer.split('(')[0]}"
    if plan.recipe == "transformer":
        encoder = "OrdinalEncoder" if _ordinal(plan) else "OneHotEncoder"
        yield "from sklearn.compose import ColumnTransformer"
        yield "from sklearn.impute import SimpleImputer"
        yield "from sklearn.pipeline import make_pipeline"
        yield f"from sklearn.preprocessing import {encoder}, StandardScaler"
    elif plan.scale or plan.reduce:
        yield "from sklearn.pipeline import make_pipeline"
        if plan.scale:
            yield "from sklearn.preprocessing import StandardScaler"
        if plan.reduce:
            yield "from sklearn.decomposition import PCA"
    yield plan.estimator.imported


def _reading(plan: Plan) -> Iterator[str]:
    names, facts = plan.names, plan.facts
    yield f'{names.train} = pd.read_csv(f"{{DATA_DIR}}/train.csv")'
    yield f'{names.test} = pd.read_csv(f"{{DATA_DIR}}/test.csv")'
    yield f'{names.target} = {names.train}["{facts.target}"]'


def _both_dropped(plan: Plan) -> Iterator[str]:
    names, facts = plan.names, plan.facts
    yield f'{names.features} = {names.train}.drop(columns=["{facts.id_column}", "{facts.target}"])'
    yield f'{names.features_test} = {names.test}.drop(columns=["{facts.id_column}"])'


def _filled(plan: Plan) -> Iterator[str]:
    names = plan.names
    if plan.facts.missing:
        value = "0" if plan.fill == "zero" else f"{names.features}.{plan.fill}()"
        # The test table is filled first: afterwards the medians of the training table are the same, and it is shorter.
        yield f"{names.features_test} = {names.features_test}.fillna({value})"
        yield f"{names.features} = {names.features}.fillna({value})"


def _numeric(plan: Plan) -> Iterator[str]:
    names = plan.names
    yield from _both_dropped(plan)
    yield f'{names.features} = {names.features}.select_dtypes("number")'
    yield f"{names.features_test} = {names.features_test}[{names.features}.columns]"
    yield from _filled(plan)


def _chosen(plan: Plan) -> Iterator[str]:
    names = plan.names
    quoted = ", ".join(f'"{name}"' for name in plan.chosen)
    yield f"cols = [{quoted}]"
    yield f"{names.features} = {names.train}[cols]"
    yield f"{names.features_test} = {names.test}[cols]"
    yield from _filled(plan)


def _joined(plan: Plan) -> Iterator[str]:
    names, facts = plan.names, plan.facts
    yield f'both = pd.concat([{names.train}.drop(columns=["{facts.target}"]), {names.test}])'
    yield f'both = both.drop(columns=["{facts.id_column}"])'


def _parted(plan: Plan) -> Iterator[str]:
    names = plan.names
    if plan.facts.missing:
        yield "both = both.fillna(0)" if plan.fill == "zero" else f"both = both.fillna(both.{plan.fill}())"
    yield f"{names.features} = both[:len({names.train})]"
    yield f"{names.features_test} = both[len({names.train}):]"


def _codes(plan: Plan) -> Iterator[str]:
    yield from _joined(plan)
    yield 'for col in both.select_dtypes(exclude="number"):'
    yield '    both[col] = both[col].astype("category").cat.codes'
    yield from _parted(plan)


def _dummies(plan: Plan) -> Iterator[str]:
    yield from _joined(plan)
    yield "both = pd.get_dummies(both)"
    yield from _parted(plan)


def _ordinal(plan: Plan) -> bool:
    return plan.estimator.dense or plan.estimator.name.startswith(("Gradient", "RandomForest", "ExtraTrees"))


def _transformer(plan: Plan) -> Iterator[str]:
    names = plan.names
    yield from _both_dropped(plan)
    yield f'num = {names.features}.select_dtypes("number").columns'
    yield f'cat = {names.features}.select_dtypes(exclude="number").columns'
    yield 'numeric = make_pipeline(SimpleImputer(strategy="median"), StandardScaler())'
    if _ordinal(plan):
        yield 'encoder = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1, encoded_missing_value=-1)'
    else:
        yield 'encoder = OneHotEncoder(handle_unknown="ignore")'
    yield 'prepare = ColumnTransformer([("num", numeric, num), ("cat", encoder, cat)])'


def _words(plan: Plan) -> Iterator[str]:
    names, column = plan.names, plan.facts.text_column
    fill = '.fillna("")' if plan.facts.missing else ""
    yield f"vec = {plan.vectorizer}"
    yield f'{names.features} = vec.fit_transform({names.train}["{column}"]{fill})'
    yield f'{names.features_test} = vec.transform({names.test}["{column}"]{fill})'


def _lengths(plan: Plan) -> Iterator[str]:
    names, column = plan.names, plan.facts.text_column
    fill = '.fillna("")' if plan.facts.missing else ""
    yield f'{names.features} = {names.train}[["{column}"]]{fill}.map(len)'
    yield f'{names.features_test} = {names.test}[["{column}"]]{fill}.map(len)'


def _pixels(plan: Plan) -> Iterator[str]:
    names, facts = plan.names, plan.facts
    yield "def load(folder, ids):"
    yield '    return np.array([np.array(Image.open(f"{DATA_DIR}/{folder}/{i}.png")).ravel() for i in ids]) / 255'
    yield f'{names.features} = load("train", {names.train}["{facts.id_column}"])'
    yield f'{names.features_test} = load("test", {names.test}["{facts.id_column}"])'


def _fitting(plan: Plan) -> Iterator[str]:
    names = plan.names
    model = f"{plan.estimator.name}({plan.settings})"
    steps = ["prepare"] if plan.recipe == "transformer" else ["StandardScaler()"] if plan.scale else []
    if plan.reduce:
        steps.append(f"PCA({plan.reduce})")
    yield f"{names.model} = make_pipeline({', '.join([*steps, model])})" if steps else f"{names.model} = {model}"
    target = f"np.log1p({names.target})" if plan.log_target else names.target
    yield f"{names.model}.fit({names.features}, {target})"
    if plan.probability:
        yield f"{names.predictions} = {names.model}.predict_proba({names.features_test})[:, 1]"
    else:
        yield f"{names.predictions} = {names.model}.predict({names.features_test})"
    if plan.log_target:
        yield f"{names.predictions} = np.expm1({names.predictions})"


def _writing(plan: Plan) -> Iterator[str]:
    names, facts = plan.names, plan.facts
    if plan.from_sample:
        yield f'{names.submission} = pd.read_csv(f"{{DATA_DIR}}/sample_submission.csv")'
        yield f'{names.submission}["{facts.target}"] = {names.predictions}'
    else:
        identifiers = f'{names.test}["{facts.id_column}"]'
        yield (
            f'{names.submission} = pd.DataFrame({{"{facts.id_column}": {identifiers}, '
            f'"{facts.target}": {names.predictions}}})'
        )
    yield f"{names.submission}.to_csv(SUBMISSION_PATH, index=False)"
