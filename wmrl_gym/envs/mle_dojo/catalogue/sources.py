"""Finding data files inside installed packages, without importing the packages.

Importing river or statsmodels costs seconds and may need compiled parts; their data files need neither.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.util
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from wmrl_gym.envs.mle_dojo.catalogue.spec import Source

INSTALL = "pip install 'wmrl-gym[competitions]'"


class MissingSourceError(ImportError):
    """The package (or the file in it) that a competition is made from is not installed."""


def source_path(source: Source, file: str) -> Path:
    """Where a source's file lies on this machine.

    Raises:
        MissingSourceError: naming the package and the extra that brings it.
    """
    found = importlib.util.find_spec(source.package)
    if found is None or not found.submodule_search_locations:
        raise MissingSourceError(
            f"wmrl: the package '{source.distribution}' is not installed\n"
            f"  its file {source.package}/{file} holds the data of a bundled competition\n"
            f"  run: {INSTALL}"
        )
    path = Path(next(iter(found.submodule_search_locations)), file)
    if not path.is_file():
        raise MissingSourceError(
            f"wmrl: the installed '{source.distribution}' lacks the file {source.package}/{file}\n"
            f"  looked in: {path}\n"
            f"  that version does not ship the data; install the tested one: {INSTALL}"
        )
    return path


def digest(paths: Iterable[Path]) -> str:
    """Hex SHA-256 over the contents of files, in the order given."""
    total = hashlib.sha256()
    for path in paths:
        total.update(hashlib.sha256(path.read_bytes()).digest())
    return total.hexdigest()


def read_literals(path: Path) -> list[Any]:
    """Every literal handed to a call or assigned to a name at the top level of a Python file, without running it."""
    values: list[Any] = []
    for statement in ast.parse(path.read_bytes()).body:
        if not isinstance(statement, ast.Assign):
            continue
        nodes = statement.value.args if isinstance(statement.value, ast.Call) else [statement.value]
        for node in nodes:
            try:
                values.append(ast.literal_eval(node))
            except ValueError:
                continue
    return values
