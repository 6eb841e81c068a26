"""What the README and the pages show runs as written."""

from __future__ import annotations

import importlib
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
RUNNING = ("add_environment", "add_world_model", "add_policy")
"""Pages whose blocks, one after the other, are a whole program."""
FRAGMENT = "<!-- fragment -->"
"""Stands on the line before a block that is not run, only compiled."""


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


def test_the_readme_runs_but_for_its_fragments(
    smoke_data: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    readme = ROOT / "README.md"
    text = readme.read_text(encoding="utf-8")
    fragments = re.findall(rf"^{FRAGMENT}\n```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    whole = [code for code in blocks(readme, "python") if code not in fragments]
    assert whole and fragments
    names: dict[str, Any] = {}
    for code in whole:
        exec(compile(code, str(readme), "exec"), names)
    # The script that it shows hands nothing in.
    assert names["info"]["status"] == "invalid_submission"
    names["env"].close()


def commands(page: Path) -> list[list[str]]:
    """Arguments of each `wmrl` that takes a configuration and needs no earlier run."""
    lines = re.findall(r"^ *(?:\.venv/bin/)?wmrl (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    found = [shlex.split(line, comments=True) for line in lines]
    return [
        words
        for words in found
        if words[0] in ("train", "evaluate", "compare") and not any("..." in word for word in words)
    ]


def test_commands_of_the_readme_compose(capsys: pytest.CaptureFixture[str]) -> None:
    from wmrl_gym.cli import main

    found = commands(ROOT / "README.md")
    assert {words[0] for words in found} >= {"train", "compare"}
    for words in found:
        assert main([*words, "--show"]) == 0, (words, capsys.readouterr().err)


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


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CONTRIBUTING.md"], ids=lambda page: page.stem)
def test_files_and_names_that_pages_mention_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for path in re.findall(r"(?<![\w/.])(?:wmrl_gym|tests|benchmarks|examples|docs)/[\w./]*\w", text):
        assert (ROOT / path).exists() or list(ROOT.glob(f"{path}*")), path
    for name in re.findall(r"(?<![\w/.])wmrl_gym(?:\.\w+)+", text):
        assert exists(name), name


def exists(name: str) -> bool:
    """Whether a dotted name is a module, or something in one."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        try:
            found: Any = importlib.import_module(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        for part in parts[length:]:
            if not hasattr(found, part):
                return False
            found = getattr(found, part)
        return True
    return False


def test_every_setting_has_a_meaning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "docs" / "hooks")
    settings = importlib.import_module("settings")
    for target, heading in settings.sections().items():
        for key, _, meaning in settings.settings_of(target):
            assert meaning, f"{heading}: {key}"


@pytest.mark.slow
def test_the_site_builds_and_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=250)
    assert done.returncode == 0, done.stdout + done.stderr
    for page in tmp_path.glob("*.html"):
        html = page.read_text(encoding="utf-8")
        assert not re.search(r"<(?:script|img|iframe)[^>]*\ssrc=\"?(?:https?:)?//", html), page.name
        assert not re.search(r"<link[^>]*rel=\"?(?:stylesheet|preconnect)[^>]*href=\"?(?:https?:)?//", html), page.name
