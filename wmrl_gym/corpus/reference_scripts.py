"""The catalogue's reference solutions as scripts that an agent could have handed in.

Each is put together from the source of `reference_features` and `reference_models`, so that it does what the solution
on the leaderboard did. Their author never saw the grammar that the nano agent's corpus is written in.
"""

from __future__ import annotations

import ast
import copy
import csv
import inspect
from collections.abc import Iterable
from functools import cache
from types import ModuleType
from typing import Any

from wmrl_gym.envs.mle_dojo.catalogue import reference_features, reference_models
from wmrl_gym.envs.mle_dojo.catalogue.leaderboards import leaderboard_file
from wmrl_gym.envs.mle_dojo.catalogue.spec import CompetitionSpec

MAX_SECONDS = 2.0
"""Slower solutions are left out: on a busy machine they would run into the sandbox's limit."""

_LOADING = {
    "tabular": "train, test = table.drop(columns=[{id!r}, {target!r}]), test_table.drop(columns=[{id!r}])",
    "text": "train, test = table[{text!r}], test_table[{text!r}]",
    "image": (
        "def load(folder, ids):\n"
        "    return np.stack([np.asarray(Image.open(f'{{DATA_DIR}}/{{folder}}/{{number}}.png')) for number in ids])\n"
        "train, test = load('train', table[{id!r}]), load('test', test_table[{id!r}])"
    ),
}
_TAIL = """
sample = pd.read_csv(f'{{DATA_DIR}}/sample_submission.csv')
sample[{target!r}] = {answer}
sample.to_csv(SUBMISSION_PATH, index=False)
"""
_OWN_IMPORTS = (
    "import numpy as np",
    "import pandas as pd",
    "from PIL import Image",
    "from sklearn.compose import TransformedTargetRegressor",
    "from sklearn.pipeline import make_pipeline",
)


def reference_recipes(spec: CompetitionSpec) -> list[str]:
    """Recipes of a competition that can be written as a script, in the order of its leaderboard.

    Blends are left out, because they are built by recursion.
    """
    with leaderboard_file(spec.name).open(newline="", encoding="utf-8") as lines:
        rows = list(csv.DictReader(lines))
    return [row["solution"] for row in rows if float(row["seconds"]) <= MAX_SECONDS and "blend" not in row["solution"]]


def reference_script(spec: CompetitionSpec, recipe: str, text_column: str | None = None) -> str:
    """A recipe ("features:estimator", perhaps with "@rows" or "~log") as a script that needs nothing of ours.

    Args:
        spec: the competition.
        recipe: of its pool.
        text_column: the column of texts, for a competition of texts.
    """
    body, log_target = recipe.removesuffix("~log"), recipe.endswith("~log")
    body, _, rows = body.partition("@")
    features, model = body.split(":")
    kind = "regressor" if spec.answer == "number" else "classifier"
    feature_lines, feature_maker = _inlined(reference_features, _FEATURES[spec.category], features)
    _, estimator = _inlined(reference_models, kind, model)
    if log_target:
        estimator = f"TransformedTargetRegressor({estimator}, func=np.log1p, inverse_func=np.expm1)"
    lines = [
        "table = pd.read_csv(f'{DATA_DIR}/train.csv')",
        "test_table = pd.read_csv(f'{DATA_DIR}/test.csv')",
        _LOADING[spec.category].format(id=spec.id_column, target=spec.target, text=text_column),
        f"target = table[{spec.target!r}]",
        *([f"train, target = train[:{rows}], target[:{rows}]"] if rows else []),
        *([f"target_type = {_target_type(spec)}"] if "target_type" in feature_maker else []),
        *(["size = train.shape[1]"] if "size" in feature_maker else []),
        *feature_lines,
        f"model = make_pipeline({feature_maker}, {estimator})",
        "model.fit(train, target)",
    ]
    tail = _TAIL.format(target=spec.target, answer=_answer(spec, model)).strip()
    tree = ast.parse("\n".join([*lines, tail]))
    functions = _functions_used(reference_features, tree)
    whole = ast.Module([*functions, *tree.body], [])
    imports = _imports_used(whole, (reference_features, reference_models))
    return "\n".join([*imports, "", *(ast.unparse(function) for function in functions), ast.unparse(tree)]) + "\n"


