"""What the README and the pages show runs as written."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
RUNNING = ("add_environment", "add_world_model", "add_policy")
"""Pages whose blocks, one after the other, are a whole program."""


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_python_in_pages_compiles_and_imports_what_exists(page: Path) -> None:
    for code in blocks(page, "python"):
        # An ellipsis stands for a body that the page leaves out.
        compile(code, str(page), "exec")
        for line in re.findall(r"^from wmrl_gym[\w.]* import [^(\n]+$", code, re.MULTILINE):
            exec(line, {})


@pytest.mark.parametrize("name", RUNNING)
def test_guides_run_as_written(name: str, tmp_path: Path) -> None:
    code = "\n".join(blocks(ROOT / "docs" / f"{name}.md", "python"))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


def test_the_experiment_file_of_the_guide_composes(tmp_path: Path) -> None:
    from wmrl_gym.configs import compose_config

    (tmp_path / "experiment").mkdir()
    (tmp_path / "experiment" / "mine.yaml").write_text(blocks(ROOT / "docs" / "add_experiment.md", "yaml")[0])
    composed = compose_config("train", ["experiment=mine"], tmp_path)
    assert composed["algorithm"]["steps"] == 20 and composed["experiment_name"] == "mine"


def test_every_page_has_a_place_in_the_site() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text()
    for page in (ROOT / "docs").glob("*.md"):
        assert f": {page.name}\n" in navigation, page.name


def test_the_python_reference_lists_every_public_name() -> None:
    listed = (ROOT / "docs" / "api.md").read_text()
    for stub in sorted((ROOT / "wmrl_gym").glob("*/__init__.pyi")):
        names = re.findall(r'^    "(\w+)",$', stub.read_text(), re.MULTILINE)
        assert names
        for name in names:
            assert re.search(rf"^::: wmrl_gym\.{stub.parent.name}\.[\w.]*\b{name}$", listed, re.MULTILINE), name
