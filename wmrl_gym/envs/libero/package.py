"""Importing LIBERO without its surprises.

Its older packages ask a question on the terminal when they are imported for the first time, which blocks a worker for
ever, and cache the paths of whatever environment answered it.
"""

from __future__ import annotations

import hashlib
import os
from importlib.util import find_spec
from pathlib import Path

_FOLDERS = {"bddl_files": "bddl_files", "init_states": "init_files", "datasets": "../datasets", "assets": "assets"}


def answer_its_question() -> None:
    """Point LIBERO_CONFIG_PATH to a file with the package's own paths, if it would ask for them.

    A configuration that the user chose through LIBERO_CONFIG_PATH is left alone.

    Raises:
        ImportError: if no package brings `libero`.
    """
    spec = find_spec("libero")
    if spec is None or not spec.submodule_search_locations:
        raise ImportError("LIBERO is not installed: pip install 'wmrl-gym[libero]'")
    root = Path(next(iter(spec.submodule_search_locations))) / "libero"
    source = root / "__init__.py"
    if not source.is_file() or "input(" not in source.read_text(encoding="utf-8"):
        return
    chosen = os.environ.get("LIBERO_CONFIG_PATH")
    if chosen and (Path(chosen).expanduser() / "config.yaml").is_file():
        return
    folder = Path.home() / ".cache" / "wmrl_gym" / "libero" / hashlib.sha256(str(root).encode()).hexdigest()[:16]
    _write_paths(folder, root)
    os.environ["LIBERO_CONFIG_PATH"] = str(folder)


def _write_paths(folder: Path, root: Path) -> None:
    lines = [f"benchmark_root: {root}", *(f"{key}: {root / below}" for key, below in _FOLDERS.items())]
    folder.mkdir(parents=True, exist_ok=True)
    # Several processes may write it at the same time: each writes its own file, and the last one wins with the same.
    draft = folder / f"config.yaml.{os.getpid()}"
    draft.write_text("\n".join(lines) + "\n", encoding="utf-8")
    draft.replace(folder / "config.yaml")