_FEATURES = {"tabular": "table_features", "text": "text_features", "image": "image_features"}


def _target_type(spec: CompetitionSpec) -> str:
    return "'continuous'" if spec.answer == "number" else "'binary' if target.nunique() == 2 else 'multiclass'"


def _answer(spec: CompetitionSpec, model: str) -> str:
    if spec.answer != "probability":
        return "model.predict(test)"
    if hasattr(reference_models.classifier(model), "predict_proba"):
        return "model.predict_proba(test)[:, 1]"
    return "1 / (1 + np.exp(-model.decision_function(test)))"


@cache
def _module(module: ModuleType) -> ast.Module:
    return ast.parse(inspect.getsource(module))


def _inlined(module: ModuleType, function: str, key: str) -> tuple[list[str], str]:
    """The statements of a maker's function that an entry of its ``makers`` needs, and the entry's expression."""
    definitions = [node for node in _module(module).body if isinstance(node, ast.FunctionDef)]
    body = next(node.body for node in definitions if node.name == function)
    assignments = [(i, node.value) for i, node in enumerate(body) if isinstance(node, ast.Assign)]
    at, table = next((i, value) for i, value in assignments if isinstance(value, ast.Dict))
    entry = next(
        value
        for name, value in zip(table.keys, table.values, strict=True)
        if isinstance(name, ast.Constant) and name.value == key
    )
    made = entry.body if isinstance(entry, ast.Lambda) else ast.Call(entry, [], [])
    needed, kept = _names(made), []
    for node in reversed(body[:at]):
        if isinstance(node, ast.AnnAssign) and node.value is not None:
            node = ast.Assign([node.target], node.value, lineno=node.lineno)
        if isinstance(node, ast.Assign) and needed & set().union(*(_names(target) for target in node.targets)):
            kept.append(node)
            needed |= _names(node.value)
    return [ast.unparse(_plain(node)) for node in reversed(kept)], ast.unparse(_plain(made))


def _functions_used(module: ModuleType, tree: ast.Module) -> list[ast.stmt]:
    """The module's functions that the script calls, and those that they call, in the module's order."""
    known = {node.name: node for node in _module(module).body if isinstance(node, ast.FunctionDef)}
    used: set[str] = set()
    new = _names(tree) & set(known)
    while new:
        used |= new
        new = set().union(*(_names(known[name]) for name in new)) & set(known) - used
    return [_plain(node) for name, node in known.items() if name in used]


def _imports_used(tree: ast.AST, modules: Iterable[ModuleType]) -> list[str]:
    """One import a line, of what the script names."""
    needed, lines = _names(tree), {}
    sources = [*(_module(module) for module in modules), ast.parse("\n".join(_OWN_IMPORTS))]
    for node in (node for source in sources for node in source.body):
        if isinstance(node, ast.Import | ast.ImportFrom):
            for alias in node.names:
                name = alias.asname or alias.name
                if name in needed:
                    lines[name] = ast.unparse(
                        ast.Import([alias]) if isinstance(node, ast.Import) else ast.ImportFrom(node.module, [alias], 0)
                    )
    return sorted(set(lines.values()))


def _names(tree: ast.AST) -> set[str]:
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}


class _Plain(ast.NodeTransformer):
    """Without types and docstrings, and with the modules' constants written out."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = None
        for argument in node.args.args:
            argument.annotation = None
        if isinstance(node.body[0], ast.Expr) and isinstance(node.body[0].value, ast.Constant):
            node.body = node.body[1:]
        return self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        constants = {"SEED": reference_models.SEED, "FEW_LEVELS": reference_features.FEW_LEVELS}
        return ast.Constant(constants[node.id]) if node.id in constants else node


def _plain(node: ast.AST) -> Any:
    """A changed copy, for the parsed modules are remembered."""
    return _Plain().visit(copy.deepcopy(node))
