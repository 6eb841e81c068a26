"""Random damage to a script that runs: slips that no list of known mistakes was consulted for.

A mutation changes one place of the syntax tree and knows nothing of pandas, competitions or the eight checks. Whether
it does harm is left to execution.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable
from typing import Any

import numpy as np

ATTEMPTS = 20


def mutate(script: str, rng: np.random.Generator) -> tuple[str, str] | None:
    """A damaged copy of a script, and the name of what was done to it.

    Returns:
        (script, name of the mutation), or None if nothing could be changed in `ATTEMPTS` attempts.
    """
    names = list(_MUTATIONS)
    for _ in range(ATTEMPTS):
        name = names[int(rng.integers(len(names)))]
        tree = ast.parse(script)
        if not _MUTATIONS[name](tree, rng):
            continue
        changed = ast.unparse(ast.fix_missing_locations(tree)) + "\n"
        if changed != ast.unparse(ast.parse(script)) + "\n":
            return changed, name
    return None


def _pick(options: list[Any], rng: np.random.Generator) -> Any:
    return options[int(rng.integers(len(options)))] if options else None


def _misspelt(word: str, rng: np.random.Generator) -> str:
    """Two neighbouring letters swapped, or one left out."""
    at = int(rng.integers(max(len(word) - 1, 1)))
    if len(word) < 2:
        return word * 2
    return word[:at] + word[at + 1] + word[at] + word[at + 2 :] if rng.random() < 0.5 else word[:at] + word[at + 1 :]


def _misspell_text(tree: ast.Module, rng: np.random.Generator) -> bool:
    texts = [n for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str) and n.value]
    node = _pick(texts, rng)
    if node is None:
        return False
    node.value = _misspelt(node.value, rng)
    return True


def _misspell_attribute(tree: ast.Module, rng: np.random.Generator) -> bool:
    return _misspell(tree, rng, ast.Attribute, "attr")


def _misspell_name(tree: ast.Module, rng: np.random.Generator) -> bool:
    return _misspell(tree, rng, ast.Name, "id")


def _misspell_keyword(tree: ast.Module, rng: np.random.Generator) -> bool:
    return _misspell(tree, rng, ast.keyword, "arg")


def _misspell(tree: ast.Module, rng: np.random.Generator, kind: type[ast.AST], field: str) -> bool:
    node = _pick([n for n in ast.walk(tree) if isinstance(n, kind) and getattr(n, field)], rng)
    if node is None:
        return False
    word = _misspelt(getattr(node, field), rng)
    if not word.isidentifier():
        return False
    setattr(node, field, word)
    return True


def _take_another_name(tree: ast.Module, rng: np.random.Generator) -> bool:
    names = [n for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)]
    node, bound = _pick(names, rng), sorted({n.id for n in ast.walk(tree) if isinstance(n, ast.Name)})
    if node is None:
        return False
    node.id = _pick(bound, rng)
    return True


def _delete_statement(tree: ast.Module, rng: np.random.Generator) -> bool:
    if len(tree.body) < 3:
        return False
    del tree.body[int(rng.integers(len(tree.body)))]
    return True


def _swap_statements(tree: ast.Module, rng: np.random.Generator) -> bool:
    if len(tree.body) < 3:
        return False
    at = int(rng.integers(len(tree.body) - 1))
    tree.body[at], tree.body[at + 1] = tree.body[at + 1], tree.body[at]
    return True


def _repeat_statement(tree: ast.Module, rng: np.random.Generator) -> bool:
    if not tree.body:
        return False
    at, to = (int(rng.integers(len(tree.body))) for _ in range(2))
    tree.body.insert(to, copy.deepcopy(tree.body[at]))
    return True


def _drop_argument(tree: ast.Module, rng: np.random.Generator) -> bool:
    node = _pick([n for n in ast.walk(tree) if isinstance(n, ast.Call) and (n.args or n.keywords)], rng)
    if node is None:
        return False
    arguments = node.args if node.args and (not node.keywords or rng.random() < 0.5) else node.keywords
    del arguments[int(rng.integers(len(arguments)))]
    return True


def _change_number(tree: ast.Module, rng: np.random.Generator) -> bool:
    numbers = [
        n
        for n in ast.walk(tree)
        if isinstance(n, ast.Constant) and isinstance(n.value, int | float) and not isinstance(n.value, bool)
    ]
    node = _pick(numbers, rng)
    if node is None:
        return False
    node.value = _pick([0, -node.value, node.value + 1, node.value * 10, node.value / 2], rng)
    return True


_MUTATIONS: dict[str, Callable[[ast.Module, np.random.Generator], bool]] = {
    "misspell_text": _misspell_text,
    "misspell_attribute": _misspell_attribute,
    "misspell_name": _misspell_name,
    "misspell_keyword": _misspell_keyword,
    "take_another_name": _take_another_name,
    "delete_statement": _delete_statement,
    "swap_statements": _swap_statements,
    "repeat_statement": _repeat_statement,
    "drop_argument": _drop_argument,
    "change_number": _change_number,
}
